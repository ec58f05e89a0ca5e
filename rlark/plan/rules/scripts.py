"""Prepare and run script: bash can read them, and they do not rest on a folder by chance."""

from __future__ import annotations

from collections.abc import Iterator

from rlark.plan.rules.rule import TASK, Case, Rule
from rlark.plan.work_folder import WorkFolder
from rlark.spec.finding import Finding

_SCRIPTS = ("prepareScript", "runScript")


def _text(case: Case, key: str) -> str:
    return case.worker.prepare if key == _SCRIPTS[0] else case.worker.run


def _windows_line(text: str) -> int:
    """The first line, from 1, that ends as on Windows; 0 without any."""
    return next((number for number, line in enumerate(text.split("\n"), 1) if line.endswith("\r")), 0)


def _line_ends(case: Case) -> Iterator[Finding]:
    for key in _SCRIPTS:
        if line := _windows_line(_text(case, key)):
            yield Finding(
                code="RL303",
                path=f"{TASK}.{key}",
                message=f"line {line} of {key} ends as on Windows, and bash takes the carriage return for part of the "
                "command",
                expected="lines that end in \\n",
                actual="\\r\\n",
                hint="save it with Unix line ends; dos2unix does that to a file",
            )


def _syntax(case: Case) -> Iterator[Finding]:
    for key in _SCRIPTS:
        if key in case.facts.script_errors and not _windows_line(_text(case, key)):
            line, said = case.facts.script_errors[key]
            lines = _text(case, key).rstrip("\n").split("\n")  # bash finds the end missing in the line behind the last
            line = min(line, len(lines))
            column = len(lines[line - 1]) - len(lines[line - 1].lstrip()) + 1
            yield Finding(
                code="RL301",
                path=f"{TASK}.{key}",
                inside=(line, column),
                message=f"bash cannot read line {line} of {key}: {said}",
                hint="mend the script; `bash -n` tells the same without running it",
            )


def _relative_paths(case: Case) -> Iterator[Finding]:
    """The first relative path of each script that no `cd` stands before: one `cd` cures all of them."""
    state = WorkFolder()
    for key, text in zip(_SCRIPTS, (case.worker.prepare, case.worker.run), strict=True):
        word = None if key in case.facts.script_errors else state.first_relative(text)
        if word is not None:
            yield Finding(
                code="RL302",
                severity="warning",
                path=f"{TASK}.{key}",
                inside=(word.line, word.column),
                message=f"line {word.line} of {key} uses the relative path {word.text[:80]}, with no cd before it",
                expected="an absolute path, or cd before it",
                actual=word.text[:80],
                hint="write cd /path first; scripts start in the job's work folder, which is empty",
            )


RULES: tuple[Rule, ...] = (
    Rule(_line_ends),
    Rule(_syntax),
    Rule(_relative_paths, (f"{TASK}.{_SCRIPTS[0]}",)),
)
