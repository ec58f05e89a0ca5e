"""Following a run while it lives: what it has reached, and why it must be ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from rlark.folder import JobFolder, read_json
from rlark.host import process
from rlark.host.clock import Clock, stamp
from rlark.host.process import ProcessId
from rlark.plan.plan import Plan
from rlark.worker.aside import Aside
from rlark.worker.capture import Capture
from rlark.worker.family import Family
from rlark.worker.outcome import DEADLINE, DISK_FULL, STOPPED
from rlark.worker.own_head import OwnHead
from rlark.worker.progress import PrintedProgress
from rlark.worker.reports import Reports
from rlark.worker.shell import Shell
from rlark.worker.signal import FirstSignal
from rlark.worker.stacks import dump
from rlark.worker.stop import StopRequest


class Watch:
    """What is seen of one attempt's run.

    Attributes:
        signal: its first sign of life.
        started_at: when it began; None before.
    """

    def __init__(
        self,
        folder: JobFolder,
        plan: Plan,
        reports: Reports,
        *,
        clock: Clock,
        stop: StopRequest,
        logs: tuple[Capture, Capture],
        facts: Callable[[], None],
    ) -> None:
        """Begin to count the attempt's time.

        Args:
            folder: the Job's.
            plan: says what to wait for, and how long.
            reports: where it is told.
            clock: the time.
            stop: whether somebody asked to stop.
            logs: the run's standard output and error; stacks go to the latter.
            facts: writes down what the run saw; called once it works.

        Raises:
            ValueError: the first signal's pattern is no regular expression.
        """
        self._folder, self._plan, self._reports = folder, plan, reports
        self._clock, self._stop, self._logs, self._facts = clock, stop, logs, facts
        self.signal = FirstSignal(plan.signal)
        self.started_at: datetime | None = None
        self._began = clock.monotonic()
        self._started = 0.0
        self._signal_told = False
        self._aside = Aside()
        self._printed = None if plan.engine else PrintedProgress(folder.metrics, lambda: stamp(clock.now()))
        self._ranks: list[ProcessId] | None = None
        self._shell: Shell | None = None
        self._family: Family | None = None
        self._head: OwnHead | None = None

    def start(self, shell: Shell, family: Family, head: OwnHead | None) -> None:
        """The run begins now.

        Args:
            shell: runs it.
            family: its processes.
            head: the Job's own Ray head, where it has one.
        """
        self._shell, self._family, self._head = shell, family, head
        self.started_at, self._started = self._clock.now(), self._clock.monotonic()

    def hear(self, lines: Sequence[str]) -> None:
        """Lines that the run has printed."""
        self.signal.hear(lines)
        if self._printed is not None:
            self._printed.hear(lines)

    def look(self) -> None:
        """Report what has changed since the last look."""
        if self._ranks is None and self._folder.ranks.exists():
            self._placed()
        if self._head is not None and (lost := self._head.look()):
            self._reports.write("Warning", True, "RayHeadEnded", lost)
        if self.signal.line is not None and not self._signal_told:
            self._signal_told = True
            after = self._clock.monotonic() - self._started
            self._reports.write("SignalSeen", True, "SignalSeen", f"after {after:.1f} s: {self.signal.line}")
            self._aside.once("facts", self._facts)
        elif self.signal.overdue(self._clock.monotonic() - self._started):
            self._stalled()

    def must_end(self) -> str:
        """Why the run must be ended now; empty when it need not."""
        if self._stop.made:
            return STOPPED
        limit = self._plan.deadline_s
        if limit is not None and self._clock.monotonic() - self._began > limit:
            return DEADLINE
        return self.disk_full

    @property
    def disk_full(self) -> str:
        """That the disk is full, where what the run prints could not be written; empty otherwise."""
        errors = [log.error for log in self._logs] + [self._printed.error if self._printed else None]
        return DISK_FULL if any(errors) else ""

    def finish(self) -> None:
        """The run is over: tell a signal that never came."""
        if self.signal.awaited and not self._signal_told:
            self._reports.write("SignalSeen", False, "NotSeen", "the run ended before its first signal")

    def end_ranks(self, grace_s: float) -> list[ProcessId]:
        """End the ranks that live outside the worker's own tree, on the platform's head. What could not be ended."""
        return process.end(self._ranks or [], grace_s, self._clock)

    def close(self, patience_s: float) -> None:
        """Write down what the run saw, if that was not done, and wait for what is done in the background."""
        self._aside.once("facts", self._facts)
        self._aside.finish(patience_s)

    def _placed(self) -> None:
        try:
            found = read_json(self._folder.ranks) or {}
        except ValueError:
            return  # it is being replaced; the next look sees it whole
        ranks = found.get("ranks")
        listed = [dict(rank) for rank in ranks if isinstance(rank, dict)] if isinstance(ranks, list) else []
        self._ranks = self._identified(listed)
        how = "in one process" if found.get("fused") else f"in {len(listed)} processes"
        self._reports.write("Placed", True, "Placed", f"the components run {how}", {"ranks": listed})

    def _identified(self, ranks: list[dict[str, object]]) -> list[ProcessId]:
        """The ranks' processes; where the run has process numbers of its own, the ranks get ours instead."""
        pids = [pid for rank in ranks if isinstance(pid := rank.get("pid"), int)]
        if not self._plan.own_pids or self._family is None:
            living = (process.identify(pid) for pid in pids)
            return [one for one in living if one is not None]
        found = self._family.outer(pids)
        for rank in ranks:
            own = found.get(pid) if isinstance(pid := rank.get("pid"), int) else None
            rank["pid"] = own.pid if own is not None else 0  # one that is gone has no number with us
        return list(found.values())

    def _stalled(self) -> None:
        wanted = self._plan.signal
        assert wanted is not None
        self._signal_told = True
        message = f"no line matched {wanted.pattern!r} within {wanted.within:g} s; stacks are in stderr.log"
        self._reports.write("SignalSeen", False, "Stalled", message)
        self._aside.once("stacks", self._dump_stacks)

    def _dump_stacks(self) -> None:
        assert self._family is not None
        assert self._shell is not None
        ranks = self._ranks or []
        engine = self._shell.own if self._plan.engine else None
        ours = [*ranks, engine] if engine else ranks
        family = self._family.run()
        self._logs[1].write(*dump([*family, *(rank for rank in ranks if rank not in family)], ours))
