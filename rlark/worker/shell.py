"""One bash for an attempt: it sources the prepare script and then becomes, or runs, the command.

The worker and the bash talk over two pipes. `failed STATUS LINE FILE` says where a prepare script
failed, `prepared` that it is done; then the bash waits until the worker lets it go on.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rlark.folder import JobFolder, write_text
from rlark.plan.plan import Plan

_PR_SET_PDEATHSIG = 1
_PREPARE = """\
# Prepares, and tells the worker how that went.
set -E
trap '__rlark="$? $LINENO"; if [[ $BASH_SUBSHELL == 0 && $- == *e* ]]; then
  printf "failed %s %s\\n" "$__rlark" "${{BASH_SOURCE[0]}}" >&{told}; fi' ERR
source {prepare}
if [[ $(trap -p ERR) == *__rlark* ]]; then trap - ERR; fi
set +E
printf "%s\\n" {mark}
printf "%s\\n" {mark} >&2
printf "prepared\\n" >&{told}
read -r __rlark <&{go} || exit 1
unset __rlark
"""
_CLOSE = "exec {told}>&- {go}<&-\n"
_ENGINE = """\
# The engine takes this shell's place, unless prepare left something to do at the end.
if [[ -z $(trap -p EXIT) ]]; then exec {command}; fi
{command}
"""
_RUN = "source {run}\n"
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


class Scripts:
    """The attempt's scripts on disk, readable by their owner only."""

    def __init__(self, folder: JobFolder, plan: Plan, mark: str) -> None:
        """Say what is run.

        Args:
            folder: the Job's; scripts go to `folder.scripts`.
            plan: holds the texts and the engine's command.
            mark: a line that the shell prints to both streams between prepare and the run.
        """
        self.folder = folder.scripts
        self.prepare = self.folder / "prepare.sh"
        self._run = self.folder / "run.sh"
        self.start = self.folder / "start.sh"
        self._plan = plan
        self._mark = mark

    def write(self, told: int, go: int) -> None:
        """Write them.

        Args:
            told: descriptor on which the shell tells the worker.
            go: descriptor on which it waits for the worker.

        Raises:
            OSError: they cannot be written.
        """
        self.folder.mkdir(mode=0o700, exist_ok=True)
        parts = []
        if self._plan.prepare:
            write_text(self.prepare, _ended(self._plan.prepare))
            prepare, mark = shlex.quote(str(self.prepare)), shlex.quote(self._mark)
            parts.append(_PREPARE.format(told=told, go=go, prepare=prepare, mark=mark))
        parts.append(_CLOSE.format(told=told, go=go))
        if self._plan.run:
            write_text(self._run, _ended(self._plan.run))
            parts.append(_RUN.format(run=shlex.quote(str(self._run))))
        else:
            command = [sys.executable if part == "{python}" else part for part in self._plan.command]
            parts.append(_ENGINE.format(command=shlex.join(command)))
        write_text(self.start, "\n".join(parts))


class Shell:
    """The running bash."""

    def __init__(
        self, scripts: Scripts, *, env: Mapping[str, str], work: Path, output: Callable[[int, int], None]
    ) -> None:
        """Start it in a session and process group of its own.

        Args:
            scripts: what it runs; written here.
            env: its whole environment.
            work: where it starts.
            output: is given the descriptors of its standard output and error to read from.

        Raises:
            OSError: bash cannot be started, or the disk is full.
        """
        self._told, told = os.pipe()
        go, self._go = os.pipe()
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        theirs = (told, go, out_end, err_end)
        try:
            scripts.write(told, go)
            self._process = subprocess.Popen(
                ["bash", "-e", "-o", "pipefail", str(scripts.start)],
                env=dict(env),
                cwd=work,
                stdin=subprocess.DEVNULL,
                stdout=out_end,
                stderr=err_end,
                pass_fds=(told, go),
                start_new_session=True,
                preexec_fn=_end_with_worker(),  # noqa: PLW1509  no thread runs yet
            )
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        os.set_blocking(self._told, False)
        self._scripts = scripts
        self._heard = b""
        output(out, err)

    @property
    def pid(self) -> int:
        """The shell's process, and its group's number."""
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def prepared(self) -> bool:
        """Whether the prepare script is done and the shell waits to go on."""
        return b"prepared\n" in self._listen()

    def go(self) -> None:
        """Let it go on with the run; one that was killed meanwhile tells by its exit code."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._go, b"go\n")

    def trouble(self, complaints: list[str]) -> Trouble:
        """How the prepare script ended the shell; asked once it is gone.

        Args:
            complaints: the last lines of standard error.
        """
        status = self._process.returncode or 0
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
        for descriptor in (self._told, self._go):
            os.close(descriptor)

    def _listen(self) -> bytes:
        while select.select([self._told], [], [], 0)[0]:
            more = os.read(self._told, 4096)
            if not more:
                break
            self._heard += more
        return self._heard

    def _complaint(self, complaints: list[str]) -> tuple[int, str]:
        """The line and text of bash's own last complaint about the prepare script."""
        for text in reversed(complaints):
            found = _COMPLAINT.match(text)
            if found and found["file"] == str(self._scripts.prepare):
                return int(found["line"]), found["what"]
        return 0, ""


def line_of(script: str, number: int) -> str:
    """A line of a script, counted from 1; empty where there is none."""
    lines = script.splitlines()
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def _ended(script: str) -> str:
    return script if script.endswith("\n") else script + "\n"


def _end_with_worker() -> Callable[[], None]:
    """What makes the kernel end the shell when the worker is killed, so that it is not left alone."""
    libc = ctypes.CDLL(None)

    def ask() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return ask
