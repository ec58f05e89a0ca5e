"""The attempt's scripts on disk: what its one bash runs, step by step, and how it tells the worker.

The bash writes lines to a pipe: `shell PID`, `failed STATUS LINE FILE` where a prepare script failed,
`prepared` when it is done, `changed WHAT` for what it has changed that it better had not, `head STATUS` when
`ray start` has ended, and, where another bash holds what is fenced in, `holder PID` and `ended STATUS`. After
`prepared` and `head` it waits until the worker lets it go on.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rlark.folder import JobFolder, write_text
from rlark.host import bash
from rlark.plan.plan import Plan

_OPTIONS = ("errexit", "pipefail")
_NO_WATCH: Mapping[str, str] = {}
_SHELL = """\
printf "shell %s\\n" "$$" >&{told}
"""
_PREPARE = """\
# Prepares, and tells the worker how that went.
set -E
trap '__rlark="$? $LINENO"; if [[ $BASH_SUBSHELL == 0 && $- == *e* ]]; then
  printf "failed %s %s\\n" "$__rlark" "${{BASH_SOURCE[0]}}" >&{told}; fi' ERR
source {prepare}
if [[ $(trap -p ERR) == *__rlark* ]]; then trap - ERR; fi
set +E
{looks}
printf "%s\\n" {mark}
printf "%s\\n" {mark} >&2
printf "prepared\\n" >&{told}
read -r __rlark <&{go} || exit 1
unset __rlark
"""
_HEAD = """\
# Starts the Job's own Ray head with what prepare has set up.
__rlark=0
"$BASH" -p {head} </dev/null >/dev/null 2>&1 {told}>&- {go}<&- || __rlark=$?
printf "head %s\\n" "$__rlark" >&{told}
read -r __rlark <&{go} || exit 1
unset __rlark
"""
_CLOSE = "exec {told}>&- {go}<&- {hold}<&-\n"
_ENGINE = """\
# The engine takes this shell's place, unless prepare left something to do at the end.
if [[ -z $(trap -p EXIT) ]]; then exec {command}; fi
{command}
"""
_RUN = "source {run}\n"
_HOLD = """\
# The first of the fenced: all behind the fence is killed with it, so it stays until what the run
# has left, the Ray head too, has ended in order. The run gets a process group of its own. It is
# waited for without job control, so that one that is halted by SIGSTOP is not taken for ended.
trap : TERM INT HUP
printf "holder %s\\n" "$$" >&{told}
exec {{stderr}}>&2 2>/dev/null
set -m
{bash} {start} 2>&"$stderr" {{stderr}}>&- {hold}<&- &
set +m
while kill -0 "$!"; do wait "$!"; done  # a signal to this bash cuts a wait short
wait "$!"
status=$?
printf "ended %s\\n" "$status" >&{told}
read -r _ <&{hold}
exit "$status"
"""


@dataclass(frozen=True)
class Pipes:
    """Descriptors that the bash inherits.

    Attributes:
        told: on which it tells the worker.
        go: on which it waits for the worker.
        hold: on which the holder waits for its end.
    """

    told: int
    go: int
    hold: int


class Scripts:
    """The attempt's scripts on disk, readable by their owner only."""

    def __init__(
        self, folder: JobFolder, plan: Plan, mark: str, head: str = "", watched: Mapping[str, str] = _NO_WATCH
    ) -> None:
        """Say what is run.

        Args:
            folder: the Job's; scripts go to `folder.scripts`.
            plan: holds the texts and the engine's command.
            mark: a line that the shell prints to both streams between prepare and the run.
            head: a script that starts the Job's own Ray head; empty where there is none.
            watched: variables that prepare should leave as they are; it is told which it does not.
        """
        self.folder = folder.scripts
        self.prepare = self.folder / "prepare.sh"
        self._run = self.folder / "run.sh"
        self._start = self.folder / "start.sh"
        self._head = self.folder / "head.sh"
        self._hold = self.folder / "hold.sh"
        self._plan = plan
        self._mark = mark
        self._head_text = head
        self._watched = watched

    @property
    def held(self) -> bool:
        """Whether another bash stays in front of the one that prepares and runs."""
        return self._plan.own_pids

    @property
    def argv(self) -> Sequence[str]:
        """What is started."""
        return (bash.program(), "-p", str(self._hold)) if self.held else (*_bash(), str(self._start))

    def write(self, pipes: Pipes) -> None:
        """Write them.

        Raises:
            OSError: they cannot be written.
        """
        self.folder.mkdir(mode=0o700, exist_ok=True)
        told, go = pipes.told, pipes.go
        parts = [_SHELL.format(told=told)]
        if self._plan.prepare:
            write_text(self.prepare, _ended(self._plan.prepare))
            prepare, mark = shlex.quote(str(self.prepare)), shlex.quote(self._mark)
            parts.append(_PREPARE.format(told=told, go=go, prepare=prepare, mark=mark, looks=self._looks(told)))
        if self._head_text:
            write_text(self._head, self._head_text)
            parts.append(_HEAD.format(told=told, go=go, head=shlex.quote(str(self._head))))
        parts.append(_CLOSE.format(told=told, go=go, hold=pipes.hold))
        if self._plan.run:
            write_text(self._run, _ended(self._plan.run))
            parts.append(_RUN.format(run=shlex.quote(str(self._run))))
        else:
            command = [sys.executable if part == "{python}" else part for part in self._plan.command]
            parts.append(_ENGINE.format(command=shlex.join(command)))
        write_text(self._start, "\n".join(parts))
        if self.held:
            start = shlex.quote(str(self._start))
            write_text(self._hold, _HOLD.format(bash=shlex.join(_bash()), start=start, told=told, hold=pipes.hold))

    def _looks(self, told: int) -> str:
        """Lines that tell what prepare has changed."""
        tests = {name: f'"${{{name}-}}" == {shlex.quote(value)}' for name, value in self._watched.items()}
        tests |= {option: f"-o {option}" for option in _OPTIONS}
        return "\n".join(f'[[ {test} ]] || printf "changed {what}\\n" >&{told}' for what, test in tests.items())


def _bash() -> tuple[str, ...]:
    return (bash.program(), "-e", "-o", "pipefail")


def line_of(script: str, number: int) -> str:
    """A line of a script, counted from 1; empty where there is none."""
    lines = script.splitlines()
    return lines[number - 1].strip() if 0 < number <= len(lines) else ""


def _ended(script: str) -> str:
    return script if script.endswith("\n") else script + "\n"
