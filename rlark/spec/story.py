"""A Job's life as steps, and the earliest whose result is missing: where to look first.

A Job that is listed, or shown as Running, has proven nothing yet. So every step stands for a result that was
seen, and nothing behind a missing one is worth looking at before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rlark.spec.status import ConditionType, Phase, PointsAt

JsonObject = Mapping[str, Any]
State = Literal["done", "missing", "none"]
_UNPROVEN = frozenset({"OutputMissing", "EvidenceMissing", "GateFailed"})
"""Reasons of a failure that the run itself did not see: it completed."""


@dataclass(frozen=True)
class Step:
    """One step of a Job's life.

    Attributes:
        name: `accepted` … `outputs verified`.
        state: its result was seen, or is missing; `none` where this Job has no such step.
        condition: the condition that tells it; None where none does.
        time: when it was done, as on the wire; None where that is not known.
        reason: one CamelCase word; empty where there is nothing to say.
        message: what was seen, or what is missing.
        look: the command that shows more.
    """

    name: str
    state: State
    condition: str | None = None
    time: str | None = None
    reason: str = ""
    message: str = ""
    look: str = ""


def story(job: JsonObject) -> list[Step]:
    """Every step of a Job's life, in order.

    Args:
        job: the Job as `GET .../jobs/{name}` shows it.
    """
    seen = _Seen(job)
    return [tell(seen) for tell in _STEPS]


def points_at(job: JsonObject) -> PointsAt | None:
    """The earliest step whose result is missing; None where none is.

    Args:
        job: the Job as `GET .../jobs/{name}` shows it.
    """
    step = next((step for step in story(job) if step.state == "missing"), None)
    if step is None:
        return None
    return PointsAt(step=step.name, condition=step.condition, reason=step.reason, message=step.message, look=step.look)


def unkept(job: JsonObject) -> str:
    """What a Job that Succeeded states under `expect` and did not keep, in a sentence; empty for every other Job.

    That can only be its first signal: a run goes on without it, while a missing output or a failed gate is a
    failure of the Job.

    Args:
        job: the Job as `GET .../jobs/{name}` shows it.
    """
    seen = _Seen(job)
    signal = seen.told(ConditionType.SIGNAL_SEEN)
    if seen.phase is not Phase.SUCCEEDED or not seen.expect.get("firstSignal") or signal.true:
        return ""
    return signal.message or "its first signal was not seen"


class _Told(NamedTuple):
    """A condition, or the lack of one."""

    there: bool
    true: bool
    reason: str
    message: str
    time: str | None


class _Seen:
    """A Job's object, asked the questions that the steps have."""

    def __init__(self, job: JsonObject) -> None:
        self.status: JsonObject = job.get("status") or {}
        self.name = str(job["metadata"]["name"])
        self.phase = Phase(self.status.get("phase", "Pending"))
        self.reason, self.message = str(self.status.get("reason") or ""), str(self.status.get("message") or "")
        tasks = (job.get("spec") or {}).get("tasks") or [{}]
        self.expect: JsonObject = tasks[0].get("expect") or {}
        self.engine = not str(tasks[0].get("runScript") or "").strip()
        self._conditions = {item["type"]: item for item in self.status.get("conditions") or []}

    def told(self, kind: ConditionType) -> _Told:
        item = self._conditions.get(kind.value, {})
        return _Told(
            bool(item),
            item.get("status") == "True",
            str(item.get("reason") or ""),
            str(item.get("message") or ""),
            item.get("lastTransitionTime"),
        )

    @property
    def completed(self) -> bool:
        """True when the run ended by itself and well, whatever its files prove."""
        return self.phase is Phase.SUCCEEDED or (self.status.get("exitCode") == 0 and self.reason in _UNPROVEN)

    def done(self, name: str, kind: ConditionType | None, time: str | None, message: str) -> Step:
        return Step(name, "done", kind.value if kind else None, time, message=message)

    def missing(self, name: str, kind: ConditionType | None, waiting: str, look: str) -> Step:
        """A step without its result: why, as its condition says, else as the end of the Job says."""
        told = self.told(kind) if kind else _Told(there=False, true=False, reason="", message="", time=None)
        reason, message = (told.reason, told.message) if told.there else ("", "")
        if self.phase.ended and not self.completed and self.reason != reason:
            message = f"{message}; {self.message}" if message else self.message
            reason = reason or self.reason
        return Step(
            name,
            "missing",
            kind.value if kind else None,
            reason=reason,
            message=message or waiting,
            look=look.format(job=self.name),
        )


def _accepted(seen: _Seen) -> Step:
    return seen.done("accepted", None, seen.status.get("createdAt"), f"listed as {seen.name}")


def _validated(seen: _Seen) -> Step:
    kind = ConditionType.VALIDATED
    told = seen.told(kind)
    if told.true:
        return seen.done("validated", kind, told.time, "")
    return seen.missing("validated", kind, "not checked yet", "rlark events {job}")


