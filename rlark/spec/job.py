"""The Job as it is written: every field of the file, with its meaning, and nothing decided.

Which values a single node allows is said by the rules in `rlark.plan.rules`; this module says
what can be written at all. The JSON schema is made of these models, so every field has a
description.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue, field_validator, model_validator
from pydantic_core import PydanticCustomError

from rlark.model import Written
from rlark.spec.quantity import Duration, seconds
from rlark.spec.resources import Resources

API_VERSION = "rlinf.io/v1alpha1"
KIND = "Job"
WORKER = "worker"
KUBERNETES = "Kubernetes"
"""The agentType of Jobs in RLark's own form."""
BESIDE_KUBERNETES = ("config", "head", "sandbox")
"""What stands under `ray` in that form; the kubernetes section says the rest."""
COMPONENTS = ("actor", "rollout", "env")
SAFETY_CONFIRMED = "rlark.io/device-safety-confirmed"
"""The annotation, to be `"true"`, without which nothing moves a real robot."""
MOST_PRIORITY = 10**9
"""As in Kubernetes."""


def _not_empty(tasks: object) -> object:
    if isinstance(tasks, list) and not tasks:
        raise PydanticCustomError("RL028", "there is no task, and a Job has exactly one, named worker")
    return tasks


class Metadata(Written):
    """What the Job is called."""

    name: str = Field(
        description="The Job's name: 1 to 63 of a-z, 0-9 and '-', alphanumeric at both ends.",
        examples=["originbot-goalnav"],
    )
    labels: dict[str, str] = Field(
        default_factory=dict, description="Words to find the Job by.", examples=[{"team": "navigation"}]
    )
    annotations: dict[str, str] = Field(
        default_factory=dict, description="Notes for programs and people.", examples=[{"note": "first try"}]
    )


class SecretRef(Written):
    """Which secret a variable is read from."""

    name: str = Field(description="The secret's name in the server's store.", examples=["huggingface"])
    key: str = Field(description="The key within that secret.", examples=["token"])


class ValueFrom(Written):
    """Where a variable's value is read from."""

    secret_ref: SecretRef = Field(
        description="A secret of the server's store.", examples=[{"name": "huggingface", "key": "token"}]
    )


class EnvVar(Written):
    """One environment variable: its value, or where it comes from."""

    name: str = Field(description="The variable's name.", examples=["MUJOCO_GL"])
    value: str | None = Field(default=None, description="Its value; a text, so quote numbers.", examples=["egl"])
    value_from: ValueFrom | None = Field(
        default=None,
        description="Where its value comes from, instead of `value`.",
        examples=[{"secretRef": {"name": "huggingface", "key": "token"}}],
    )

    @model_validator(mode="after")
    def _one_source(self) -> EnvVar:
        if (self.value is None) == (self.value_from is None):
            raise PydanticCustomError(
                "RL034", "the variable {name} needs value or valueFrom, and not both", {"name": self.name}
            )
        return self


class Mount(Written):
    """A folder that the Job sees: one of the node's own, or a named one that rlark keeps."""

    name: str = Field(default="", description="A name for people.", examples=["data"])
    host_path: str | None = Field(
        default=None, description="An existing folder of the node, absolute.", examples=["/data/inputs"]
    )
    volume: str | None = Field(
        default=None,
        description="A named folder kept under the state directory, 1 to 63 of a-z, 0-9 and '-'.",
        examples=["goalnav-out"],
    )
    scratch: bool = Field(
        default=False, description="True for an empty folder that each attempt gets anew.", examples=[True]
    )
    mount_path: str = Field(description="Where the Job sees it, absolute.", examples=["/mnt/dataset"])
    read_only: bool = Field(default=False, description="True when the Job must not write there.", examples=[True])

    @model_validator(mode="after")
    def _one_source(self) -> Mount:
        if (self.host_path is not None) + (self.volume is not None) + self.scratch != 1:
            raise PydanticCustomError(
                "RL035",
                "the mount at {path} needs one of hostPath, volume and scratch: true, and not several",
                {"path": self.mount_path},
            )
        return self


class Origin(Written):
    """Where an inline configuration was composed from."""

    path: str = Field(description="The file it was composed from.", examples=["/home/me/configs/originbot_ppo.yaml"])
    overrides: list[str] = Field(
        default_factory=list, description="The overrides that were applied.", examples=[["algorithm.seed=7"]]
    )


