"""Bash's own opinion of a script, without running it."""

from __future__ import annotations

import re
import subprocess

_COMPLAINT = re.compile(r"^(?:bash|/dev/stdin|[^:]*): line (?P<line>\d+): (?P<what>.*)$")
_PATIENCE_S = 10.0


def syntax_error(script: str) -> tuple[int, str] | None:
    """What `bash -n` says of a script.

    Args:
        script: its text.

    Returns:
        The line, from 1, and bash's words; None where bash can read it, or is not there to be asked.
    """
    try:
        done = subprocess.run(
            ["bash", "-n"], input=script, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode == 0:
        return None
    told = [found for line in done.stderr.splitlines() if (found := _COMPLAINT.match(line))]
    if not told:
        return 1, done.stderr.strip() or "bash cannot read it"
    return int(told[0]["line"]), told[0]["what"]
