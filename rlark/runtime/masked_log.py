"""Logs of ranks whose Job has secrets: each rank prints into a pipe, and the run writes the log, masked."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from rlark.redactor import Redactor

CHUNK = 1 << 16
LONGEST = 1 << 16
"""A line longer than this many bytes is written in pieces."""


class MaskedLogs:
    """The logs of all ranks of a run. Without secrets there is nothing to do: a rank writes its log itself."""

    def __init__(self, mask: Redactor) -> None:
        """Take what hides the secrets."""
        self._mask = mask
        self._logs: list[_MaskedLog] = []

    def through(self, log: Path) -> str:
        """Where a rank shall print so that its log is written masked: a pipe beside it.

        Args:
            log: the log.

        Returns:
            The pipe's name; empty where the rank may write the log itself.

        Raises:
            OSError: the pipe or the log cannot be made.
        """
        if not self._mask:
            return ""
        name = log.with_name(f".{log.name}.pipe")
        name.unlink(missing_ok=True)
        os.mkfifo(name, 0o600)
        self._logs.append(_MaskedLog(name, log, self._mask))
        return str(name)

    def settle(self) -> None:
        """Every rank has its pipe: their names may go."""
        for log in self._logs:
            log.name.unlink(missing_ok=True)

    def finish(self, patience_s: float) -> None:
        """Write what ranks that are gone have left in their pipes; for so many seconds each at most."""
        self.settle()
        for log in self._logs:
            log.finish(patience_s)
        self._logs = []


class _MaskedLog:
    """One pipe, read by a thread to its end."""

    def __init__(self, pipe: Path, log: Path, mask: Redactor) -> None:
        self.name = pipe
        source = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._held = os.open(pipe, os.O_WRONLY | os.O_CLOEXEC)  # else it would be at its end before the rank opens it
        os.set_blocking(source, True)
        target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._mask = mask
        self._rest = b""
        self._thread = threading.Thread(target=self._read, args=(source, target), name=log.stem, daemon=True)
        self._thread.start()

    def finish(self, patience_s: float) -> None:
        os.close(self._held)
        self._thread.join(patience_s)

    def _read(self, source: int, target: int) -> None:
        with open(source, "rb", buffering=0) as pipe, open(target, "wb", buffering=0) as log:
            while chunk := pipe.read(CHUNK):
                self._write(log.fileno(), self._lines(chunk))
            self._write(log.fileno(), self._rest)

    def _lines(self, chunk: bytes) -> bytes:
        """The whole lines there are; what is behind them waits for more, so that no secret is seen in part."""
        data = self._rest + chunk
        end = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if len(data) - end > LONGEST + self._mask.reach:
            end = self._mask.place_to_cut(data, len(data) - self._mask.reach)
        self._rest = data[end:]
        return data[:end]

    def _write(self, log: int, data: bytes) -> None:
        rest = self._mask(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")
        try:
            while rest:
                rest = rest[os.write(log, rest) :]
        except OSError:  # the disk is full, which the run finds out by its own files; the rank must not wait for us
            return
