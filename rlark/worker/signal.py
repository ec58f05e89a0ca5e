"""The first sign of life: a line that the run prints once it really works."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlark.plan.plan import Signal

_SHOWN = 200


class FirstSignal:
    """Waits for the line.

    Attributes:
        line: the line that was seen; None before.
        stalled: True once the deadline passed without it; a line that comes later counts no more.
    """

    def __init__(self, signal: Signal | None) -> None:
        """Wait for a signal, or for none.

        Raises:
            ValueError: the pattern is no regular expression.
        """
        self._signal = signal
        self.line: str | None = None
        self.stalled = False
        try:
            self._pattern = re.compile(signal.pattern) if signal else None
        except re.error as error:
            raise ValueError(f"firstSignal.pattern is no regular expression: {error}") from error

    def hear(self, lines: Sequence[str]) -> None:
        """Look at lines of the run."""
        if self._pattern is None or self.line is not None:
            return
        for line in lines:
            if self._pattern.search(line):
                self.line = line[:_SHOWN]
                return

    def overdue(self, elapsed_s: float) -> bool:
        """Whether the deadline has just passed; True once, and never where there is none.

        Args:
            elapsed_s: seconds since `Started`.
        """
        within = self._signal.within if self._signal else None
        if within is None or self.line is not None or self.stalled or elapsed_s < within:
            return False
        self.stalled = True
        return True

    @property
    def awaited(self) -> bool:
        """True where there is a signal to wait for."""
        return self._pattern is not None

    @property
    def expected(self) -> bool:
        """True where the Job itself states the signal, so that it counts for `verified`."""
        return self._signal is not None and self._signal.expected

    @property
    def in_time(self) -> bool:
        """Whether it was seen before its deadline."""
        return self.line is not None and not self.stalled
