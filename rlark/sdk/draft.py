"""A Job before it is checked: read from a file, a text or an object, with changes by path.

A change is made to the values, never to the text, so findings keep the lines that the user
wrote; a place that only a change has filled has no line.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlark.errors import UsageError
from rlark.spec.finding import errors_of
from rlark.spec.nearest import did_you_mean
from rlark.spec.path import child, steps, within
from rlark.spec.scalar import Unquoted
from rlark.spec.yaml import Positions, parse

if TYPE_CHECKING:
    from rlark.sdk.client import JobSource
    from rlark.spec.source import Source

_PATH = re.compile(r'[^.\[\]]+(?:\[[0-9]+\]|\["(?:[^"\\]|\\.)+"\]|\.[^.\[\]]+)*')


@dataclass(frozen=True)
class Draft:
    """A Job's text, and what is to be changed in it.

    Attributes:
        text: YAML or JSON.
        file: its name, for findings; `-` for standard input.
        folder: what relative paths in it start from.
        changes: path -> value.
    """

    text: str
    file: str = "-"
    folder: Path | None = None
    changes: Mapping[str, object] = field(default_factory=dict)

    def changed(
        self, changes: Mapping[str, object], *, name: str | None = None, labels: Mapping[str, str] | None = None
    ) -> Draft:
        """The same Job with values set by path, another name and further labels."""
        changes = dict(changes)
        if name is not None:
            changes["metadata.name"] = name.strip()
        for key, value in (labels or {}).items():
            changes[child("metadata.labels", key)] = value
        return replace(self, changes={**self.changes, **changes})

    def anew(self) -> Draft:
        """The same Job to be run: that the one it was saved from is stopped now is no wish for this one."""
        data = parse(self.text).data
        spec = data.get("spec") if isinstance(data, dict) and "status" in data else None
        if isinstance(spec, dict) and spec.get("stopped") is True and "spec.stopped" not in self.changes:
            return self.changed({"spec.stopped": False})
        return self

    def load(self) -> Source:
        """Read it, with the changes made.

        Raises:
            UsageError: a change leads nowhere.
        """
        from rlark.spec.source import interpret

        document = parse(self.text)
        if isinstance(document.data, dict) and not errors_of(document.findings):  # it must be read to be changed
            for path, value in self.changes.items():
                put(document.data, path, _plain(value, path))
            document = replace(document, positions=_Overlaid(document.positions, tuple(self.changes)))
        return interpret(document, self.text, file=self.file, folder=self.folder)


class _Overlaid(Positions):
    """The positions of the user's text; what was changed has none."""

    def __init__(self, written: Positions, changed: tuple[str, ...]) -> None:
        super().__init__()
        self._written = written
        self._changed = changed

    def of(self, path: str) -> tuple[int, int]:
        return (0, 0) if self._is_changed(path) else self._written.of(path)

    def of_key(self, path: str) -> tuple[int, int]:
        return (0, 0) if self._is_changed(path) else self._written.of_key(path)

    def inside(self, path: str, line: int, column: int) -> tuple[int, int]:
        return (0, 0) if self._is_changed(path) else self._written.inside(path, line, column)

    def has(self, path: str) -> bool:
        return not self._is_changed(path) and self._written.has(path)

    def _is_changed(self, path: str) -> bool:
        return any(within(path, place) for place in self._changed)


def read_draft(source: JobSource) -> Draft:
    """A Job from a file's name (`-` is standard input), its YAML text, or the object itself.

    Raises:
        UsageError: there is no such file, or it cannot be read.
    """
    if isinstance(source, Mapping):
        return Draft(_object_text(source), file="", folder=Path.cwd())
    if isinstance(source, str) and "\n" in source:
        return Draft(source, folder=Path.cwd())
    if source == "":
        raise UsageError("no file is named", hint="name a YAML file, or write - to read from standard input")
    path = Path(source)
    try:
        if source == "-":
            return Draft(_stdin(), folder=Path.cwd())
        return Draft(path.read_text(encoding="utf-8"), file=str(source), folder=path.absolute().parent)
    except FileNotFoundError:
        raise UsageError(f"there is no file {source}", hint=_near(path)) from None
    except IsADirectoryError:
        raise UsageError(f"{source} is a folder, not a Job file", hint="name a YAML file in it") from None
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{source} is not text: {error.reason} at byte {error.start}", hint="write it in UTF-8"
        ) from None
    except OSError as error:
        raise UsageError(f"{source} cannot be read: {error.strerror}") from None


