"""One bash for an attempt: it sources the prepare script and then becomes, or runs, the command."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import re
import select
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rlark.host import process
from rlark.host.process import ProcessId
from rlark.host.sandbox import Fence, fenced
from rlark.worker.scripts import Pipes, Scripts

_PR_SET_PDEATHSIG = 1
_DESCRIPTORS = 200
"""The shell's pipes have higher numbers than scripts choose for descriptors of their own."""
_COMPLAINT = re.compile(r"^(?P<file>[^:]+): line (?P<line>\d+): (?P<what>.*)$")


@dataclass(frozen=True)
class Trouble:
    """How a prepare script went wrong.

    Attributes:
        kind: it failed, or it ended the shell itself.
        line: the line of the script, from 1; 0 when unknown.
        status: what the shell exited with.
        what: bash's complaint, else the last line of standard error; empty when there is none.
    """

    kind: Literal["failed", "exited"]
    line: int
    status: int
    what: str = ""


class Shell:
    """The running bash."""

    def __init__(
        self,
        scripts: Scripts,
        *,
        env: Mapping[str, str],
        work: Path,
        output: Callable[[int, int], None],
        fence: Fence | None = None,
    ) -> None:
        """Start it in a session and process group of its own.

        Args:
            scripts: what it runs; written here.
            env: its whole environment.
            work: where it starts.
            output: is given the descriptors of its standard output and error to read from.
            fence: what it is shut in with; None for nothing.

        Raises:
            OSError: bash cannot be started, or the disk is full.
        """
        self._told, told = _pipe()
        go, self._go = _pipe()
        hold, self._hold = _pipe()
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        theirs = (told, go, hold, out_end, err_end)
        try:
            scripts.write(Pipes(told, go, hold))
            self._process = subprocess.Popen(
                fenced(scripts.argv, fence) if fence else list(scripts.argv),
                env=dict(env),
                cwd=work,
                stdin=subprocess.DEVNULL,
                stdout=out_end,
                stderr=err_end,
                pass_fds=(told, go, hold),
                start_new_session=True,
                preexec_fn=_end_with_worker(),  # noqa: PLW1509  no thread runs yet
            )
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        os.set_blocking(self._told, False)
        self._scripts = scripts
        self._fenced = fence is not None
        self._heard = b""
        self._own: ProcessId | None = None
        self._around: tuple[ProcessId, ...] = ()
        self._around_known = False
        output(out, err)

    @property
    def pid(self) -> int:
        """The process that the worker started: the bash itself, or what shuts it in."""
        return self._process.pid

    @property
    def own(self) -> ProcessId | None:
        """The bash, or the engine that took its place; None before it has begun, or when it ended too soon."""
        self._find()
        return self._own

    @property
    def around(self) -> tuple[ProcessId, ...]:
        """What shuts the bash in, and ends it by its own end; empty without a fence."""
        self._find()
        return self._around

    def _find(self) -> None:
        """Look for those that are not known yet; what was found stays, for a process that is gone has no family."""
        if not self._fenced:
            self._own = self._own or process.identify(self.pid)
            return
        if self._own is None:
            self._own = self._told_of("shell")
        if self._around_known:
            return
        last = self._told_of("holder") if self._scripts.held else self._own
        first = process.identify(self.pid)
        if last is None or first is None:
            self._around = (first,) if first is not None else ()
            return
        self._around_known = True
        held = (last,) if self._scripts.held else ()
        self._around = (*held, *process.lineage(last, os.getpid()))

    def _told_of(self, word: str) -> ProcessId | None:
        """The process whose number, as it knows it itself, was told behind a word."""
        told = self._last(word)
        return process.outer([told], self.pid).get(told) if told is not None else None

    @property
    def begun(self) -> bool:
        """Whether the bash has begun; False for good where what shuts it in could not be built."""
        return self._last("shell") is not None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs.

        Behind a fence a signal n is told as 128 + n, as bash and bubblewrap do.
        """
        ended = self._last("ended") if self._scripts.held else None
        return self._process.poll() if ended is None else ended

    def prepared(self) -> bool:
        """Whether the prepare script is done and the shell waits to go on."""
        return b"prepared\n" in self._listen()

    def changed(self) -> list[str]:
        """What the prepare script has changed that it better had not: variables, and `errexit` and `pipefail`."""
        return re.findall(r"^changed (\w+)$", self._listen().decode(errors="replace"), re.MULTILINE)

    def head(self) -> int | None:
        """What `ray start` exited with, once it has and the shell waits to go on."""
        return self._last("head")

    def go(self) -> None:
        """Let it go on; one that was killed meanwhile tells by its exit code."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._go, b"go\n")

    def let_go(self) -> None:
        """Let what holds the fence end, and with it all that is left behind it."""
        if self._hold >= 0:
            os.close(self._hold)
            self._hold = -1

    def trouble(self, complaints: list[str]) -> Trouble:
        """How the prepare script ended the shell; asked once it is gone.

        Args:
            complaints: the last lines of standard error.
        """
        status = self.poll() or 0
        for told in self._listen().decode(errors="replace").splitlines():
            if told.startswith("failed "):
                _, code, line, file = told.split(" ", 3)
                own = file == str(self._scripts.prepare)
                said = self._complaint(complaints)[1] or (complaints[-1] if complaints else "")
                return Trouble("failed", int(line) if own else 0, int(code), said)
        line_number, what = self._complaint(complaints)
        if line_number and status:  # what ends bash at once, as `set -u` does, does not pass the trap
            return Trouble("failed", line_number, status, what)
        return Trouble("exited", 0, status)

    def close(self) -> None:
        """Let the pipes go."""
        self.let_go()
        for descriptor in (self._told, self._go):
            os.close(descriptor)

    def _listen(self) -> bytes:
        while select.select([self._told], [], [], 0)[0]:
            more = os.read(self._told, 4096)
            if not more:
                break
            self._heard += more
        return self._heard

    def _last(self, word: str) -> int | None:
        """The number that was told last behind a word; None before."""
        numbers = re.findall(rf"^{word} (\d+)$\n", self._listen().decode(errors="replace"), re.MULTILINE)
        return int(numbers[-1]) if numbers else None

    def _complaint(self, complaints: list[str]) -> tuple[int, str]:
        """The line and text of bash's own last complaint about the prepare script."""
        for text in reversed(complaints):
            found = _COMPLAINT.match(text)
            if found and found["file"] == str(self._scripts.prepare):
                return int(found["line"]), found["what"]
        return 0, ""


def _pipe() -> tuple[int, int]:
    """Both ends of a pipe, to read and to write."""
    ends = os.pipe()
    read, write = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, _DESCRIPTORS) for end in ends)
    for end in ends:
        os.close(end)
    return read, write


def _end_with_worker() -> Callable[[], None]:
    """What makes the kernel end the shell when the worker is killed, so that it is not left alone."""
    libc = ctypes.CDLL(None)

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return ask
