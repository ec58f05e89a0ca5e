"""What Ray itself has logged of a head that lived for one attempt, kept with the attempt's own logs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from rlark.redactor import Redactor

MOST = 64 * 1024 * 1024
"""Bytes that are kept; of more, the newest files that fit."""


def keep_logs(temp_dir: Path, start_log: Path, target: Path, mask: Redactor) -> None:
    """Copy what `ray start` said and the logs of every session of a head, secrets masked.

    Args:
        temp_dir: Ray's temporary directory.
        start_log: what `ray start` said.
        target: a folder; made where there is something to keep.
        mask: hides the attempt's secrets.

    Raises:
        OSError: the disk is full.
    """
    files = sorted(_logs(temp_dir), key=lambda one: one[1].st_mtime, reverse=True)
    if start_log.exists():
        _copy(start_log, target / start_log.name, mask)
    room = MOST
    for path, facts in files:
        if facts.st_size > room:
            continue
        room -= facts.st_size
        inside = path.relative_to(temp_dir).parts[2:]  # below session_*/logs; a second session is rare
        _copy(path, target.joinpath(*inside), mask)


def _logs(temp_dir: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every file below `session_*/logs` that holds something; links lead elsewhere and are left out."""
    for session in sorted(temp_dir.glob("session_2*")):
        for path in (session / "logs").rglob("*"):
            if path.is_file() and not path.is_symlink() and (facts := path.stat()).st_size:
                yield path, facts


def _copy(path: Path, target: Path, mask: Redactor) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    text = path.read_bytes().decode(errors="surrogateescape")
    target.write_bytes(mask(text).encode(errors="surrogateescape"))
