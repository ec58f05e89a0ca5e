"""A Job as a program holds it: where it stands, what it says, what it made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlark.errors import ClusterError, JobFailed, JobStopped, NotFinished
from rlark.host.clock import Clock, SystemClock
from rlark.sdk.artifacts import Artifacts
from rlark.sdk.follow import PATIENCE, StreamEvent, follow
from rlark.sdk.transport import JOBS, JsonObject, Transport

if TYPE_CHECKING:
    from rlark.sdk.placement import Placement
    from rlark.spec.status import Phase

POLL = 0.3
"""Seconds between two looks at a Job that is waited for."""


@dataclass(frozen=True)
class LogRecord:
    """One line of a Job's log.

    Attributes:
        line: the text.
        stream: `stdout`, `stderr`, or `<component>-<rank>`.
        attempt: the try it belongs to.
        component: `actor`, `rollout` or `env`; None for the worker's own streams.
        rank: of the component.
        time: ISO 8601, UTC; None where none was written.
    """

    line: str
    stream: str = "stdout"
    attempt: int = 1
    component: str | None = None
    rank: int | None = None
    time: str | None = None

    @classmethod
    def from_json(cls, record: JsonObject) -> LogRecord:
        """From the wire."""
        known = {key: record.get(key) for key in ("line", "stream", "attempt", "component", "rank", "time")}
        return cls(**{key: value for key, value in known.items() if value is not None})

    def __str__(self) -> str:
        return self.line


class Job:
    """One Job on a platform; its name is what identifies it.

    What does not change by itself (`name`, an ended Job's phase) costs nothing; everything else
    asks the platform.
    """

    def __init__(self, transport: Transport, record: JsonObject, *, clock: Clock | None = None) -> None:
        """Hold a Job as the platform described it.

        Args:
            transport: the way to the platform.
            record: the Job's object.
            clock: for waiting.
        """
        self._transport = transport
        self._record = record
        self._clock = clock or SystemClock()

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return str(self._record["metadata"]["name"])

    @property
    def record(self) -> JsonObject:
        """The Job's object as it was when last asked for: metadata, spec, status."""
        return self._record

    @property
    def status(self) -> JsonObject:
        """`status` as it was when last asked for."""
        status: JsonObject = self._record.get("status") or {}
        return status

    def refresh(self) -> Job:
        """Ask the platform again; gives itself."""
        self._record = self._transport.get(self._path)
        return self

    @property
    def phase(self) -> Phase:
        """Where the Job stands now."""
        if not self._known_phase.ended:
            self.refresh()
        return self._known_phase

    @property
    def _known_phase(self) -> Phase:
        from rlark.spec.status import Phase

        return Phase(self.status.get("phase", "Pending"))

    @property
    def verified(self) -> bool | None:
        """True when every stated expectation holds; None where nothing was expected or it has not ended."""
        self._settle()
        return self.status.get("verified")

    @property
    def quality_gate_passed(self) -> bool | None:
        """What the evaluation's gate said; None where none ran."""
        self._settle()
        return self.status.get("qualityGatePassed")

    @property
    def exit_code(self) -> int | None:
        """What the operating system reported of the run; negative for a signal."""
        self._settle()
        return self.status.get("exitCode")

    def _settle(self) -> None:
        if not self._known_phase.ended:
            self.refresh()

    # waiting

    def wait(self, timeout: float | None = None) -> Phase:
        """Wait for the end, whatever it is; `check` tells a good one from a bad one.

        Args:
            timeout: seconds; None for as long as it takes.

        Returns:
            The phase it ended in.

        Raises:
            NotFinished: it had not ended by then.
            ClusterError: the platform has not answered for a minute.
        """
        pace = _Pace(self, timeout)
        while not pace.ended():
            self._clock.sleep(pace.pause())
        return self._known_phase

    async def wait_async(self, timeout: float | None = None) -> Phase:
        """`wait`, without blocking the event loop."""
        import asyncio

        pace = _Pace(self, timeout)
        while not await asyncio.to_thread(pace.ended):
            await asyncio.sleep(pace.pause())
        return self._known_phase

    def check(self) -> Job:
        """Give itself if the Job Succeeded as it expects, and raise otherwise: `rlark.run("job.yaml").check()`.

        Raises:
            JobFailed: it ended Failed, or without the first signal that it expects.
            JobStopped: it ended Stopped.
            NotFinished: it has not ended.
        """
        from rlark.spec.story import unkept

        phase = self.phase
        if phase == "Succeeded" and not unkept(self._record):
            return self
        kind = {"Succeeded": JobFailed, "Failed": JobFailed, "Stopped": JobStopped}.get(phase, NotFinished)
        reason = " ".join(part for part in (self.status.get("reason"), self.status.get("message")) if part)
        message = f"{self.name} is {phase}{f': {reason}' if reason else ''}"
        raise kind(message, hint=f"rlark logs {self.name}; rlark events {self.name}", details={"status": self.status})

    # what it says

    def follow(self) -> Iterator[StreamEvent]:
        """Everything that happens up to the end: status, events, metrics, log lines, `end`.

        An ended Job is told from its beginning; interruptions are bridged.
        """
        return follow(lambda last: self._transport.stream(f"{self._path}/follow", last_id=last), clock=self._clock)

    def logs(
        self,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: str | None = None,
        stream: str | None = None,
        component: str | None = None,
        attempt: int | None = None,
    ) -> Iterator[LogRecord]:
        """The log, line by line.

        Args:
            follow: go on until the Job has ended.
            tail: only so many of the last lines.
            since: only lines from this moment on: ISO 8601, or an age such as `10m`.
            stream: `stdout`, `stderr` or `<component>-<rank>`; all streams by default.
            component: only the ranks of this component.
            attempt: the try; the latest by default.
        """
        query = {"tail": tail, "since": since, "stream": stream, "component": component, "attempt": attempt}
        return self._follow_logs(query) if follow else self._read_logs(query)

    def _read_logs(self, query: JsonObject) -> Iterator[LogRecord]:
        with self._transport.stream(f"{self._path}/logs", query=query, accept="application/x-ndjson") as lines:
            for line in lines:
                yield LogRecord.from_json(json.loads(line))

    def _follow_logs(self, query: JsonObject) -> Iterator[LogRecord]:
        query = query | {"follow": True}
        path = f"{self._path}/logs"
        for event in follow(lambda last: self._transport.stream(path, query=query, last_id=last), clock=self._clock):
            if event.type == "log":
                yield LogRecord.from_json(event.data)
        self.refresh()

    def events(self) -> list[JsonObject]:
        """Why things happened, oldest first: `time`, `attempt`, `type`, `reason`, `message`."""
        items: list[JsonObject] = self._transport.get(f"{self._path}/events")["items"]
        return items

    def metrics(self) -> dict[str, list[Any]]:
        """The training curves: `{"iteration": [...], "meanReward": [...], ...}`; None where nothing was measured."""
        curves: dict[str, list[Any]] = self.curves()["metrics"]
        return curves

    def curves(self) -> JsonObject:
        """The training curves with their length: `{"metrics": {...}, "count": n}`."""
        return self._transport.get(f"{self._path}/metrics")

    def metrics_frame(self) -> Any:
        """The training curves as a pandas DataFrame, one row an iteration.

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # type: ignore[import-not-found, import-untyped, unused-ignore]

        return pd.DataFrame(self.metrics())

    @property
    def placement(self) -> Placement:
        """Which component runs where, and on which GPUs."""
        from rlark.sdk.placement import Placement

        return Placement.from_status(self.name, self.refresh().status)

    @property
    def artifacts(self) -> Artifacts:
        """What it made."""
        return Artifacts(self._transport, self.name)

    def checkpoints(self) -> list[JsonObject]:
        """The checkpoints there are, oldest first: `iteration`, the folder `path` on the node, `engine` and `task`."""
        items: list[JsonObject] = self._transport.get(f"{self._path}/checkpoints")["items"]
        return items

    # commands

    def stop(self) -> Job:
        """End it, gracefully first; returns at once."""
        self._record = self._transport.request("PATCH", self._path, body={"spec": {"stopped": True}}).json()
        return self

    def start(self) -> Job:
        """Start it again after its end: a new attempt."""
        self._record = self._transport.request("PATCH", self._path, body={"spec": {"stopped": False}}).json()
        return self

    def restart(self) -> Job:
        """Stop and start."""
        self._record = self._transport.request("POST", f"{self._path}/restart").json()
        return self

    def delete(self) -> bool:
        """Remove it and its folder, stopping it first; its hostPaths are left alone.

        Returns:
            True when it is gone, False while its last processes still end.
        """
        return self._transport.request("DELETE", self._path).status != 202

    @property
    def _path(self) -> str:
        return f"{JOBS}/{self.name}"

    def __repr__(self) -> str:
        parts = [self.name, str(self.status.get("phase", "Pending"))]
        parts += [f"attempt {self.status['attempt']}"] if self.status.get("attempt") else []
        parts += [str(self.status["reason"])] if self.status.get("reason") else []
        return f"<Job {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        from rlark.sdk.display import card

        return card(self._settled_record())

    def _settled_record(self) -> JsonObject:
        """The newest record there is; a card is shown even when the platform is gone."""
        try:
            self._settle()
        except ClusterError:
            return self._record
        return self._record


class _Pace:
    """When to look again at a Job that is waited for, and when to give up."""

    def __init__(self, job: Job, timeout: float | None) -> None:
        self._job = job
        self._clock = job._clock  # noqa: SLF001 - one thing in two pieces
        self._timeout = timeout
        self._start = self._answered = self._clock.monotonic()

    def ended(self) -> bool:
        """Look once."""
        try:
            ended = self._job.phase.ended
            self._answered = self._clock.monotonic()
        except ClusterError:
            if self._clock.monotonic() - self._answered > PATIENCE:
                raise
            ended = False
        if not ended and self._left() <= 0:
            raise NotFinished(
                f"{self._job.name} had not ended after {self._timeout:g} s", hint=f"rlark get {self._job.name}"
            )
        return ended

    def pause(self) -> float:
        return max(0.0, min(POLL, self._left()))

    def _left(self) -> float:
        if self._timeout is None:
            return float("inf")
        return self._start + self._timeout - self._clock.monotonic()
