"""Processes: started in a session of their own, told apart for ever, ended as whole trees.

Everything is read from /proc in one pass and every signal goes through a pidfd that was checked
against the start time, so that a recycled pid is never hit. A zombie counts as gone: its memory,
files and devices are free, and nobody may be there to reap it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rlark.host.clock import Clock, SystemClock

PROC = Path("/proc")
POLL_S = 0.05
KILL_WAIT_S = 5.0
_PR_SET_CHILD_SUBREAPER = 36
_COMMAND_LENGTH = 160
_CLOCK = SystemClock()


@dataclass(frozen=True, order=True)
class ProcessId:
    """A process, unlike a bare pid never mistaken for a later one.

    Attributes:
        pid: the kernel's number for it.
        starttime: clock ticks from boot to its start.
    """

    pid: int
    starttime: int

    def to_json(self) -> dict[str, int]:
        """`{"pid", "starttime"}`, as it stands in files."""
        return {"pid": self.pid, "starttime": self.starttime}

    @classmethod
    def from_json(cls, value: object) -> ProcessId | None:
        """Read it back; None for anything else."""
        if not isinstance(value, Mapping):
            return None
        pid, starttime = value.get("pid"), value.get("starttime")
        return cls(pid, starttime) if isinstance(pid, int) and isinstance(starttime, int) else None


@dataclass(frozen=True)
class _Row:
    """What /proc/PID/stat says."""

    parent: int
    state: str
    starttime: int

    @property
    def gone(self) -> bool:
        return self.state in "ZX"


def _row(pid: int) -> _Row | None:
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text[text.rfind(")") + 2 :].split()  # the name before may itself hold blanks and brackets
    return _Row(parent=int(fields[1]), state=fields[0], starttime=int(fields[19]))


def _table() -> dict[int, _Row]:
    rows = ((int(name), _row(int(name))) for name in os.listdir(PROC) if name.isdigit())  # noqa: PTH208
    return {pid: row for pid, row in rows if row is not None}


def become_subreaper() -> None:
    """Let orphaned descendants be re-parented to this process, so that none escapes the walk.

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


def identify(pid: int) -> ProcessId | None:
    """The identity of a living process; None when there is none, or only its zombie."""
    row = _row(pid)
    return None if row is None or row.gone else ProcessId(pid, row.starttime)


def this_process() -> ProcessId:
    """The identity of the calling process."""
    own = identify(os.getpid())
    if own is None:
        raise OSError("/proc does not show this process; is it mounted?")
    return own


def alive(process: ProcessId) -> bool:
    """Whether that very process still lives."""
    return identify(process.pid) == process


def descendants(pid: int) -> list[ProcessId]:
    """Living processes below a pid, parents before children; the pid itself is not among them."""
    return families([pid])[0]


def families(pids: Iterable[int]) -> list[list[ProcessId]]:
    """The descendants of each of several pids, from one look at /proc, which costs a read for every process."""
    table = _table()
    return [_below(table, [pid]) for pid in pids]


def _below(table: Mapping[int, _Row], roots: Iterable[int]) -> list[ProcessId]:
    children: dict[int, list[int]] = {}
    for pid, row in table.items():
        children.setdefault(row.parent, []).append(pid)
    found: list[ProcessId] = []
    seen = set(roots)
    waiting = list(seen)
    while waiting:
        for child in children.get(waiting.pop(0), ()):
            if child not in seen:
                seen.add(child)
                waiting.append(child)  # a zombie cannot have children, but its row may be a moment old
                if not table[child].gone:
                    found.append(ProcessId(child, table[child].starttime))
    return found


def lineage(one: ProcessId, top: int) -> list[ProcessId]:
    """The processes between a process and one above it, nearest first; neither of the two is among them."""
    table = _table()
    found: list[ProcessId] = []
    pid = table[one.pid].parent if one.pid in table else 0
    while pid in table and pid != top:
        found.append(ProcessId(pid, table[pid].starttime))
        pid = table[pid].parent
    return found


def outer(inner: Iterable[int], below: int) -> dict[int, ProcessId]:
    """The processes behind numbers of an inner PID namespace, as this process knows them.

    Args:
        inner: what the processes below call each other.
        below: the pid of the process that made the namespace, or of one above it.

    Returns:
        Inner number -> process, of those that live. Without a namespace the two numbers are the same.
    """
    wanted = set(inner)
    found = {_innermost(one.pid): one for one in reversed(descendants(below))}
    return {pid: found[pid] for pid in wanted if pid in found}


