"""Removing what a run has left, whatever it did to it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all that is in it; what a link leads to stays.

    Folders that the run has closed to itself are opened for that.

    Raises:
        OSError: something cannot be removed; its `filename` says what.
    """
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    try:
        shutil.rmtree(path)
    except PermissionError:
        _open(path)
        shutil.rmtree(path)


def _open(folder: Path) -> None:
    """Let the owner into a folder and those below it; links are not followed."""
    folder.chmod(0o700)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                _open(Path(entry.path))
