"""Hydra overrides on the command lines of a run script: `python train.py cluster.num_nodes=2`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from posixpath import basename

from rlark.plan.script import Command, commands
from rlark.spec.finding import Finding
from rlark.spec.path import steps, within

SCRIPT = "spec.tasks[0].runScript"
"""Where the script stands in a Job."""

_OVERRIDE = re.compile(r"(\+{0,2})([A-Za-z_][\w-]*(?:\.[\w,/@-]+)+|[A-Za-z_]\w*)=(.*)", re.S)
_NAMES = ("--config-name", "-cn")
_FOLDERS = ("--config-path", "-cp", "--config-dir", "-cd")
_UNKNOWN = re.compile(r"[$`]")
"""What only the running shell knows."""
_TELLS = {"echo", "printf", "export", "declare", "local", "alias"}
_CLUSTER = "cluster"


@dataclass(frozen=True)
class ScriptOverride:
    """One override.

    Attributes:
        text: in Hydra's grammar.
        keys: the place that it sets.
        value: as it is written behind the equals sign.
        line: of the script, from 1.
        column: from 1.
        config: the configuration's name on the same command line; empty where none is said.
    """

    text: str
    keys: tuple[str, ...]
    value: str
    line: int
    column: int
    config: str = ""

    @property
    def of_cluster(self) -> bool:
        """True when it changes the cluster section."""
        return self.keys[0] == _CLUSTER

    def sets(self, keys: Iterable[str | int]) -> bool:
        """True for a place that it sets, or one below."""
        return tuple(map(str, keys))[: len(self.keys)] == self.keys


def overrides_of(script: str, sections: Iterable[str] = (_CLUSTER,)) -> list[ScriptOverride]:
    """The overrides of a script, in its order.

    A value that only the running shell knows (`$NODES`) is left out, and so are commands that
    neither name a configuration nor change the cluster section: their `a=b` may mean anything.

    Args:
        script: bash.
        sections: first keys that are overrides; others are some program's own arguments.
    """
    known = {*sections, _CLUSTER}
    found: list[ScriptOverride] = []
    for command in commands(script):
        mine = _of_command(command, known)
        if any(one.of_cluster for one in mine) or _names_a_configuration(command):
            found += mine
    return found


def for_configuration(found: Iterable[ScriptOverride], names: Iterable[str]) -> list[ScriptOverride]:
    """Those of command lines that run a configuration of one of these names, or name none."""
    known = {_stem(name) for name in names if name}
    return [one for one in found if not one.config or not known or _stem(one.config) in known]


def _of_command(command: Command, sections: Iterable[str]) -> list[ScriptOverride]:
    words = [word.text for word in command.words]
    if not words or basename(words[0]) in _TELLS:
        return []
    config = _option(words, _NAMES)
    found = []
    for word in command.words[1:]:
        match = _OVERRIDE.fullmatch(word.text)
        if match is None or _UNKNOWN.search(word.text):
            continue
        keys = tuple(map(str, steps(match[2])))
        if keys[0] in sections:
            found.append(ScriptOverride(word.text, keys, match[3], word.line, word.column, config))
    return found


def _names_a_configuration(command: Command) -> bool:
    return any(word.text.partition("=")[0] in (*_NAMES, *_FOLDERS) for word in command.words)


def _option(words: list[str], names: Iterable[str]) -> str:
    """The value of an option, in one word or in two; empty where it is not given, or only the shell knows it."""
    for index, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in names:
            value = value if equals else next(iter(words[index + 1 : index + 2]), "")
            return "" if _UNKNOWN.search(value) else value
    return ""


def _stem(name: str) -> str:
    return basename(name).removesuffix(".yaml")


def at_override(finding: Finding, overrides: Sequence[ScriptOverride], path: str) -> Finding:
    """A finding at the override in the script that made it so; as it is where none did.

    Args:
        finding: about a place of the configuration, or about an override by its number.
        overrides: those that were applied, the last of which wins.
        path: where the configuration, or the list of overrides, stands in the Job.
    """
    if finding.file or not path or not within(finding.path, path):
        return finding
    rest = steps(finding.path[len(path) :].lstrip("."))
    if len(rest) == 1 and isinstance(rest[0], int):
        return _at(finding, overrides[rest[0]]) if rest[0] < len(overrides) else finding
    made = next((one for one in reversed(overrides) if rest and one.sets(rest)), None)
    return finding if made is None else said_by(finding, made)


def said_by(finding: Finding, override: ScriptOverride) -> Finding:
    """A finding about the configuration, told of the override that made it so."""
    return _at(finding.model_copy(update={"message": f"the override {override.text}: {finding.message}"}), override)


def _at(finding: Finding, override: ScriptOverride) -> Finding:
    place = {"file": "", "line": 0, "column": 0, "inside": (override.line, override.column)}
    return finding.model_copy(update={"path": SCRIPT, **place})
