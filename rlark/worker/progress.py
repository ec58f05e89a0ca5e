"""Metrics of programs that only print: their progress lines become metrics.jsonl."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from rlark.folder import append_line

_ITERATION = re.compile(r"\biter (\d{1,18})/(\d{1,18})\b(.*)")
_NUMBER = re.compile(r"\b([A-Za-z]\w*)=(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\w.])")
_ELAPSED = re.compile(r"\belapsed=(\d+(?:\.\d+)?)s\b")
_OURS = frozenset({"iteration", "iterations", "time", "elapsed", "elapsedSeconds"})


class PrintedProgress:
    """Reads lines like `iter 3/10 meanReward=-1.5 recentSuccess=0.25 elapsed=12s`."""

    def __init__(self, path: Path, now: Callable[[], str]) -> None:
        """Write to a metrics file.

        Args:
            path: `metrics.jsonl`.
            now: the time as it stands in each line.
        """
        self._path = path
        self._now = now
        self.error: OSError | None = None

    def hear(self, lines: Sequence[str]) -> None:
        """Look at lines of the run."""
        for line in lines:
            point = parse(line)
            if point is not None and self.error is None:
                try:
                    append_line(self._path, {**point, "time": self._now()})
                except OSError as error:
                    self.error = error


def parse(line: str) -> dict[str, float | int] | None:
    """The metrics in a progress line; None when it is none. A number too large for a float is left out."""
    found = _ITERATION.search(line)
    if found is None:
        return None
    iteration, iterations, tail = found.groups()
    numbers = {name: float(value) for name, value in _NUMBER.findall(tail) if name not in _OURS}
    if elapsed := _ELAPSED.search(tail):
        numbers["elapsedSeconds"] = float(elapsed.group(1))
    finite = {name: value for name, value in numbers.items() if math.isfinite(value)}
    return {"iteration": int(iteration), "iterations": int(iterations), **finite}
