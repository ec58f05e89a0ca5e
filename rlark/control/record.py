"""What the ledger knows of one Job beyond its text: the record, and the events that make it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from pydantic import Field, JsonValue

from rlark.cluster.base import Handle
from rlark.model import StoredModel
from rlark.plan.node import Lease
from rlark.plan.plan import Ask
from rlark.spec.status import EventRecord, JobStatus, Moment, Phase

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Submitted:
    """The answer to a submission.

    Attributes:
        job: the Job as `GET .../jobs/{name}` shows it.
        created: True for a new Job or a new attempt (201), False when it was already there (200).
    """

    job: JsonObject
    created: bool


class Kind(StrEnum):
    """What an event does to a record; one row each in the table of `rlark.control.phases`."""

    ACCEPTED = "accepted"
    UPDATED = "updated"
    REQUEUED = "requeued"
    WAITING = "waiting"
    LEASED = "leased"
    LAUNCHED = "launched"
    REPORTED = "reported"
    NOTED = "noted"
    STOP_REQUESTED = "stop-requested"
    STOP_FORCED = "stop-forced"
    DELETE_REQUESTED = "delete-requested"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    RELEASED = "released"


class Event(StoredModel):
    """One thing that happened to a Job, with everything needed to repeat it on a record.

    Attributes:
        seq: counted from 1 over all Jobs, given by the ledger; 0 before it is written.
        kind: what it does.
        time: when.
        attempt: the try it belongs to; 0 before the first.
        type: `Normal` or `Warning`.
        reason: one CamelCase word for programs.
        message: a sentence for people.
        data: what the transition needs beyond that, plain JSON.
    """

    seq: int = 0
    kind: Kind
    time: Moment
    attempt: int = 0
    type: Literal["Normal", "Warning"] = "Normal"
    reason: str
    message: str = ""
    data: dict[str, JsonValue] = Field(default_factory=dict)

    def record(self) -> EventRecord:
        """The event as users see it."""
        return EventRecord(
            seq=self.seq,
            time=self.time,
            attempt=self.attempt,
            type=self.type,
            reason=self.reason,
            message=self.message,
        )


class Wanted(StoredModel):
    """What the controller needs of a Job's text and plan, so that it need not read them at every tick.

    Attributes:
        digest: SHA-256 of the canonical YAML.
        node: the planned node.
        ask: the capacity of one attempt.
        priority: higher runs earlier.
        grace_s: seconds between SIGTERM and SIGKILL.
        backoff_limit: how many further attempts a failure may have.
        expects: True when something of the Job is expected, so that an end without proof disproves it.
        fused: True when the components run in one process; None without components.
        placement: component -> ranks as planned: `{rank, node, gpus, localRank}`.
    """

    digest: str = ""
    node: str = ""
    ask: Ask = Field(default_factory=Ask)
    priority: int = 0
    grace_s: float = 30
    backoff_limit: int = 0
    expects: bool = False
    fused: bool | None = None
    placement: dict[str, list[dict[str, JsonValue]]] = Field(default_factory=dict)


class JobRecord(StoredModel):
    """Where one Job stands. Only `rlark.control.phases.transition` makes a new one.

    Attributes:
        uid: the Job's own id; a name can be used again after a deletion.
        name: its name.
        seq: the last event that is in it.
        generation: counts changes of the text, from 1.
        wanted: what was planned.
        status: what users see.
        queued_seq: the event that put it into the queue; FIFO goes by it.
        lease: what the current or just ended attempt still holds.
        handle: the started worker of that lease.
        launching: True between the lease of an attempt and the start of its worker.
        reports: number of the last line of `worker.jsonl` that was taken in.
        failures: attempts used up by `restartPolicy: OnFailure` since the last start by a person.
        stopped: what the user wants: True after a stop, False after a start.
        again: True when a restart was asked for: the end of this attempt queues the next.
        deleting: True when the Job goes away as soon as it holds nothing.
        stop_asked_at: when the worker was asked to end.
        stop_forced_at: when it was killed because it did not.
    """

    uid: str = ""
    name: str = ""
    seq: int = 0
    generation: int = 0
    wanted: Wanted = Field(default_factory=Wanted)
    status: JobStatus = Field(default_factory=JobStatus)
    queued_seq: int = 0
    lease: Lease | None = None
    handle: Handle | None = None
    launching: bool = False
    reports: int = 0
    failures: int = 0
    stopped: bool = False
    again: bool = False
    deleting: bool = False
    stop_asked_at: Moment | None = None
    stop_forced_at: Moment | None = None

    @property
    def ended(self) -> bool:
        """True when nothing of the Job runs and nothing will start by itself."""
        return self.status.phase.ended

    @property
    def running(self) -> bool:
        """True while a worker was started and has not ended."""
        return self.status.phase is Phase.RUNNING

    @property
    def queued(self) -> bool:
        """True while it waits for a lease."""
        return self.status.phase is Phase.PENDING and not self.launching

    @property
    def active(self) -> bool:
        """True while the controller has something to do for it."""
        return not self.ended or self.lease is not None or self.deleting

    @property
    def attempt(self) -> int:
        """The current try, from 1; 0 before the first."""
        return self.status.attempt