def _queued(seen: _Seen) -> Step:
    kind, name = ConditionType.QUEUED, "its turn in the queue"
    told = seen.told(kind)
    if seen.told(ConditionType.LEASED).there and not told.true:
        return seen.done(name, kind, told.time, "")
    place = seen.status.get("queue")
    if place and not seen.phase.ended:
        return Step(
            name,
            "missing",
            kind.value,
            None,
            told.reason,
            f"number {place['position']}: {place['reason']}",
            "rlark queue",
        )
    if seen.phase.ended:
        return Step(name, "missing", kind.value, None, seen.reason, seen.message, f"rlark events {seen.name}")
    return seen.missing(name, kind, "it is next", "rlark queue")


def _leased(seen: _Seen) -> Step:
    kind = ConditionType.LEASED
    told = seen.told(kind)
    if told.true:
        return seen.done("leased", kind, told.time, told.message)
    if told.there:
        return seen.done("leased", kind, seen.status.get("startedAt"), f"on node {seen.status.get('node')}; given back")
    return seen.missing("leased", kind, "no capacity is held yet", "rlark nodes")


def _worker(seen: _Seen) -> Step:
    began = seen.status.get("startedAt")
    if began:
        return seen.done("worker started", None, began, f"on node {seen.status.get('node')}")
    return seen.missing("worker started", None, "not started yet", "rlark events {job}")


def _plain(name: str, kind: ConditionType, waiting: str, look: str) -> Callable[[_Seen], Step]:
    """A step that is done when its condition is true."""

    def tell(seen: _Seen) -> Step:
        told = seen.told(kind)
        if told.true:
            return seen.done(name, kind, told.time, told.message)
        return seen.missing(name, kind, waiting, look)

    return tell


def _ray(seen: _Seen) -> Step:
    kind, name = ConditionType.RAY_READY, "Ray head started"
    told = seen.told(kind)
    if told.there and not told.true and seen.told(ConditionType.STARTED).true:
        return Step(name, "none", kind.value, told.time, told.reason, told.message)
    return _plain(name, kind, "the Ray head is awaited", "rlark logs {job} -n 50")(seen)


def _placed(seen: _Seen) -> Step:
    kind, name = ConditionType.PLACED, "components placed"
    if not seen.engine and not seen.told(kind).there:
        return Step(name, "none", kind.value)
    return _plain(name, kind, "the components have not told where they run", "rlark logs {job} -n 50")(seen)


def _signal(seen: _Seen) -> Step:
    kind, name = ConditionType.SIGNAL_SEEN, "first signal"
    told, stated = seen.told(kind), seen.expect.get("firstSignal")
    if not (told.there or stated or seen.engine):
        return Step(name, "none", kind.value, message="none was stated")
    if told.true:
        return seen.done(name, kind, told.time, told.message)
    if not stated and seen.phase is Phase.SUCCEEDED:
        return Step(name, "none", kind.value, told.time, message=told.message)
    stalled = told.reason == "Stalled"
    pattern = f" matches {stated['pattern']!r}" if stated else " of progress was printed"
    within = f"; it has {stated['within']} from the start of the run" if stated and stated.get("within") else ""
    look = "rlark logs {job} --stream stderr" if stalled else "rlark logs {job} -n 50"
    return seen.missing(name, kind, f"no line{pattern} yet{within}", look)


def _completed(seen: _Seen) -> Step:
    name = "run completed"
    if seen.completed:
        code = seen.status.get("exitCode")
        shown = "" if code is None else f"exit code {code}"
        # the worker's last report comes after its look at the outputs, and the run was over before both
        known = [
            time for time in (seen.told(ConditionType.OUTPUTS_VERIFIED).time, seen.status.get("finishedAt")) if time
        ]
        return seen.done(name, None, min(known, default=None), shown)
    return seen.missing(name, None, "it runs", "rlark logs {job} -n 50" if seen.phase.ended else "rlark logs -f {job}")


def _verified(seen: _Seen) -> Step:
    kind, name = ConditionType.OUTPUTS_VERIFIED, "outputs verified"
    told = seen.told(kind)
    if told.true:
        return seen.done(name, kind, told.time, told.message)
    if not (told.there or seen.expect.get("outputs") or seen.expect.get("gate") or seen.engine):
        return Step(name, "none", kind.value, message="nothing was expected of its files")
    return seen.missing(name, kind, "they are looked at when the run has ended", "rlark artifacts {job}")


_STEPS: tuple[Callable[[_Seen], Step], ...] = (
    _accepted,
    _validated,
    _queued,
    _leased,
    _worker,
    _plain("prepared", ConditionType.PREPARED, "the prepare script runs", "rlark logs {job} -n 50"),
    _ray,
    _plain("run started", ConditionType.STARTED, "the run has not started", "rlark logs {job} -n 50"),
    _placed,
    _signal,
    _completed,
    _verified,
)