class ConfigSource(Written):
    """An RLinf-style configuration, composed with Hydra: a file, a folder and a name, or inline."""

    path: str | None = Field(
        default=None, description="A YAML file, relative to the Job file.", examples=["../configs/originbot_ppo.yaml"]
    )
    dir: str | None = Field(
        default=None, description="A Hydra configuration folder, together with `name`.", examples=["../configs"]
    )
    name: str | None = Field(
        default=None, description="The configuration's name in `dir`, without .yaml.", examples=["originbot_ppo"]
    )
    inline: dict[str, Any] | None = Field(
        default=None,
        description="The configuration itself.",
        examples=[{"cluster": {"num_nodes": 1, "component_placement": {"actor,rollout,env": 0}}}],
    )
    overrides: list[str] = Field(
        default_factory=list, description="Hydra overrides, applied in order.", examples=[["algorithm.seed=7"]]
    )
    origin: Origin | None = Field(
        default=None,
        description="Where an inline configuration was composed from; written by rlark.",
        examples=[{"path": "/home/me/configs/originbot_ppo.yaml", "overrides": ["algorithm.seed=7"]}],
    )

    @model_validator(mode="after")
    def _one_form(self) -> ConfigSource:
        named = self.dir is not None or self.name is not None
        forms = [form for form, used in (("path", self.path), ("inline", self.inline)) if used is not None]
        forms += ["dir and name"] if named else []
        if len(forms) != 1 or (named and (self.dir is None or self.name is None)):
            raise PydanticCustomError(
                "RL036",
                "a configuration is given as path, or as dir and name, or as inline; here: {forms}",
                {"forms": ", ".join(forms) or "none"},
            )
        return self


class Ray(Written):
    """How the Job runs on Ray."""

    replicas: int = Field(default=1, description="How many workers; only 1 on a single node.", examples=[1])
    image: str | None = Field(
        default=None,
        description="A container image with an explicit tag or a digest; checked and recorded, not used on a host.",
        examples=["registry.example.com/rlinf:v0.3.0"],
    )
    resources: Resources = Field(
        default=Resources(), description="What the Job takes of its node.", examples=[{"cpu": 2, "gpu": 1}]
    )
    env: list[EnvVar] = Field(
        default_factory=list,
        description="Environment variables of the Job.",
        examples=[[{"name": "MUJOCO_GL", "value": "egl"}]],
    )
    mounts: list[Mount] = Field(
        default_factory=list,
        description="Folders the Job sees.",
        examples=[[{"name": "out", "volume": "goalnav-out", "mountPath": "/mnt/checkpoints"}]],
    )
    config: ConfigSource | None = Field(
        default=None,
        description="The configuration of an engine, or of RLinf.",
        examples=[{"path": "../configs/originbot_ppo.yaml", "overrides": ["algorithm.seed=7"]}],
    )
    head: Literal["auto", "platform", "job"] = Field(
        default="auto", description="Which Ray head runs it: the platform's, or one of its own.", examples=["job"]
    )
    sandbox: Literal["auto", "none", "bubblewrap"] = Field(
        default="auto", description="How the Job is fenced in.", examples=["bubblewrap"]
    )


