"""Nodes, what they offer, and the two kinds of GPU number that must never be mixed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NewType

from pydantic import Field

from rlark.model import StoredModel

LogicalGpu = NewType("LogicalGpu", int)
"""A GPU as the Job counts: 0 is the first GPU of its lease."""

PhysicalGpu = NewType("PhysicalGpu", str)
"""A GPU as the node counts: a number or UUID fit for CUDA_VISIBLE_DEVICES."""

CATEGORY = "rlark.io/node-category"
CATEGORY_CLOUD = "rlark.io/node-category-cloud"
HOSTNAME = "kubernetes.io/hostname"
GPU_MODEL = "rlark.io/gpu-model"
NODE_NAME = "rlark.io/node"


def default_labels(name: str, gpu_model: str = "") -> dict[str, str]:
    """The labels a node has unless `up --labels` says otherwise."""
    labels = {HOSTNAME: name, CATEGORY: "cloud", CATEGORY_CLOUD: "true"}
    return labels | ({GPU_MODEL: gpu_model.replace(" ", "-")} if gpu_model else {})


class Device(StoredModel):
    """A GPU of a node.

    Attributes:
        id: what CUDA_VISIBLE_DEVICES takes, a `PhysicalGpu`.
        uuid: the device's UUID; None when faked or unknown.
        model: the product name; empty when faked or unknown.
        faked: True when no such device exists.
    """

    id: str
    uuid: str | None = None
    model: str = ""
    faked: bool = False


class Node(StoredModel):
    """One machine (or Ray node) that can run Jobs.

    Attributes:
        name: stable; survives restarts of Ray.
        id: Ray's node id, changing with every start; empty in an inventory file.
        labels: what a selector is matched against.
        cpus: how many Ray may hand out.
        memory: bytes; 0 when unknown.
        shm: bytes of /dev/shm; 0 when unknown.
        gpus: how many.
        gpu_model: the product name; empty when there is none, or it is unknown or faked.
        gpus_faked: True when `--num-gpus` claims GPUs that were not found.
        online: False when the node is gone.
        unschedulable: True when cordoned.
        free_cpus: not leased now; None where nobody knows (an inventory file).
        free_gpus: not leased now.
        free_memory: bytes not leased now.
        free_shm: bytes of /dev/shm not leased now.
        devices: its GPUs one by one; empty where nobody has looked.
        holders: GPU count -> by whom, `{job: gpus}`, for the reason in the queue.
    """

    name: str
    id: str = ""
    labels: Mapping[str, str] = Field(default_factory=dict)
    cpus: float = 1
    memory: int = 0
    shm: int = 0
    gpus: int = 0
    gpu_model: str = ""
    gpus_faked: bool = False
    online: bool = True
    unschedulable: bool = False
    free_cpus: float | None = None
    free_gpus: int | None = None
    free_memory: int | None = None
    free_shm: int | None = None
    devices: list[Device] = Field(default_factory=list)
    holders: Mapping[str, int] = Field(default_factory=dict)

    @property
    def usable(self) -> bool:
        """Online and not cordoned."""
        return self.online and not self.unschedulable


class Inventory(StoredModel):
    """All nodes there are.

    Attributes:
        nodes: in the order of their names.
        source: where it comes from: `ray`, `this machine` or a file's name.
    """

    nodes: list[Node] = Field(default_factory=list)
    source: str = ""

    def node(self, name: str) -> Node | None:
        """The node of that name."""
        return next((node for node in self.nodes if node.name == name), None)


def name_gpus(ids: Sequence[str], *, faked: bool) -> str:
    """GPUs for people, who must see it where no such device exists: `GPU 0,1 (faked)`."""
    return f"GPU {','.join(ids)}{' (faked)' if faked else ''}"


class Lease(StoredModel):
    """Physical capacity of one node, held by one attempt of one Job (`lease.json`).

    Attributes:
        job: the Job's name.
        attempt: the try that holds it, from 1.
        key: the cluster's own name for it (the placement group's).
        node: the node's stable name.
        node_id: Ray's id of it.
        devices: logical GPU i is the i-th of these.
        cpus: how many.
        memory: bytes; 0 when not counted.
        head: how a process of the Job reaches Ray.
        retry: attempts that failed before this one since a person started the Job: it goes on where they stopped.
    """

    job: str
    attempt: int
    key: str
    node: str
    node_id: str = ""
    devices: list[Device] = Field(default_factory=list)
    cpus: float = 1
    memory: int = 0
    head: HeadAddress | None = None
    retry: int = 0

    def physical(self, gpu: LogicalGpu) -> PhysicalGpu:
        """The only door from a Job's number for a GPU to the node's."""
        return PhysicalGpu(self.devices[gpu].id)


class HeadAddress(StoredModel):
    """Where a Ray head answers.

    Attributes:
        address: `host:port` of its GCS.
        session: Ray's name for the session.
        dashboard: `http://host:port`; empty without one.
        token_path: the file with Ray's token, mode 0600; empty when Ray asks for none.
        namespace: the Ray namespace the platform uses.
    """

    address: str
    session: str = ""
    dashboard: str = ""
    token_path: str = ""
    namespace: str = "rlark"


Lease.model_rebuild()
