"""Being asked to stop: noted, and acted on at the worker's next look."""

from __future__ import annotations

import signal
from types import FrameType


class StopRequest:
    """Whether somebody asked this worker to stop."""

    def __init__(self) -> None:
        """Take SIGTERM and SIGINT."""
        self.made = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take)

    def _take(self, _number: int, _frame: FrameType | None) -> None:
        self.made = True