class FirstSignal(Written):
    """The first sign of life."""

    pattern: str = Field(
        description="A Python regular expression searched in each line of stdout and stderr.", examples=["iter 1/"]
    )
    within: Duration | None = Field(default=None, description="How long after the start it may take.", examples=["5m"])

    @field_validator("pattern")
    @classmethod
    def _compiles(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise PydanticCustomError(
                "RL037", "the pattern is no Python regular expression: {reason}", {"reason": str(error)}
            ) from None
        return value

    @property
    def within_s(self) -> float | None:
        """Seconds after the start; None without a deadline."""
        return seconds(self.within) if self.within is not None else None


class ExpectedOutput(Written):
    """A file that proves the work."""

    path: str = Field(
        description="Relative to the job's artifacts folder, or absolute; globs allowed.", examples=["policy.onnx"]
    )
    min_bytes: Annotated[int, Field(ge=0)] = Field(default=1, description="The least size in bytes.", examples=[1024])


class Expect(Written):
    """What proves that the Job works."""

    first_signal: FirstSignal | None = Field(
        default=None, description="The first sign of life.", examples=[{"pattern": "iter 1/", "within": "5m"}]
    )
    outputs: list[ExpectedOutput] = Field(
        default_factory=list,
        description="Files that must be there at the end.",
        examples=[[{"path": "policy.onnx", "minBytes": 1024}]],
    )
    gate: bool = Field(
        default=False, description="True when a failed quality gate makes the Job Failed.", examples=[True]
    )


class Worker(Written):
    """The one process that runs the Job: the only entry of `spec.tasks`."""

    name: str = Field(description="Always `worker`.", examples=["worker"])
    head: bool = Field(
        default=False, description="True: the worker is the Header, which starts the Job.", examples=[True]
    )
    role: str = Field(default="", description="Kept for RLark; without meaning here.", examples=["Actor"])
    agent_type: str = Field(default="Ray", description="Ray, or Kubernetes for RLark's own form.", examples=["Ray"])
    node_selector: dict[str, str] = Field(
        default_factory=dict,
        description="Labels the node must have: all keys, any of a key's comma-separated values.",
        examples=[{"rlark.io/node-category-cloud": "true"}],
    )
    prepare_script: str = Field(
        default="",
        description="Bash that is sourced first; exports, cd and activate persist. Blank is absent.",
        examples=["source .venv/bin/activate\n"],
    )
    ray: Ray = Field(
        default=Ray(),
        description="How the Job runs on Ray.",
        examples=[{"resources": {"cpu": 2}, "config": {"path": "../configs/originbot_ppo.yaml"}}],
    )
    kubernetes: dict[str, JsonValue] | None = Field(
        default=None,
        description="RLark's own form of the Job, with agentType Kubernetes: read in place of `ray`, which then "
        "carries only config, head and sandbox. What has no meaning on one machine is named in a warning.",
        examples=[{"workload": {"template": {"spec": {"containers": [{"name": "main"}]}}}}],
    )
    run_script: str = Field(
        default="",
        description="Bash that is the run, instead of an engine. Blank is absent.",
        examples=["python train.py"],
    )
    tensor_board_dir: str = Field(
        default="",
        description="Where TensorBoard's event files go; the job folder's own when empty.",
        examples=["/mnt/checkpoints/tb"],
    )
    expect: Expect = Field(
        default=Expect(),
        description="What proves that the Job works.",
        examples=[{"outputs": [{"path": "policy.onnx", "minBytes": 1024}]}],
    )

    @property
    def from_kubernetes(self) -> bool:
        """True when `ray`, but for config, head and sandbox, was read from the kubernetes section."""
        return self.agent_type == KUBERNETES and self.kubernetes is not None

    @property
    def prepare(self) -> str:
        """The prepare script; empty when absent or blank."""
        return self.prepare_script if self.prepare_script.strip() else ""

    @property
    def run(self) -> str:
        """The run script; empty when absent or blank."""
        return self.run_script if self.run_script.strip() else ""


class Spec(Written):
    """What is to run, and how it may end."""

    tasks: Annotated[list[Worker], BeforeValidator(_not_empty)] = Field(
        description="Exactly one, named `worker`.",
        examples=[[{"name": "worker", "head": True, "runScript": "python train.py\n"}]],
    )
    stopped: bool = Field(default=False, description="True: accepted, and not started.", examples=[True])
    priority: Annotated[int, Field(ge=-MOST_PRIORITY, le=MOST_PRIORITY)] = Field(
        default=0, description="Higher runs earlier; first come, first served within one.", examples=[10]
    )
    restart_policy: Literal["Never", "OnFailure"] = Field(
        default="Never", description="Whether a failed attempt is followed by another.", examples=["OnFailure"]
    )
    backoff_limit: Annotated[int, Field(ge=0)] = Field(
        default=0, description="How many further attempts OnFailure allows.", examples=[2]
    )
    active_deadline: Duration | None = Field(default=None, description="How long an attempt may take.", examples=["2h"])
    termination_grace: Duration = Field(
        default="30s", description="How long a stopped Job may take to end by itself.", examples=["30s"]
    )
    domain: str = Field(default="", description="Only empty: one node needs no cross-cluster network.", examples=[""])
    ssh_public_key: str = Field(
        default="", description="An SSH public key; checked and recorded.", examples=["ssh-ed25519 AAAA... me@laptop"]
    )

    @property
    def deadline_s(self) -> float | None:
        """Seconds an attempt may take; None without a limit."""
        return seconds(self.active_deadline) if self.active_deadline is not None else None

    @property
    def grace_s(self) -> float:
        """Seconds between SIGTERM and SIGKILL."""
        return seconds(self.termination_grace)


class Job(Written):
    """One run on one node."""

    api_version: str = Field(description="Always rlinf.io/v1alpha1.", examples=[API_VERSION])
    kind: str = Field(description="Always Job.", examples=[KIND])
    metadata: Metadata = Field(
        description="What the Job is called.",
        examples=[{"name": "originbot-goalnav", "labels": {"team": "navigation"}}],
    )
    spec: Spec = Field(
        description="What is to run, and how it may end.",
        examples=[{"tasks": [{"name": "worker", "head": True, "runScript": "python train.py\n"}]}],
    )

    @property
    def name(self) -> str:
        """The Job's name."""
        return self.metadata.name

    @property
    def worker(self) -> Worker:
        """The single entry of `spec.tasks`, which is never empty; a rule says so where there are more."""
        return self.spec.tasks[0]
