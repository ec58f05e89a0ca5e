"""Where a silent run stands: stack dumps of its processes, without stopping it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from rlark.host import process
from rlark.host.process import ProcessId

MOST = 16
"""How many processes are looked into."""
PATIENCE_S = 3.0
_REQUEST = signal.SIGUSR1
_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
_INTERPRETERS = ("python", "ray::")


def dump(processes: Iterable[ProcessId], answering: Iterable[ProcessId] = ()) -> list[str]:
    """What Python processes are doing, line by line.

    py-spy looks into them from outside where it may. Otherwise those of our own runtime, which
    print their stacks to their own logs on SIGUSR1, are asked to, if they really catch it: a
    process that does not would die of it.

    Args:
        processes: all processes of the run.
        answering: those of our own runtime.
    """
    own = set(answering)
    tool = _tool()
    lines: list[str] = []
    for one in list(processes)[:MOST]:
        shown = process.describe(one)
        if not any(name in shown for name in _INTERPRETERS):
            lines.append(f"--- {shown}: no Python process")
            continue
        stack, why = _look(tool, one.pid)
        if stack is not None:
            lines += [f"--- {shown}", *stack]
        elif one in own and _catches(one.pid) and process.send(one, _REQUEST):
            lines.append(f"--- {shown}: its stacks are in its own log")
        else:
            lines.append(f"--- {shown}: no stack: {why}")
    return lines


def _tool() -> str | None:
    beside = Path(sys.executable).with_name("py-spy")
    return str(beside) if beside.is_file() else shutil.which("py-spy")


def _look(tool: str | None, pid: int) -> tuple[list[str] | None, str]:
    """py-spy's answer, or None and why there is none."""
    if tool is None:
        return None, "py-spy is missing (pip install py-spy)"
    try:
        done = subprocess.run(
            [tool, "dump", "--pid", str(pid)],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
            env={"PATH": os.environ.get("PATH", "")},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"py-spy did not answer: {error}"
    if done.returncode == 0:
        return done.stdout.splitlines(), ""
    said = next((line.strip() for line in done.stderr.splitlines() if line.strip()), "it does not say why")
    barred = "; kernel.yama.ptrace_scope allows it to root only, or set it to 0" if _barred() else ""
    return None, f"py-spy may not look: {said}{barred}"


def _barred() -> bool:
    """Whether the kernel keeps a process of this user from looking into another that is not its child."""
    try:
        return os.geteuid() != 0 and _SCOPE.read_text(encoding="ascii").strip() != "0"
    except OSError:
        return False


def _catches(pid: int) -> bool:
    """Whether a process has a handler for the request."""
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return False
    mask = next((line.split()[1] for line in text.splitlines() if line.startswith("SigCgt:")), "0")
    return bool(int(mask, 16) >> (_REQUEST - 1) & 1)