def _innermost(pid: int) -> int:
    """A process's number in the PID namespace that it lives in; 0 when it is gone."""
    try:
        text = (PROC / str(pid) / "status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    line = next((line for line in text.splitlines() if line.startswith("NSpid:")), f"NSpid: {pid}")
    return int(line.split()[-1])


def name(pid: int) -> str:
    """The short name that the kernel keeps (at most 15 characters); empty when it is gone."""
    try:
        return (PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def command(pid: int) -> str:
    """The command line as the process shows it, in one line; empty when it is gone."""
    try:
        raw = (PROC / str(pid) / "cmdline").read_bytes()
        shown = " ".join(raw.replace(b"\0", b" ").decode(errors="replace").split())
        return (shown or name(pid))[:_COMMAND_LENGTH]
    except OSError:
        return ""


def describe(process: ProcessId) -> str:
    """A process for people: `1234 (python train.py)`."""
    shown = command(process.pid) if alive(process) else ""
    return f"{process.pid} ({shown})" if shown else str(process.pid)


def send(process: ProcessId, number: signal.Signals) -> bool:
    """Signal that very process and no later one with its pid.

    Returns:
        False when it is gone already, or belongs to somebody else.
    """
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if not alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(handle)


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process in a session and group of its own, without standard input.

    Args:
        argv: the program and its arguments; no shell.
        env: the whole environment; None inherits.
        cwd: where it starts.
        stdout: as `subprocess.Popen` takes it.
        stderr: as `subprocess.Popen` takes it.

    Raises:
        OSError: the program cannot be started.
    """
    return subprocess.Popen(
        list(argv),
        env=None if env is None else dict(env),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
    )


def reap() -> None:
    """Collect every zombie among this process's children; not for one that waits for a child of its own."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


@dataclass(frozen=True)
class Spared:
    """What is left alone when a tree is ended.

    Attributes:
        processes: these, and not what is below them.
        trees: these and all that is below them.
    """

    processes: frozenset[ProcessId] = frozenset()
    trees: frozenset[ProcessId] = frozenset()


def end_tree(
    root: ProcessId | None, grace_s: float, clock: Clock = _CLOCK, spared: Spared = Spared()
) -> list[ProcessId]:
    """End a process with all its descendants: SIGTERM, the grace period, SIGKILL.

    Args:
        root: the top of the tree, ended too; None for every descendant of the calling process,
            which should be a subreaper so that daemons are still below it.
        grace_s: seconds between the two signals; 0 kills at once.
        clock: measures the grace period.
        spared: what of the tree goes on.

    Returns:
        What still lives afterwards, what was spared not among it; empty when all is gone.
    """
    tree = _Tree([], top=os.getpid(), spared=spared) if root is None else _Tree([root], spared=spared)
    return _end(tree, grace_s, clock)


def end(processes: Iterable[ProcessId], grace_s: float, clock: Clock = _CLOCK) -> list[ProcessId]:
    """End processes with all their descendants, as `end_tree` does.

    What they start meanwhile is found too, even when its parent has died before it.
    """
    return _end(_Tree(processes), grace_s, clock)


def _end(tree: _Tree, grace_s: float, clock: Clock) -> list[ProcessId]:
    if grace_s > 0:
        for process in tree.living():
            send(process, signal.SIGTERM)
            send(process, signal.SIGCONT)  # one that is halted would hear nothing until it is killed
        _wait(tree, grace_s, clock, number=None)
    _wait(tree, KILL_WAIT_S, clock, number=signal.SIGKILL)
    return tree.living()


class _Tree:
    """A set of processes that grows by the children it is seen to have."""

    def __init__(self, roots: Iterable[ProcessId], top: int | None = None, spared: Spared = Spared()) -> None:
        self._known = set(roots)
        self._top = [] if top is None else [top]  # looked under, never part of the tree itself
        self._spared = spared

    def living(self) -> list[ProcessId]:
        """All that live now, those below the known ones included."""
        table = _table()
        known = {process for process in self._known if _lives(table, process)}
        known.update(_below(table, [*self._top, *(process.pid for process in known)]))
        trees = [process for process in self._spared.trees if _lives(table, process)]
        known.difference_update(self._spared.processes, trees, _below(table, [process.pid for process in trees]))
        self._known = known
        return sorted(known)


def _lives(table: Mapping[int, _Row], process: ProcessId) -> bool:
    row = table.get(process.pid)
    return row is not None and not row.gone and row.starttime == process.starttime


def _wait(tree: _Tree, limit_s: float, clock: Clock, number: signal.Signals | None) -> None:
    """Wait until the tree is gone, sending a signal to what is left at each look."""
    until = clock.monotonic() + limit_s
    while living := tree.living():
        for process in living if number is not None else ():
            send(process, number or signal.SIGKILL)
        if clock.monotonic() >= until:
            return
        clock.sleep(POLL_S)