def _stdin() -> str:
    """Standard input as UTF-8, whatever the locale; nothing where it is closed."""
    if sys.stdin is None:
        return ""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="strict")
    return sys.stdin.read()


def _object_text(source: Mapping[str, Any]) -> str:
    return _dumped(source, "this object is no Job")


def _plain(value: object, path: str) -> Any:
    return json.loads(_dumped(value, f"the value for {path} is no part of a Job"))


def _dumped(value: object, wrong: str) -> str:
    """A program's values as JSON; paths are texts."""
    try:
        return json.dumps(value, ensure_ascii=False, default=os.fspath)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{wrong}: {error}", hint="a Job is made of dicts, lists and plain values") from None


def _near(path: Path) -> str:
    try:
        names = [entry.name for entry in path.absolute().parent.iterdir() if entry.suffix in (".yaml", ".yml", ".json")]
    except OSError:
        return f"{path.parent} is no folder either"
    near = did_you_mean(path.name, names)
    return f"did you mean {path.parent / near}?" if near else "write - to read from standard input"


def parse_change(text: str) -> tuple[str, object]:
    """`spec.tasks[0].ray.resources.gpu=1` as path and value; the value is read as YAML.

    Raises:
        UsageError: it is not written so.
    """
    path, equals, written = text.partition("=")
    if not equals or not path.strip():
        raise UsageError(f"{text!r} is not written as path=value", hint="--set spec.tasks[0].ray.resources.gpu=1")
    document = parse(f"value: {written}")
    if not isinstance(document.data, dict) or list(document.data) != ["value"] or document.findings:
        raise UsageError(f"the value of {text!r} is not YAML", hint="quote it, for the shell and for YAML")
    value = document.data["value"]
    return path.strip(), str(value) if isinstance(value, Unquoted) else value


def put(data: dict[str, Any], path: str, value: object) -> None:
    """Set a value deep inside; mappings on the way are made, a list grows by one at its end.

    Raises:
        UsageError: the path goes through something that is neither, or past the end of a list.
    """
    keys = steps(path)
    if not _PATH.fullmatch(path):
        raise UsageError(f"{path!r} is no path", hint='write it as spec.tasks[0].ray.env or metadata.labels["a.b"]')
    at, here = data, ""
    for key, following in pairwise(keys):
        at, here = _step(at, key, following, here, path), child(here, key)
    _store(at, keys[-1], value, here, path)


def _step(at: Any, key: str | int, following: str | int, here: str, path: str) -> Any:
    """Go one key deeper; what is missing is made as what the key behind it needs."""
    missing = isinstance(at, dict) and isinstance(key, str) and at.get(key) is None
    if missing or (isinstance(at, list) and key == len(at)):
        _store(at, key, [] if isinstance(following, int) else {}, here, path)
    _check(at, key, here, path)
    return at[key]


def _store(at: Any, key: str | int, value: object, here: str, path: str) -> None:
    if isinstance(at, list) and isinstance(key, int) and key == len(at):
        at.append(value)
        return
    _check(at, key, here, path)
    at[key] = value


def _check(at: Any, key: str | int, here: str, path: str) -> None:
    if isinstance(at, dict) and isinstance(key, str):
        return
    if isinstance(at, list) and isinstance(key, int) and key < len(at):
        return
    kind = f"a list of {len(at)}" if isinstance(at, list) else "a mapping" if isinstance(at, dict) else f"{at!r}"
    raise UsageError(f"{path!r} leads nowhere: {here or 'the Job'} is {kind}", hint="paths are those of the Job's YAML")
