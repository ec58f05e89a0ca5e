"""What a run tells while it trains: metrics.jsonl, TensorBoard files and the progress line."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from rlark.folder import JobFolder, append_line, json_line, read_lines, write_text
from rlark.host.clock import Clock, stamp
from rlark.runtime.component import Metrics
from rlark.runtime.tensorboard import EventFile

_OF_THE_LINE = ("iteration", "iterations", "envSteps", "elapsedSeconds", "time")
LINES = 8
"""About how many progress lines a run prints between its first and its last."""


def finite(value: float) -> float | None:
    """A number as it stands in JSON: null for what was not measured or overflowed."""
    number = float(value)
    return number if math.isfinite(number) else None


class Reporter:
    """Writes one iteration after the other to wherever people look."""

    def __init__(
        self,
        folder: JobFolder,
        engine: str,
        *,
        iterations: int,
        tensorboard: Path,
        progress: Callable[[Metrics], str],
        clock: Clock,
        out: TextIO | None = None,
    ) -> None:
        """Prepare the files.

        Args:
            folder: the Job's.
            engine: the engine's id, shown in progress lines.
            iterations: how many there will be (N).
            tensorboard: the folder for event files.
            progress: `Program.progress`.
            clock: gives each line its time.
            out: where progress lines go; standard output by default.

        """
        self._metrics = folder.metrics
        self._engine = engine
        self._iterations = iterations
        self._every = max(1, iterations // LINES)
        self._progress = progress
        self._clock = clock
        self._out = out or sys.stdout
        self._tensorboard = tensorboard
        self._board: EventFile | None = None

    def iteration(self, number: int, metrics: Metrics, env_steps: int, elapsed_s: float) -> None:
        """Report one finished iteration.

        Args:
            number: counted from 1.
            metrics: what `Trainer.iterate` gave.
            env_steps: control steps taken so far over all environments.
            elapsed_s: seconds of training so far.

        Raises:
            OSError: the disk is full, or the TensorBoard folder cannot be made.
        """
        values = {name: finite(value) for name, value in metrics.items()}
        append_line(
            self._metrics,
            {
                "iteration": number,
                "iterations": self._iterations,
                "envSteps": env_steps,
                "elapsedSeconds": round(elapsed_s, 3),
                "time": stamp(self._clock.now()),
                **values,
            },
        )
        if number in (1, self._iterations) or number % self._every == 0:
            tail = self._progress(metrics)
            print(
                f"[{self._engine}] iter {number}/{self._iterations} {tail} elapsed={elapsed_s:.1f}s",
                file=self._out,
                flush=True,
            )
        self._on_the_board(number, values)

    def earlier(self, metrics: Path, upto: int) -> None:
        """Begin with the iterations of the run that this one goes on from, each once.

        They are told without their time, which lies before this attempt: by it readers know what an attempt told.

        Args:
            metrics: that run's `metrics.jsonl`, which may be this run's own; where there is none, nothing is told.
            upto: the last of its iterations that counts.

        Raises:
            OSError: the disk is full.
        """
        rows: dict[int, dict[str, object]] = {}
        for row, _ in read_lines(metrics):
            number = row.get("iteration")
            if isinstance(number, int) and number <= upto:
                rows[number] = {name: value for name, value in row.items() if name != "time"}
        if rows or self._metrics.exists():  # in one piece: it may be the only copy
            write_text(self._metrics, "".join(json_line(rows[number]) for number in sorted(rows)))
        for number in sorted(rows):
            self._on_the_board(
                number, {name: value for name, value in rows[number].items() if name not in _OF_THE_LINE}
            )

    def _on_the_board(self, number: int, values: Mapping[str, object]) -> None:
        if self._board is None:  # after the first sign of life: its library takes a moment to load
            self._board = EventFile(self._tensorboard, self._clock)
        self._board.write(number, {name: value for name, value in values.items() if isinstance(value, float | int)})

    def close(self) -> None:
        """Flush what is not on disk yet."""
        if self._board is not None:
            self._board.close()
