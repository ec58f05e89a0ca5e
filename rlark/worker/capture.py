"""Output of the run, as it comes: whole lines, stamped, secrets masked, into one file a stream."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from rlark.redactor import Redactor

CHUNK = 1 << 16
LONGEST = 1 << 16
"""A line longer than this many bytes is cut."""
REMEMBERED = 50


class Splitter:
    """Cuts a stream of bytes into lines, wherever the chunks are cut.

    A carriage return ends a line too, so that a progress bar that rewrites itself becomes lines.
    """

    def __init__(self, redact: Redactor | None = None) -> None:
        """Nothing was read yet.

        Args:
            redact: knows the secrets, none of which is cut.
        """
        self._rest = b""
        self._redact = redact or Redactor()
        self._longest = LONGEST + self._redact.reach  # so that a secret at the place of the cut is there as a whole

    def feed(self, chunk: bytes) -> list[str]:
        """The lines that this chunk completes, without their ends."""
        parts = (self._rest + chunk).splitlines(keepends=True)  # of bytes: at \n, \r and \r\n only
        # The last part waits for more unless it surely ends: a \r may be half of \r\n.
        self._rest = parts.pop() if parts and not parts[-1].endswith(b"\n") else b""
        lines = [part.rstrip(b"\r\n") for part in parts if part != b"\r"]  # a bar starts with \r: nothing is before it
        while len(self._rest) > self._longest:
            at = self._redact.place_to_cut(self._rest, LONGEST)
            lines.append(self._rest[:at])
            self._rest = self._rest[at:]
        return [line.decode(errors="replace") for line in lines]

    def finish(self) -> list[str]:
        """What stands behind the last line's end."""
        rest, self._rest = self._rest.rstrip(b"\r"), b""
        return [rest.decode(errors="replace")] if rest else []


class Capture:
    """One stream of the run: read by a thread, written to its log.

    What the run prints is told to `heard` line by line; what its prepare script prints before is not.
    """

    def __init__(self, path: Path, now: Callable[[], str], redact: Redactor) -> None:
        """Open the log.

        Args:
            path: the log file; lines are appended.
            now: the time as it stands before each line.
            redact: hides secrets.

        Raises:
            OSError: the file cannot be written.
        """
        self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._now = now
        self._redact = redact
        self._splitter = Splitter(redact)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._heard: Callable[[Sequence[str]], None] | None = None
        self._mark: str | None = None
        self.marked = threading.Event()
        self.last: deque[str] = deque(maxlen=REMEMBERED)
        self.error: OSError | None = None

    def follow(self, source: int, heard: Callable[[Sequence[str]], None], mark: str | None = None) -> None:
        """Read a pipe to its end, in a thread.

        Args:
            source: the pipe's descriptor, ours from now on.
            heard: is told the lines.
            mark: only lines behind this one are told, and it is not logged; None to tell all.
        """
        self._heard, self._mark = heard, mark
        self._thread = threading.Thread(target=self._read, args=(source,), name="capture", daemon=True)
        self._thread.start()

    def write(self, *lines: str) -> None:
        """Log lines of our own.

        Raises:
            OSError: the disk is full.
        """
        with self._lock:
            self._log([self._redact(line) for line in lines])

    def finish(self, patience_s: float) -> None:
        """Wait until the pipe is drained, for so many seconds at most."""
        if self._thread is not None:
            self._thread.join(patience_s)

    def close(self) -> None:
        """Close the log; what still comes is dropped."""
        with self._lock:
            if self._handle >= 0:
                os.close(self._handle)
            self._handle = -1

    def _read(self, source: int) -> None:
        with open(source, "rb", buffering=0) as pipe:
            while chunk := pipe.read(CHUNK):
                self._take(self._splitter.feed(chunk))
            self._take(self._splitter.finish())

    def _take(self, lines: list[str]) -> None:
        if self._mark is not None and self._mark in lines:
            at = lines.index(self._mark)
            self._keep(lines[:at])
            self._mark, lines = None, lines[at + 1 :]
            self.marked.set()
        kept = self._keep(lines)
        if self._mark is None and kept and self._heard is not None:
            self._heard(kept)

    def _keep(self, lines: Sequence[str]) -> list[str]:
        """Log lines of the run, masked. With a full disk reading goes on, so that the run does not block."""
        if not lines:
            return []
        clean = self._redact("\n".join(lines)).split("\n")  # together: a secret may have several lines
        self.last.extend(clean)
        with self._lock:
            try:
                self._log(clean)
            except OSError as error:
                self.error = self.error or error
        return clean

    def _log(self, lines: Sequence[str]) -> None:
        if self._handle < 0:
            return
        time = self._now()
        data = "".join(f"{time} {line}\n" for line in lines).encode(errors="replace")
        while data:
            data = data[os.write(self._handle, data) :]
