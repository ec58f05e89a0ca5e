"""What must have happened, from what is seen: pure, the same at start-up and at every tick.

The worker's reports become condition events, its Outcome ends the attempt, and a worker that is
gone without one is lost. So a Job never stands as Running longer than its worker does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from pydantic import JsonValue, ValidationError

from rlark.cluster.base import Observation
from rlark.control.record import Event, JobRecord, Kind
from rlark.evidence.verify import Verdict
from rlark.spec.report import Report
from rlark.spec.status import ConditionType, Phase

STOP_MARGIN_S = 15.0
"""Beyond the Job's own grace: the worker kills, looks for survivors and writes its Outcome."""
FORCE_MARGIN_S = 15.0
"""After a kill: the time a place may take to notice that the worker is gone."""
OUTCOME = "Outcome"
STOPPED = "Stopped"
WORKER_LOST = "WorkerLost"
NODE_LOST = "NodeLost"
TERMINATED = "Terminated"
_CONDITIONS = {kind.value for kind in ConditionType}


def reconcile(record: JobRecord, seen: Observation, now: datetime) -> list[Event]:
    """The events that bring a record up to what is seen.

    Args:
        record: what the ledger says.
        seen: the worker's reports behind `record.reports`, and whether it lives.
        now: the time, aware.

    Returns:
        Events in order; empty when nothing changed or no worker was started.
    """
    if record.status.phase is not Phase.RUNNING:
        return []
    new = [report for report in seen.reports if report.n > record.reports]
    events: list[Event] = []
    for report in new:
        if report.attempt != record.attempt:
            continue
        if report.type == OUTCOME:
            return events + _outcome(record, report, now)
        events.append(_reported(report, now))
    if not seen.alive:
        return events + _lost(record, seen, now)
    return events + _overdue(record, now)


def deadline(record: JobRecord) -> datetime | None:
    """When a stop that was asked for is overdue; None where none was."""
    if record.stop_asked_at is None:
        return None
    return record.stop_asked_at + timedelta(seconds=record.wanted.grace_s + STOP_MARGIN_S)


def _reported(report: Report, now: datetime) -> Event:
    data: dict[str, JsonValue] = {"n": report.n}
    if report.type in _CONDITIONS:
        data |= {"condition": report.type, "status": report.status}
    ranks = report.data.get("ranks")
    if isinstance(ranks, list):
        data["ranks"] = [dict(rank) for rank in ranks if isinstance(rank, Mapping)]
    return Event(
        kind=Kind.REPORTED,
        time=moment(report.time, now),
        attempt=report.attempt,
        type="Normal" if report.status and report.type != "Warning" else "Warning",
        reason=report.reason or report.type,
        message=report.message,
        data=data,
    )


