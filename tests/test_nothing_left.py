"""The last test: whatever the suite started has ended."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

from rlark.host.process import ProcessId, descendants, describe

PATIENCE_S = 20


def _left() -> list[ProcessId]:
    return [p for p in descendants(os.getpid()) if "resource_tracker" not in describe(p)]


def test_nothing_is_left_running(closers: list[Callable[[], None]]) -> None:
    for close in reversed(closers):
        close()
    deadline = time.monotonic() + PATIENCE_S
    while _left() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [describe(p) for p in _left()] == []
