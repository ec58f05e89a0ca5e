"""Where a Job stands: phase, conditions, events, and the object the API answers with."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, PlainSerializer

from rlark.host.clock import stamp
from rlark.model import StoredModel

Moment = Annotated[datetime, PlainSerializer(stamp, return_type=str, when_used="json")]
"""A time of day, aware, written like every other time: `2026-01-31T12:00:00.123Z`."""


class Phase(StrEnum):
    """Where a Job stands, in RLark's five words."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    STOPPED = "Stopped"

    @property
    def ended(self) -> bool:
        """True when nothing of the Job runs and nothing will start by itself."""
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED)


class ConditionType(StrEnum):
    """The steps of a Job's life, in their order."""

    VALIDATED = "Validated"
    QUEUED = "Queued"
    LEASED = "Leased"
    PREPARED = "Prepared"
    RAY_READY = "RayReady"
    PLACED = "Placed"
    STARTED = "Started"
    SIGNAL_SEEN = "SignalSeen"
    OUTPUTS_VERIFIED = "OutputsVerified"


class Condition(StoredModel):
    """One aspect of a Job, and since when it is so."""

    type: ConditionType
    status: Literal["True", "False", "Unknown"]
    reason: str = ""
    message: str = ""
    last_transition_time: Moment


class EventRecord(StoredModel):
    """Why something about a Job changed; a line of `rlark events`.

    Attributes:
        seq: counted from 1 over all Jobs; the ledger's order.
        time: when it was written.
        attempt: which try it belongs to; 0 before the first.
        type: `Normal` or `Warning`.
        reason: one CamelCase word for programs.
        message: a sentence for people.
    """

    seq: int = 0
    time: Moment
    attempt: int = 0
    type: Literal["Normal", "Warning"] = "Normal"
    reason: str
    message: str = ""


class GpuLeaseStatus(StoredModel):
    """One leased GPU as a user sees it.

    Attributes:
        logical: the Job's own number for it, from 0.
        id: the machine's number or name for it.
        uuid: the device's UUID; None when faked or unknown.
        faked: True when the node only claims to have it (`rlark up --num-gpus`).
    """

    logical: int
    id: str
    uuid: str | None = None
    faked: bool = False


class LeaseStatus(StoredModel):
    """What one attempt holds."""

    cpus: float
    memory: int = 0
    gpus: list[GpuLeaseStatus] = Field(default_factory=list)


class RankStatus(StoredModel):
    """One rank as it really runs, reported by the run itself (`ranks.json`).

    Attributes:
        component: `actor`, `rollout` or `env`; `actor+rollout+env` when fused.
        rank: from 0 within the component.
        pid: its process on the node.
        gpus: logical GPUs it may see.
        visible_devices: its CUDA_VISIBLE_DEVICES.
        faked: True when those GPUs are faked.
        log: its log file, relative to the attempt's log folder.
    """

    component: str
    rank: int
    pid: int
    gpus: list[int] = Field(default_factory=list)
    visible_devices: str = ""
    faked: bool = False
    log: str = ""


class Progress(StoredModel):
    """How far the training is: the last line of metrics.jsonl, in short."""

    iteration: int
    iterations: int
    metrics: dict[str, float | None] = Field(default_factory=dict)


class QueueStatus(StoredModel):
    """Where a waiting Job stands and why."""

    position: int
    reason: str


class PointsAt(StoredModel):
    """The earliest step of a Job's life whose result is missing.

    Attributes:
        step: its name.
        condition: the condition that would tell it; None where none does.
        reason: one CamelCase word; empty while it is simply not there yet.
        message: a sentence.
        look: the command that shows more.
    """

    step: str
    condition: str | None = None
    reason: str = ""
    message: str = ""
    look: str = ""


class JobStatus(StoredModel):
    """The `status` of a Job.

    Attributes:
        phase: where it stands.
        reason: one CamelCase word on why; empty while nothing is remarkable.
        message: the sentence to it.
        verified: True when every stated expectation holds, False when one does not, None where
            nothing was expected or the Job has not ended.
        attempt: the current try, from 1; 0 before the first.
        exit_code: what the operating system reported of the run; negative for a signal.
        conditions: in the order of `ConditionType`.
        fused: True when the components run in one process; None without components.
        placement: component -> ranks as planned: `{rank, node, gpus, localRank}`.
        ranks: ranks as they run.
        points_at: where to look first; None where no result is missing. Told in answers, never stored.
    """

    phase: Phase = Phase.PENDING
    reason: str = ""
    message: str = ""
    verified: bool | None = None
    quality_gate_passed: bool | None = None
    attempt: int = 0
    node: str | None = None
    exit_code: int | None = None
    digest: str = ""
    created_at: Moment | None = None
    started_at: Moment | None = None
    finished_at: Moment | None = None
    conditions: list[Condition] = Field(default_factory=list)
    queue: QueueStatus | None = None
    lease: LeaseStatus | None = None
    fused: bool | None = None
    placement: dict[str, list[dict[str, object]]] = Field(default_factory=dict)
    ranks: list[RankStatus] = Field(default_factory=list)
    progress: Progress | None = None
    points_at: PointsAt | None = None
