"""The worker's reports: `worker.jsonl`, which the controller follows, written even when the disk is full."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from collections.abc import Mapping
from dataclasses import asdict

from rlark.folder import JobFolder
from rlark.host.clock import Clock, stamp
from rlark.redactor import Redactor
from rlark.spec.report import Report

FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""What the system says when there is no room: the disk, the quota, the file's limit."""
RESERVE = 256 * 1024
"""Bytes kept aside in the job folder, so that the last report finds room."""


def no_room(error: BaseException | None) -> bool:
    """Whether an error says that the disk is full."""
    return isinstance(error, OSError) and error.errno in FULL


class Reports:
    """Appends reports, numbered over the whole file.

    Attributes:
        mask: hides secrets in what is reported; nothing until they are known.
    """

    def __init__(self, folder: JobFolder, attempt: int, clock: Clock) -> None:
        """Continue the file of earlier attempts.

        Args:
            folder: the Job's.
            attempt: the try that is reported on.
            clock: gives each report its time.

        Raises:
            OSError: the file cannot be opened.
        """
        self._path = folder.reports
        self._reserve = folder.root / ".reserve"
        self._attempt = attempt
        self._clock = clock
        self.mask = Redactor()
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._n = self._continue()
        with contextlib.suppress(OSError):  # without it a full disk is told by the worker's exit code alone
            self._keep_aside()

    def write(
        self,
        kind: str,
        status: bool = True,
        reason: str = "",
        message: str = "",
        data: Mapping[str, object] | None = None,
    ) -> None:
        """Append one report.

        Args:
            kind: a condition's name, `Worker`, `Warning` or `Outcome`.
            status: whether the condition holds.
            reason: one CamelCase word.
            message: a sentence.
            data: further facts, JSON-serialisable.

        Raises:
            OSError: there is no room, not even in the reserve.
        """
        report = Report(
            n=self._n + 1,
            attempt=self._attempt,
            time=stamp(self._clock.now()),
            type=kind,
            status=status,
            reason=reason,
            message=self.mask(message),
            data=self.mask.tree(dict(data or {})),
        )
        line = json.dumps(asdict(report), allow_nan=False, ensure_ascii=False, separators=(",", ":")) + "\n"
        try:
            self._append(line.encode())
        except OSError as error:
            if not no_room(error):
                raise
            self._reserve.unlink(missing_ok=True)
            self._append(line.encode())
        self._n += 1

    def close(self) -> None:
        """Give the reserve back."""
        os.close(self._handle)
        self._reserve.unlink(missing_ok=True)

    def _append(self, data: bytes) -> None:
        """All of it or nothing: half a line would be joined by the next."""
        before = os.fstat(self._handle).st_size
        try:
            rest = data
            while rest:
                rest = rest[os.write(self._handle, rest) :]
        except OSError:
            os.ftruncate(self._handle, before)
            raise

    def _continue(self) -> int:
        """How many reports there are; half a line that a killed worker left is cut off."""
        text = self._path.read_bytes()
        whole = text.rfind(b"\n") + 1
        if whole != len(text):
            os.ftruncate(self._handle, whole)
        numbers = [json.loads(line).get("n", 0) for line in text[:whole].splitlines()]
        return max(numbers, default=0)

    def _keep_aside(self) -> None:
        handle = os.open(self._reserve, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(handle, 0, RESERVE)
        finally:
            os.close(handle)
