"""Bash: where it is, and its own opinion of a script without running it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

_COMPLAINT = re.compile(r"^[^:]*: line (?P<line>\d+): (?P<what>.*)$")
_PATIENCE_S = 10.0


def program() -> str:
    """Where bash is, so that a PATH of the Job's own does not hide it."""
    return shutil.which("bash") or "bash"


def syntax_error(script: str) -> tuple[int, str] | None:
    """What `bash -n` says of a script.

    Args:
        script: its text.

    Returns:
        The line, from 1, and bash's words; None where bash can read it, or is not there to be asked.
    """
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}  # no BASH_ENV, which it would read
    try:
        done = subprocess.run(
            ["bash", "--norc", "-n"],
            input=script.encode("utf-8", "replace"),
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode == 0:
        return None
    said = done.stderr.decode("utf-8", "replace")
    told = next((found for line in said.splitlines() if (found := _COMPLAINT.match(line))), None)
    if told is None:
        return 1, said.strip() or "bash cannot read it"
    return int(told["line"]), told["what"]