def moment(text: str, otherwise: datetime) -> datetime:
    """The time a worker wrote; the given one where it is none."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return otherwise
    return time if time.tzinfo else otherwise


def _outcome(record: JobRecord, report: Report, now: datetime) -> list[Event]:
    data = report.data
    verdict = _verdict(data.get("verdict"))
    facts: dict[str, JsonValue] = {
        "n": report.n,
        "exitCode": _integer(data.get("exitCode")),
        "qualityGatePassed": verdict.quality_gate_passed,
    }
    if verdict.verified is not None:
        facts["verified"] = verdict.verified
    events = [*_survivors(record, data.get("survivors"), now)]
    time = moment(report.time, now)
    kind, reason, message = _judged(record, report)
    return events + ending(record, kind, reason, message, time=time, facts=facts)


def _judged(record: JobRecord, report: Report) -> tuple[Kind, str, str]:
    """How an attempt ended; a worker that was told to end, though nobody asked rlark for it, has failed."""
    if report.status:
        return Kind.SUCCEEDED, report.reason or "Completed", report.message
    if report.reason == STOPPED and record.stop_asked_at is None:
        message = "the worker was told to end, and not by rlark: Ray's head went down, or somebody sent it SIGTERM"
        return Kind.FAILED, TERMINATED, message
    if report.reason == STOPPED or (record.stop_asked_at and report.reason == ""):
        return Kind.STOPPED, STOPPED, report.message
    return Kind.FAILED, report.reason or "RunFailed", report.message


def _verdict(value: object) -> Verdict:
    """The verdict that a worker wrote; none where it cannot be read."""
    try:
        return Verdict.model_validate(value or {})
    except ValidationError:
        return Verdict()


def _lost(record: JobRecord, seen: Observation, now: datetime) -> list[Event]:
    why = seen.reason or "its process is gone"
    if record.stop_asked_at is not None:
        return ending(record, Kind.STOPPED, STOPPED, f"the worker ended without a last report: {why}", time=now)
    message = f"the worker of attempt {record.attempt} ended without a last report: {why}"
    return ending(record, Kind.FAILED, NODE_LOST if seen.node_lost else WORKER_LOST, message, time=now)


def _overdue(record: JobRecord, now: datetime) -> list[Event]:
    due = deadline(record)
    if due is None or now < due:
        return []
    if record.stop_forced_at is None:
        message = (
            f"the worker did not end within {record.wanted.grace_s:g} s of grace and {STOP_MARGIN_S:g} s; it is killed"
        )
        return [
            Event(
                kind=Kind.STOP_FORCED,
                time=now,
                attempt=record.attempt,
                type="Warning",
                reason="StopForced",
                message=message,
            )
        ]
    if now < record.stop_forced_at + timedelta(seconds=FORCE_MARGIN_S):
        return []
    message = "the worker did not answer a kill; what it holds stays leased until its processes are gone"
    return ending(record, Kind.STOPPED, "StopForced", message, time=now)


def ending(
    record: JobRecord,
    kind: Kind,
    reason: str,
    message: str,
    *,
    time: datetime,
    facts: Mapping[str, JsonValue] | None = None,
) -> list[Event]:
    """The end of an attempt, and the beginning of the next where one was asked for.

    Args:
        record: the Job, Pending or Running.
        kind: `SUCCEEDED`, `FAILED` or `STOPPED`.
        reason: one CamelCase word.
        message: a sentence.
        time: when it ended.
        facts: `exitCode`, `verified`, `qualityGatePassed`, `n`.
    """
    end = Event(
        kind=kind,
        time=time,
        attempt=record.attempt,
        type="Warning" if kind is Kind.FAILED else "Normal",
        reason=reason,
        message=message,
        data=_disproved(record, kind) | dict(facts or {}),
    )
    if record.again:
        return [end, _next(record, time, "Restarted", "a restart was asked for", retry=False)]
    if kind is Kind.FAILED and not record.deleting and record.failures < record.wanted.backoff_limit:
        message = (
            f"restartPolicy OnFailure: retry {record.failures + 1} of {record.wanted.backoff_limit} after {reason}"
        )
        return [end, _next(record, time, "Retried", message, retry=True)]
    return [end]


def _disproved(record: JobRecord, kind: Kind) -> dict[str, JsonValue]:
    """An attempt that did not come to its proof has not kept what was expected; one that never began is not judged."""
    unproven = kind is Kind.FAILED or (kind is Kind.STOPPED and record.lease is not None)
    return {"verified": False} if unproven and record.wanted.expects else {}


def _next(record: JobRecord, time: datetime, reason: str, message: str, *, retry: bool) -> Event:
    return Event(
        kind=Kind.REQUEUED,
        time=time,
        attempt=record.attempt,
        reason=reason,
        message=message,
        data={"retry": retry},
    )


def _survivors(record: JobRecord, survivors: object, now: datetime) -> Sequence[Event]:
    if not isinstance(survivors, list) or not survivors:
        return []
    return [survivors_event(record, [str(survivor) for survivor in survivors], now)]


def survivors_event(record: JobRecord, survivors: Sequence[str], now: datetime) -> Event:
    """The warning that names processes which could not be ended."""
    return Event(
        kind=Kind.NOTED,
        time=now,
        attempt=record.attempt,
        type="Warning",
        reason="Survivors",
        message=f"could not be ended: {', '.join(survivors)}; the lease is kept until they are gone",
    )


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
