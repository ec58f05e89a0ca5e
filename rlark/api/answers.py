"""The shapes of every answer, as the OpenAPI document shows them. Tests hold the real answers against them."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import ConfigDict, Field, JsonValue

from rlark.model import Model
from rlark.plan.node import Node
from rlark.plan.plan import RankPlacement
from rlark.spec.finding import Finding
from rlark.spec.status import EventRecord, JobStatus


class Problem(Model):
    """A refusal (RFC 9457): where, what, why and how to mend it."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    exit_code: int
    error: str
    hint: str | None
    findings: list[Finding]
    details: dict[str, JsonValue]


class Alive(Model):
    """This process answers."""

    ok: bool


class Health(Model):
    """What answers here."""

    ok: bool
    service: str
    version: str


class Index(Model):
    """Where to go from here."""

    service: str
    version: str
    docs: str
    openapi: str


class Secret(Model):
    """A secret, its keys, and when one of them was set or deleted last; values are never told."""

    name: str
    keys: list[str]
    updated_at: datetime


class SecretList(Model):
    """Every secret by name."""

    items: list[Secret]


class SignedIn(Model):
    """The session has begun, in a cookie; and the path to go on to."""

    to: str


class OneTimeLink(Model):
    """A path of this address that signs a browser in, once, until it expires; and where it leads."""

    path: str
    to: str
    expires_at: datetime


class Ready(Model):
    """Whether a Job can be taken now; `reason` says why not."""

    ready: bool
    reason: str


class JobMetadata(Model):
    """A Job's name, what people wrote beside it, and what the server knows of it."""

    name: str
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    uid: str
    creation_timestamp: datetime
    generation: int


class Job(Model):
    """A Job: what was written of it, in its canonical form, and where it stands."""

    api_version: str
    kind: Literal["Job"]
    metadata: JobMetadata
    spec: dict[str, JsonValue]
    status: JobStatus


class JobList(Model):
    """Jobs, the newest first, and the token of the next page."""

    items: list[Job]
    more: str | None = Field(alias="continue")


class Validation(Model):
    """Everything that is wrong with a Job."""

    ok: bool
    exit_code: int
    findings: list[Finding]


class ReviewRow(Model):
    """One line of what a person checks before submitting."""

    check: str
    expected: str
    actual: str
    ok: bool


class Preview(Model):
    """All that was decided about a Job; what could not be decided is null."""

    name: str
    ok: bool
    exit_code: int
    yaml: str | None
    digest: str | None
    findings: list[Finding]
    review: list[ReviewRow]
    node: str | None
    placement: dict[str, list[RankPlacement]] | None
    world_size: dict[str, int] | None
    gpus_required: int | None


class LogRecord(Model):
    """One line of one stream: `stdout`, `stderr` or `<component>-<rank>`."""

    attempt: int
    stream: str
    component: str | None
    rank: int | None
    time: str | None
    line: str


class LogRecords(Model):
    """Log lines in order."""

    items: list[LogRecord]


class EventList(Model):
    """Why things happened, the oldest first."""

    items: list[EventRecord]


class Curves(Model):
    """One list a metric, null where nothing was measured; `count` is their length."""

    metrics: dict[str, list[JsonValue]]
    count: int


class Artifact(Model):
    """One file of the manifest."""

    path: str
    sha256: str
    size_bytes: int


class ArtifactList(Model):
    """The files, and whether each is as listed; `code` and `detail` say what is not."""

    files: list[Artifact]
    verified: bool
    code: str | None
    detail: str


class CheckpointItem(Model):
    """A checkpoint: the iterations that were done, its folder on the node, and what it is of (empty: not known)."""

    iteration: int
    path: str
    engine: str
    task: str


class CheckpointList(Model):
    """The checkpoints of a Job, oldest first."""

    items: list[CheckpointItem]


class NodeAmounts(Model):
    """Amounts of a node: memory and shm in bytes."""

    cpus: float | None
    memory: int | None
    gpus: int | None
    shm: int = 0


class LeasedGpu(Model):
    """A GPU that a Job holds: `logical` is the Job's number for it, `id` the node's."""

    logical: int
    id: str
    uuid: str | None
    model: str
    faked: bool


class NodeLease(Model):
    """What one attempt holds of a node."""

    job: str
    attempt: int
    cpus: float
    memory: int
    gpus: list[LeasedGpu]


class NodeState(Node):
    """A node as in an inventory file, with its phase, its amounts and who holds what."""

    model_config = ConfigDict(extra="forbid")

    phase: Literal["Online", "Offline", "Cordoned"]
    capacity: NodeAmounts
    allocatable: NodeAmounts
    used: NodeAmounts
    leases: list[NodeLease]


class NodeList(Model):
    """Every node."""

    items: list[NodeState]


class Turn(Model):
    """A waiting Job, its place counted from 1, and why it waits."""

    job: str
    position: int
    reason: str
    priority: int


class Queue(Model):
    """The waiting Jobs in order."""

    items: list[Turn]


class ClusterState(Model):
    """A place where Jobs run, summed up; usages are shares from 0 to 1."""

    id: str
    name: str
    type: str
    phase: Literal["Online", "Degraded", "Offline"]
    total_nodes: int
    online_nodes: int
    offline_nodes: int
    cloud_nodes: int
    gpu_models: list[str]
    gpus: int
    gpus_faked: bool
    gpu_usage: float
    cpus: float
    cpu_usage: float
    memory: int
    running_jobs: int


class ClusterList(Model):
    """Every place where Jobs run."""

    items: list[ClusterState]


class EngineRequirement(Model):
    """Something an engine needs, and the command that installs it."""

    name: str
    kind: Literal["package", "program"]
    met: bool
    install: str


class EngineState(Model):
    """An engine that is installed here, and whether it can run."""

    id: str
    title: str
    components: list[str]
    tasks: list[str]
    can_fuse: bool
    uses_gpu: bool
    max_ranks: dict[str, int]
    requirements: list[EngineRequirement]
    available: bool


class EngineList(Model):
    """Every engine."""

    items: list[EngineState]
