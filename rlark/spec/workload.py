"""RLark's Kubernetes form: the parts of a workload that are read, as its console writes them.

Whatever else stands there is kept and not checked: `rlark.spec.unused` names it. A null says
nothing, as in Kubernetes; in a list it also stands where an entry could not be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from rlark.model import Written
from rlark.spec.quantity import Cpu, Memory
from rlark.spec.resources import MOST_GPUS

MAIN = "main"
"""The container that RLark starts Ray in; the only one that is read."""
GPU = "nvidia.com/gpu"


def gpu_count(value: object) -> int:
    """GPUs of an amount as Kubernetes writes it.

    Args:
        value: a whole number, or a text of one: `"8"`.

    Raises:
        ValueError: it is neither.
    """
    text = str(value) if isinstance(value, int | str) and not isinstance(value, bool) else ""
    count = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not 0 <= count <= MOST_GPUS:
        raise ValueError(f'{str(value)[:60]!r} is no number of GPUs: write a whole number up to {MOST_GPUS}, as "8"')
    return count


def _checked_gpus(value: object) -> object:
    gpu_count(value)
    return value


class Part(Written):
    """A part of the form; keys that are not read are kept."""

    model_config = ConfigDict(extra="allow")

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if isinstance(data, Mapping):
            return {key: value for key, value in data.items() if value is not None}
        return data


class Amounts(Part):
    """Amounts of what a node has."""

    cpu: Cpu | None = Field(default=None, description="CPUs.", examples=["2"])
    memory: Memory | None = Field(default=None, description="Memory.", examples=["4Gi"])
    gpu: Annotated[int | str, BeforeValidator(_checked_gpus)] | None = Field(
        default=None, alias=GPU, description="GPUs.", examples=["8"]
    )


class PodResources(Part):
    """What the container takes of its node."""

    requests: Amounts = Field(default=Amounts(), description="What is leased.", examples=[{GPU: "8"}])
    limits: Amounts = Field(default=Amounts(), description="As requests, for GPUs.", examples=[{GPU: "8"}])


class SecretKeyRef(Part):
    """Which secret a variable is read from."""

    name: str = Field(description="The secret's name in the server's store.", examples=["huggingface"])
    key: str = Field(description="The key within that secret.", examples=["token"])
    optional: bool = Field(default=False, description="True has no meaning here.", examples=[False])


class VariableSource(Part):
    """Where a variable's value is read from."""

    secret_key_ref: SecretKeyRef | None = Field(
        default=None, description="A secret of the server's store.", examples=[{"name": "huggingface", "key": "token"}]
    )


class Variable(Part):
    """One environment variable."""

    name: str = Field(description="The variable's name.", examples=["WANDB_MODE"])
    value: str | None = Field(default=None, description="Its value; empty when absent.", examples=["offline"])
    value_from: VariableSource | None = Field(
        default=None,
        description="Where its value comes from, instead of `value`.",
        examples=[{"secretKeyRef": {"name": "huggingface", "key": "token"}}],
    )


class VolumeMount(Part):
    """Where the container sees a volume."""

    name: str = Field(description="The volume's name.", examples=["mnt-dataset"])
    mount_path: str = Field(description="Where the Job sees it, absolute.", examples=["/mnt/dataset"])
    read_only: bool = Field(default=False, description="True when the Job must not write there.", examples=[True])
    sub_path: str = Field(default="", description="A folder within a hostPath.", examples=["images"])


class HostPath(Part):
    """A folder of the node."""

    path: str = Field(description="The folder, absolute.", examples=["/data/inputs"])
    type: str = Field(default="", description="What Kubernetes expects there.", examples=["Directory"])


class EmptyDir(Part):
    """A folder that each attempt gets anew."""

    medium: str = Field(default="", description="`Memory` at /dev/shm is shared memory.", examples=["Memory"])
    size_limit: Memory | None = Field(default=None, description="The size of the shared memory.", examples=["2Gi"])


class Claim(Part):
    """A claim of pvcStorageMap: a named folder that rlark keeps."""

    claim_name: str = Field(description="The claim.", examples=["pvc-my-run-worker-mnt-checkpoints"])
    read_only: bool = Field(default=False, description="True when the Job must not write there.", examples=[True])


class Volume(Part):
    """One volume: a hostPath, a claim, or an emptyDir, which is also what no source at all means."""

    name: str = Field(description="What the mounts call it.", examples=["mnt-dataset"])
    host_path: HostPath | None = Field(
        default=None, description="A folder of the node.", examples=[{"path": "/data/inputs"}]
    )
    empty_dir: EmptyDir | None = Field(
        default=None, description="A folder that each attempt gets anew.", examples=[{"sizeLimit": "2Gi"}]
    )
    persistent_volume_claim: Claim | None = Field(
        default=None, description="A claim of pvcStorageMap.", examples=[{"claimName": "pvc-my-run-worker-out"}]
    )


class Container(Part):
    """A container; the one named `main` is the Job's."""

    name: str = Field(description="`main`.", examples=[MAIN])
    image: str | None = Field(
        default=None,
        description="An image with an explicit tag or a digest; checked and recorded, not used on a host.",
        examples=["registry.example.com/rlinf:v0.3.0"],
    )
    env: list[Variable | None] = Field(
        default_factory=list,
        description="Environment variables of the Job.",
        examples=[[{"name": "WANDB_MODE", "value": "offline"}]],
    )
    volume_mounts: list[VolumeMount | None] = Field(
        default_factory=list,
        description="Where the Job sees the volumes.",
        examples=[[{"name": "mnt-dataset", "mountPath": "/mnt/dataset"}]],
    )
    resources: PodResources = Field(
        default=PodResources(),
        description="What the Job takes of its node.",
        examples=[{"requests": {GPU: "8"}, "limits": {GPU: "8"}}],
    )


class PodSpec(Part):
    """What runs, and the volumes it may mount."""

    containers: list[Container | None] = Field(
        default_factory=list,
        description="One, named `main`.",
        examples=[[{"name": MAIN}]],
        json_schema_extra={"minItems": 1},  # where none is, a finding of its own says why one must be
    )
    volumes: list[Volume | None] = Field(
        default_factory=list,
        description="What the mounts name.",
        examples=[[{"name": "mnt-dataset", "hostPath": {"path": "/data/inputs"}}]],
    )


class Template(Part):
    """The pod's template."""

    spec: PodSpec = Field(
        default=PodSpec(), description="The pod.", examples=[{"containers": [{"name": MAIN}], "volumes": []}]
    )


class Workload(Part):
    """The workload that RLark would create."""

    kind: str = Field(default="", description="Without meaning here: a Job runs once.", examples=["StatefulSet"])
    replicas: int = Field(default=1, description="How many workers; only 1 on a single node.", examples=[1])
    pvc_storage_map: dict[str, str] = Field(
        default_factory=dict,
        description="Claim and storage class; a claim is a named folder under the state directory.",
        examples=[{"pvc-my-run-worker-mnt-checkpoints": "ceph-rbd"}],
    )
    template: Template = Field(
        default=Template(), description="The pod's template.", examples=[{"spec": {"containers": [{"name": MAIN}]}}]
    )


class Section(Part):
    """The `kubernetes` section of a task."""

    workload: Workload | None = Field(
        default=None,
        description="The workload that RLark would create.",
        examples=[{"kind": "StatefulSet", "replicas": 1, "template": {"spec": {"containers": [{"name": MAIN}]}}}],
    )
