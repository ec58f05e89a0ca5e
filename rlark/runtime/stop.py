"""Being asked to stop: SIGTERM ends a run at a place where nothing is lost."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPED = 143
"""What a run that was asked to stop exits with: 128 + SIGTERM."""


class Stopped(BaseException):
    """The run was asked to stop and did.

    Not an `Exception`, so that nobody who handles errors takes it for one.
    """


class Stop:
    """Whether somebody asked this process to stop.

    Outside of `deferred` the request is raised where the program stands; inside it is only noted, and
    whoever is inside looks at `requested` when it can.
    """

    def __init__(self) -> None:
        """Nobody asked yet."""
        self.requested = False
        self._deferred = False

    def listen(self) -> None:
        """Take SIGTERM and SIGINT; to be called again after a library took them."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._asked)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Only note requests inside.

        Raises:
            Stopped: one had come before.
        """
        if self.requested:
            raise Stopped
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False

    def _asked(self, _number: int, _frame: FrameType | None) -> None:
        first = not self.requested
        self.requested = True
        if first and not self._deferred:  # once: a second signal must not break what ends the run
            raise Stopped
