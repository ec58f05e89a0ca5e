"""The state machine of a Job: one table, and the only function that changes a record.

    (blank) --accepted--> Pending --leased--> Pending --launched--> Running --> Succeeded | Failed | Stopped
                 |                                                                  |
                 `--accepted, stopped--> Stopped          Pending <--requeued-------'

An event that the table does not allow in a phase raises `IllegalTransition`, so it can never be
written: the ledger applies the transition in the same transaction that stores the event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from pydantic import ValidationError

from rlark.cluster.base import Handle
from rlark.control.record import Event, JobRecord, Kind, Wanted
from rlark.errors import RlarkError
from rlark.plan.node import Lease
from rlark.spec.status import (
    Condition,
    ConditionType,
    GpuLeaseStatus,
    JobStatus,
    LeaseStatus,
    Phase,
    RankStatus,
)

Truth = Literal["True", "False", "Unknown"]
Apply = Callable[[JobRecord, Event], JobRecord]
ORDER = {kind: place for place, kind in enumerate(ConditionType)}


class IllegalTransition(RlarkError):
    """The state machine of a Job does not allow this event here; please report it."""


class Row(NamedTuple):
    """One row of the table.

    Attributes:
        phases: where the event may happen.
        apply: what it does.
        guard: what else must hold of the record, told as the sentence to say when it does not.
    """

    phases: frozenset[Phase]
    apply: Apply
    guard: Guard | None = None


@dataclass(frozen=True)
class Guard:
    """A condition on a record beyond its phase."""

    holds: Callable[[JobRecord], bool]
    sentence: str


def transition(record: JobRecord, event: Event) -> JobRecord:
    """The record after an event.

    Args:
        record: before; a blank `JobRecord()` before the first event.
        event: what happened, with its number in the ledger.

    Raises:
        IllegalTransition: the table does not allow this event here.
    """
    row = TABLE[event.kind]
    phase = record.status.phase
    if phase not in row.phases:
        raise IllegalTransition(f"job {record.name!r} is {phase}: the event {event.kind} cannot happen there")
    if row.guard and not row.guard.holds(record):
        raise IllegalTransition(f"job {record.name!r} {row.guard.sentence}: the event {event.kind} cannot happen")
    return row.apply(record, event).model_copy(update={"seq": event.seq})


def replay(events: Iterable[Event]) -> JobRecord:
    """The record that these events make, from nothing."""
    record = JobRecord()
    for event in events:
        record = transition(record, event)
    return record


# ---- what each event does


def _accepted(record: JobRecord, event: Event) -> JobRecord:
    stopped = bool(event.data.get("stopped"))
    wanted = Wanted.model_validate(event.data["wanted"])
    status = JobStatus(
        phase=Phase.STOPPED if stopped else Phase.PENDING,
        reason=event.reason if stopped else "",
        message=event.message if stopped else "",
        created_at=event.time,
        finished_at=event.time if stopped else None,
    )
    new = record.model_copy(
        update={
            "uid": str(event.data["uid"]),
            "name": str(event.data["name"]),
            "generation": 1,
            "queued_seq": event.seq,
            "stopped": stopped,
            "status": _fresh(status, wanted, event),
            "wanted": wanted,
        }
    )
    return new if stopped else _queued(new, event)


def _updated(record: JobRecord, event: Event) -> JobRecord:
    wanted = Wanted.model_validate(event.data["wanted"])
    status = record.status.model_copy(update={"digest": wanted.digest, **_planned(wanted)})
    return record.model_copy(update={"generation": record.generation + 1, "wanted": wanted, "status": status})


def _requeued(record: JobRecord, event: Event) -> JobRecord:
    given = event.data.get("wanted")
    wanted = Wanted.model_validate(given) if given else record.wanted
    status = JobStatus(
        attempt=record.attempt,
        created_at=record.status.created_at,
        lease=record.status.lease,
        reason=event.reason if record.attempt else "",
        message=event.message if record.attempt else "",
    )
    new = record.model_copy(
        update={
            "wanted": wanted,
            "status": _fresh(status, wanted, event),
            "queued_seq": event.seq,
            "failures": record.failures + 1 if event.data.get("retry") else 0,
            "stopped": False,
            "again": False,
            "launching": False,
            "stop_asked_at": None,
            "stop_forced_at": None,
        }
    )
    return _queued(new, event)


def _waiting(record: JobRecord, event: Event) -> JobRecord:
    return _set(record, event, ConditionType.QUEUED, "True", reason="Waiting")


def _leased(record: JobRecord, event: Event) -> JobRecord:
    lease = Lease.model_validate(event.data["lease"])
    status = record.status.model_copy(
        update={
            "attempt": lease.attempt,
            "node": lease.node,
            "lease": _lease_status(lease),
            "reason": "",
            "message": "",
        }
    )
    new = record.model_copy(update={"lease": lease, "handle": None, "launching": True, "status": status})
    new = _set(new, event, ConditionType.QUEUED, "False", reason="Leased")
    return _set(new, event, ConditionType.LEASED, "True")


def _launched(record: JobRecord, event: Event) -> JobRecord:
    handle = Handle(**event.data["handle"])  # type: ignore[arg-type]
    status = record.status.model_copy(update={"phase": Phase.RUNNING, "started_at": event.time})
    return record.model_copy(update={"handle": handle, "launching": False, "status": status})


def _reported(record: JobRecord, event: Event) -> JobRecord:
    data = event.data
    new = record.model_copy(update={"reports": data["n"]})
    condition = data.get("condition")
    if condition in ORDER:
        truth: Truth = "True" if data.get("status") else "False"
        new = _set(new, event, ConditionType(str(condition)), truth)
    if seen := _ranks(data.get("ranks")):
        new = new.model_copy(update={"status": new.status.model_copy(update={"ranks": seen})})
    return new


def _ranks(value: object) -> list[RankStatus]:
    """The ranks that a run reported; none where they cannot be read."""
    try:
        return [RankStatus.model_validate(rank) for rank in value] if isinstance(value, list) else []
    except ValidationError:
        return []


def _noted(record: JobRecord, _: Event) -> JobRecord:
    return record


def _stop_requested(record: JobRecord, event: Event) -> JobRecord:
    again = bool(event.data.get("again"))
    return record.model_copy(
        update={"stop_asked_at": record.stop_asked_at or event.time, "again": again, "stopped": not again}
    )


def _stop_forced(record: JobRecord, event: Event) -> JobRecord:
    return record.model_copy(update={"stop_forced_at": event.time})


def _delete_requested(record: JobRecord, _: Event) -> JobRecord:
    return record.model_copy(update={"deleting": True, "again": False, "stopped": True})


def _ended(phase: Phase) -> Apply:
    def apply(record: JobRecord, event: Event) -> JobRecord:
        data = event.data
        status = record.status.model_copy(
            update={
                "phase": phase,
                "reason": event.reason,
                "message": event.message,
                "exit_code": data.get("exitCode"),
                "verified": data.get("verified"),
                "quality_gate_passed": data.get("qualityGatePassed"),
                "finished_at": event.time,
            }
        )
        reports = data.get("n", record.reports)
        stopped = record.stopped or (phase is Phase.STOPPED and not record.again)
        new = record.model_copy(update={"status": status, "reports": reports, "stopped": stopped, "launching": False})
        if _truth(new, ConditionType.QUEUED) == "True":
            new = _set(new, event, ConditionType.QUEUED, "False")
        return new

    return apply


def _released(record: JobRecord, event: Event) -> JobRecord:
    status = record.status.model_copy(update={"lease": None})
    new = record.model_copy(update={"lease": None, "handle": None, "launching": False, "status": status})
    return new if _truth(new, ConditionType.LEASED) is None else _set(new, event, ConditionType.LEASED, "False")


# ---- parts of a status


def _fresh(status: JobStatus, wanted: Wanted, event: Event) -> JobStatus:
    """A status at the beginning of an attempt: what is planned, and validated."""
    validated = Condition(
        type=ConditionType.VALIDATED, status="True", reason="Checked", last_transition_time=event.time
    )
    return status.model_copy(update={"digest": wanted.digest, "conditions": [validated], **_planned(wanted)})


def _planned(wanted: Wanted) -> dict[str, object]:
    return {"fused": wanted.fused, "placement": wanted.placement}


def _queued(record: JobRecord, event: Event) -> JobRecord:
    return _set(record, event, ConditionType.QUEUED, "True", reason="Queued")


def _lease_status(lease: Lease) -> LeaseStatus:
    gpus = [
        GpuLeaseStatus(logical=logical, id=device.id, uuid=device.uuid, faked=device.faked)
        for logical, device in enumerate(lease.devices)
    ]
    return LeaseStatus(cpus=lease.cpus, memory=lease.memory, gpus=gpus)


def _truth(record: JobRecord, kind: ConditionType) -> Truth | None:
    return next((c.status for c in record.status.conditions if c.type == kind), None)


def _set(record: JobRecord, event: Event, kind: ConditionType, truth: Truth, *, reason: str = "") -> JobRecord:
    """Set a condition; `lastTransitionTime` moves only when its truth does."""
    old = next((c for c in record.status.conditions if c.type == kind), None)
    since: datetime = old.last_transition_time if old and old.status == truth else event.time
    new = Condition(
        type=kind,
        status=truth,
        reason=reason or event.reason,
        message=event.message,
        last_transition_time=since,
    )
    others = [c for c in record.status.conditions if c.type != kind]
    conditions = sorted([*others, new], key=lambda c: ORDER[c.type])
    status = record.status.model_copy(update={"conditions": conditions})
    return record.model_copy(update={"status": status})


# ---- the table

_PENDING = frozenset({Phase.PENDING})
_RUNNING = frozenset({Phase.RUNNING})
_LIVE = _PENDING | _RUNNING
_ENDED = frozenset(phase for phase in Phase if phase.ended)
_ANY = frozenset(Phase)

_BLANK = Guard(lambda record: not record.uid, "exists already")
_EXISTS = Guard(lambda record: bool(record.uid), "does not exist")
_UNLEASED = Guard(lambda record: bool(record.uid) and record.lease is None, "holds a lease already")
_LEASED = Guard(lambda record: record.lease is not None, "holds no lease")
_ASKED = Guard(lambda record: record.stop_asked_at is not None, "was not asked to stop")

TABLE: dict[Kind, Row] = {
    Kind.ACCEPTED: Row(_PENDING, _accepted, _BLANK),
    Kind.UPDATED: Row(_ANY, _updated, _EXISTS),
    Kind.REQUEUED: Row(_ENDED, _requeued, _EXISTS),
    Kind.WAITING: Row(_PENDING, _waiting, _EXISTS),
    Kind.LEASED: Row(_PENDING, _leased, _UNLEASED),
    Kind.LAUNCHED: Row(_PENDING, _launched, _LEASED),
    Kind.REPORTED: Row(_RUNNING, _reported, _EXISTS),
    Kind.NOTED: Row(_ANY, _noted, _EXISTS),
    Kind.STOP_REQUESTED: Row(_RUNNING, _stop_requested, _EXISTS),
    Kind.STOP_FORCED: Row(_RUNNING, _stop_forced, _ASKED),
    Kind.DELETE_REQUESTED: Row(_ANY, _delete_requested, _EXISTS),
    Kind.SUCCEEDED: Row(_RUNNING, _ended(Phase.SUCCEEDED), _EXISTS),
    Kind.FAILED: Row(_LIVE, _ended(Phase.FAILED), _EXISTS),
    Kind.STOPPED: Row(_LIVE, _ended(Phase.STOPPED), _EXISTS),
    Kind.RELEASED: Row(_ANY, _released, _LEASED),
}
"""Which event may happen in which phase, what else must hold, and what it does."""
