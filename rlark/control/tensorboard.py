"""TensorBoards on demand: one process for each Job whose curves somebody looks at, a few at a time.

TensorBoard asks nobody who they are, and it cannot listen on a unix socket: while one runs, whoever has an
account on this machine can read those curves at its port. So it listens on loopback, and no longer than it
is looked at; people with a browser come through the API, which asks for the token.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from rlark.control.record import JsonObject
from rlark.errors import ClusterError
from rlark.folder import Home
from rlark.host import ports, process
from rlark.host.clock import Clock
from rlark.host.process import ProcessId
from rlark.plan.mounts import real_path
from rlark.plan.plan import Plan

MOST = 4
"""How many run at a time; the one that was not asked for the longest makes room."""
IDLE_S = 15 * 60.0
"""One that nobody asked for so long is ended."""
GRACE_S = 2.0
INSTALL = 'pip install "rlark[tensorboard]"'
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "PYTHONPATH")
_BOUND = """\
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Lets the kernel kill what it becomes when the thread that started it is gone, however that came about."""

Command = Callable[[Path, int, str], Sequence[str]]
"""The program that shows a folder at a port, under a path."""


def event_folder(home: Home, plan: Plan) -> Path:
    """Where a Job's event files really lie.

    Args:
        home: the state directory.
        plan: the Job's; its `tensorboard` is a path as the run sees it.
    """
    folder = home.job(plan.job)
    if not plan.tensorboard:
        return folder.tensorboard
    return Path(real_path(plan.tensorboard, plan.mounts, volumes=str(home.volumes), scratch=str(folder.scratch)))


def tensorboard(events: Path, port: int, prefix: str) -> Sequence[str]:
    """TensorBoard itself.

    Args:
        events: the folder of the event files; it may come later.
        port: of loopback.
        prefix: the path under which it is asked, without a slash at its end.

    Raises:
        ClusterError: it is not installed.
    """
    importlib.invalidate_caches()  # it may have been installed since the platform was started
    if importlib.util.find_spec("tensorboard") is None:
        raise ClusterError("TensorBoard is not installed where the platform runs", hint=f"install it: {INSTALL}")
    where = ["--logdir", str(events), "--host", "127.0.0.1", "--port", str(port), "--path_prefix", prefix]
    # its data server would be a second process with a port of its own
    return [sys.executable, "-m", "tensorboard.main", *where, "--load_fast=false"]


@dataclass
class _Board:
    """One that runs.

    Attributes:
        shows: the Job's uid, its event folder and the path, as text: another one needs another process.
        port: on loopback.
        child: the process, to be reaped.
        process: the same, never mistaken for a later one.
        used: when it was last asked for, in seconds of the clock.
        ready: True once it has been seen to listen.
    """

    shows: tuple[str, str, str]
    port: int
    child: subprocess.Popen[bytes]
    process: ProcessId | None
    used: float
    ready: bool = False

    @property
    def lives(self) -> bool:
        return self.child.poll() is None

    def look(self) -> bool:
        """Whether it, and nobody else, answers at its port."""
        self.ready = self.ready or (self.process is not None and ports.held_by(self.port, self.process))
        return self.ready


class TensorBoards:
    """Starts, keeps and ends them. Every method may be called from any thread and none waits for a TensorBoard."""

    def __init__(self, home: Home, clock: Clock, command: Command = tensorboard) -> None:
        """Start none.

        Args:
            home: the state directory; logs go to `home.tensorboards`.
            clock: time.
            command: what is started.
        """
        self._home, self._clock, self._command = home, clock, command
        self._lock = threading.Lock()
        self._boards: dict[str, _Board] = {}
        # One thread starts them all: it lives as long as the controller, and they not a moment longer than it.
        self._starter = ThreadPoolExecutor(1, thread_name_prefix="tensorboard-start")
        self._ender = ThreadPoolExecutor(1, thread_name_prefix="tensorboard-end")  # so that nobody waits for an end

    def open(self, name: str, uid: str, events: Path, prefix: str) -> JsonObject:
        """The TensorBoard of a Job, started where none runs; asking keeps it alive.

        Args:
            name: the Job's.
            uid: the Job's own id.
            events: the folder of its event files.
            prefix: the path under which it is asked.

        Returns:
            `{"port": int, "process": {"pid", "starttime"} | null, "ready": bool}`; not ready while it starts.

        Raises:
            ClusterError: it is not installed, or ended instead of starting; with its last words.
        """
        shows = (uid, str(events), prefix)
        with self._lock:
            board = self._boards.get(name)
            if board and (board.shows != shows or not board.lives):
                self._drop(name)
                if board.shows == shows and not board.ready:
                    raise ClusterError(
                        f"the TensorBoard of job {name!r} ended instead of starting: {self._last_words(name)}",
                        hint=f"its log is {self._log(name)}",
                    )
                board = None
            if board is None:
                board = self._boards[name] = self._start(name, shows)
            board.used = self._clock.monotonic()
        identity = board.process.to_json() if board.process else None
        return {"port": board.port, "process": identity, "ready": board.look()}

    def sweep(self) -> None:
        """End what nobody has looked at for long; costs nothing when there is none."""
        if not self._boards:
            return
        with self._lock:
            due = self._clock.monotonic() - IDLE_S
            for name in [name for name, board in self._boards.items() if board.used < due]:
                self._drop(name)

    def end(self, name: str) -> None:
        """End the one of a Job, whose folder is to go; harmless where there is none."""
        with self._lock, suppress(OSError):
            if name in self._boards:
                self._drop(name)
            self._log(name).unlink(missing_ok=True)

    def close(self) -> None:
        """End all of them, and wait for it."""
        with self._lock:
            for name in list(self._boards):
                self._drop(name)
        self._starter.shutdown()
        self._ender.shutdown()

    # ---- parts, under the lock

    def _start(self, name: str, shows: tuple[str, str, str]) -> _Board:
        _, events, prefix = shows
        [port] = ports.free_ports(1)
        command = self._command(Path(events), port, prefix)
        while len(self._boards) >= MOST:
            self._drop(min(self._boards, key=lambda other: self._boards[other].used))
        folder = self._home.tensorboards
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            child = self._starter.submit(_spawn, command, folder, self._log(name)).result()
        except OSError as error:
            raise ClusterError(
                f"the TensorBoard of job {name!r} cannot be started: {error}",
                hint=f"is there room in {folder}, and may it be written?",
            ) from error
        return _Board(shows, port, child, process.identify(child.pid), self._clock.monotonic())

    def _drop(self, name: str) -> None:
        self._ender.submit(_end, self._boards.pop(name))

    def _log(self, name: str) -> Path:
        return self._home.tensorboards / f"{name}.log"

    def _last_words(self, name: str) -> str:
        with suppress(OSError):
            lines = self._log(name).read_text(encoding="utf-8", errors="replace").split("\n")
            return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "it said nothing")
        return "it said nothing"


def _spawn(command: Sequence[str], folder: Path, log: Path) -> subprocess.Popen[bytes]:
    log.unlink(missing_ok=True)  # one that just ends may still write to its own
    with log.open("xb") as output:
        log.chmod(0o600)
        bound = [sys.executable, "-IS", "-c", _BOUND, str(os.getpid()), *command]
        return process.spawn(bound, env=_environment(folder), cwd=folder, stdout=output, stderr=subprocess.STDOUT)


def _environment(folder: Path) -> Mapping[str, str]:
    """Enough for a Python program, and none of the platform's tokens."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return kept | {"TMPDIR": str(folder), "CUDA_VISIBLE_DEVICES": ""}


def _end(board: _Board) -> None:
    if board.process is not None:
        process.end_tree(board.process, GRACE_S)
    with suppress(subprocess.TimeoutExpired):
        board.child.wait(GRACE_S)
