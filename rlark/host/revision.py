"""Which commit a folder of code is at, asked of git."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

_TIMEOUT_S = 10.0
_CREDENTIALS = re.compile(r"(?<=://)[^/@]*@")


@dataclass(frozen=True)
class Revision:
    """A commit.

    Attributes:
        commit: 40 hex digits.
        dirty: True when tracked files differ from it.
        repository: where it comes from, without credentials; empty when git knows no remote.
        ref: the branch; empty when none is checked out.
    """

    commit: str
    dirty: bool
    repository: str
    ref: str


def revision_of(folder: Path) -> Revision | str:
    """The commit that a folder's code belongs to, or a sentence that says why it is unknown."""
    if shutil.which("git") is None:
        return "git is not installed"
    top = _git(folder, "rev-parse", "--show-toplevel")
    if not top:
        return "the code was installed, not run from a repository"
    relative = os.path.relpath(folder, top)
    if not _git(folder, "ls-files", "--", "."):
        return f"the repository around the code does not hold it ({relative} is not tracked)"
    commit = _git(folder, "rev-parse", "HEAD")
    if not commit:
        return "the repository has no commit yet"
    return Revision(
        commit=commit,
        dirty=bool(_git(folder, "status", "--porcelain", "--untracked-files=no")),
        repository=_CREDENTIALS.sub("", _git(folder, "config", "--get", "remote.origin.url")),
        ref=_git(folder, "symbolic-ref", "--short", "-q", "HEAD"),
    )


def _git(folder: Path, *arguments: str) -> str:
    """What git prints; empty when it fails."""
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return answer.stdout.strip() if answer.returncode == 0 else ""
