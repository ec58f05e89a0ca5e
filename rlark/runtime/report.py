"""What a run tells while it trains: metrics.jsonl, TensorBoard files and the progress line."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from rlark.folder import JobFolder, append_line
from rlark.host.clock import Clock, stamp
from rlark.runtime.component import Metrics

LINES = 8
"""About how many progress lines a run prints between its first and its last."""
FLUSH_S = 5.0


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

        Raises:
            OSError: the TensorBoard folder cannot be made.
        """
        tensorboard.mkdir(parents=True, exist_ok=True)
        self._metrics = folder.metrics
        self._engine = engine
        self._iterations = iterations
        self._every = max(1, iterations // LINES)
        self._progress = progress
        self._clock = clock
        self._out = out or sys.stdout
        self._board = TensorBoard(tensorboard, clock)

    def iteration(self, number: int, metrics: Metrics, env_steps: int, elapsed_s: float) -> None:
        """Report one finished iteration.

        Args:
            number: counted from 1.
            metrics: what `Trainer.iterate` gave.
            env_steps: control steps taken so far over all environments.
            elapsed_s: seconds of training so far.
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
        self._board.write(number, values)

    def close(self) -> None:
        """Flush what is not on disk yet."""
        self._board.close()


class TensorBoard:
    """An event file, opened with the first number: its library is slow to load where torch is not loaded yet."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Remember where; nothing is written yet."""
        self._folder = folder
        self._clock = clock
        self._flushed = clock.monotonic()
        self._writer: Any = None

    def write(self, step: int, values: Mapping[str, float | None]) -> None:
        """Append one event that carries all numbers of a step; those not measured are left out."""
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        if self._writer is None:
            from tensorboardX.event_file_writer import EventsWriter

            self._writer = EventsWriter(str(self._folder / "events"))
        points = [Summary.Value(tag=name, simple_value=value) for name, value in values.items() if value is not None]
        event = Event(wall_time=self._clock.now().timestamp(), step=step, summary=Summary(value=points))
        self._writer.write_event(event)
        if self._clock.monotonic() - self._flushed >= FLUSH_S:
            self._writer.flush()
            self._flushed = self._clock.monotonic()

    def close(self) -> None:
        """Flush and close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
