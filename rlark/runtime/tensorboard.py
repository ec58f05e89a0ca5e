"""TensorBoard event files: the run's curves, for TensorBoard's own page.

tensorboardX frames the records and knows the protocol buffers; its `SummaryWriter` is not used,
because it writes in a thread where a full disk goes unnoticed.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path

from rlark.host.clock import Clock

FLUSH_S = 2.0


class EventFile:
    """One event file of a run; events reach the disk every two seconds and at the end."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        """Begin a file.

        Args:
            folder: made where needed; TensorBoard reads all files in it as one run.
            clock: gives each event its time.

        Raises:
            OSError: it cannot be written.
        """
        from tensorboardX.record_writer import RecordWriter  # imports torch where there is one: a second

        folder.mkdir(parents=True, exist_ok=True)
        self._clock = clock
        name = f"events.out.tfevents.{int(clock.now().timestamp())}.{socket.gethostname()}.{os.getpid()}"
        self._file = RecordWriter(str(folder / name))
        self._append({"file_version": "brain.Event:2"})
        self._flush()

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Append the scalars of one step.

        Args:
            step: counted from 1.
            values: tag -> number.

        Raises:
            OSError: the disk is full.
        """
        from tensorboardX.proto.summary_pb2 import Summary

        scalars = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._append({"step": step, "summary": Summary(value=scalars)})
        if self._clock.monotonic() - self._flushed >= FLUSH_S:
            self._flush()

    def close(self) -> None:
        """Write what is left and close the file."""
        self._file.close()

    def _append(self, what: Mapping[str, object]) -> None:
        from tensorboardX.proto.event_pb2 import Event

        event = Event(wall_time=self._clock.now().timestamp(), **what)
        self._file.write(event.SerializeToString())

    def _flush(self) -> None:
        self._file.flush()
        self._flushed = self._clock.monotonic()
