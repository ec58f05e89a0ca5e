"""The processes below the worker: the run's own, the Ray head's, and what shuts them in."""

from __future__ import annotations

import os

from rlark.host import process
from rlark.host.clock import Clock
from rlark.host.process import ProcessId, Spared
from rlark.worker.own_head import OwnHead
from rlark.worker.shell import Shell


class Family:
    """All that the worker has below it, told apart. The worker must be a subreaper."""

    def __init__(self, shell: Shell, head: OwnHead | None, clock: Clock) -> None:
        """Take the shell, and the Job's own head where it has one.

        Args:
            shell: the attempt's bash, started.
            head: to be started by it.
            clock: measures grace periods.
        """
        self._shell, self._head, self._clock = shell, head, clock
        self._before: frozenset[ProcessId] = frozenset()

    def note_prepared(self) -> None:
        """Remember what prepare has left in the background: it and what it starts are the run's, not the head's."""
        self._before = frozenset(self._all())

    def newcomers(self) -> frozenset[ProcessId]:
        """What has come since, the bash and what shuts it in apart: the head, once `ray start` has ended."""
        now, around = self._all(), {self._shell.own, *self._shell.around}
        old = self._before - around
        below = (one for family in process.families(one.pid for one in old) for one in family)
        return frozenset(now) - old - around - set(below)

    def run(self) -> list[ProcessId]:
        """The processes in which something of the run may be computed, parents first."""
        aside = set(self._shell.around) | (self._head.servants if self._head else frozenset())
        return [one for one in self._all() if one not in aside]

    def outer(self, pids: list[int]) -> dict[int, ProcessId]:
        """The processes behind numbers that the run itself uses."""
        return process.outer(pids, self._shell.pid)

    def end(self, grace_s: float) -> list[ProcessId]:
        """End all of it in order: the run, then its Ray head, then what shuts them in.

        Args:
            grace_s: seconds that the run has between SIGTERM and SIGKILL.

        Returns:
            What could not be ended.
        """
        spared = Spared(frozenset(self._shell.around), self._head.trees if self._head else frozenset())
        process.end_tree(None, grace_s if self._shell.begun else 0, self._clock, spared)
        if self._head is not None:
            self._head.stop()
        self._shell.let_go()
        return process.end_tree(None, 0, self._clock)

    @staticmethod
    def _all() -> list[ProcessId]:
        return process.descendants(os.getpid())
