"""A Job's text as it was read: the Job, what is wrong with it, and where everything stands."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rlark.spec.finding import Finding
from rlark.spec.invalid import AT_KEY, JOB, Invalid, Loc, explain
from rlark.spec.job import API_VERSION, KIND, WORKER, Job
from rlark.spec.path import join, within
from rlark.spec.yaml import Document, Positions, parse

SERVER_METADATA = (
    "uid",
    "creationTimestamp",
    "generation",
    "resourceVersion",
    "selfLink",
    "managedFields",
    "ownerReferences",
    "finalizers",
    "namespace",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
"""What a server writes into metadata: accepted and ignored, so that an answer can be submitted again."""

_WORKER = {"name": WORKER, "head": True}
_FILLERS: dict[Loc, Any] = {
    ("apiVersion",): API_VERSION,
    ("kind",): KIND,
    ("metadata",): {"name": "unnamed"},
    ("metadata", "name"): "unnamed",
    ("spec",): {"tasks": [_WORKER]},
    ("spec", "tasks"): [_WORKER],
    ("spec", "tasks", 0): _WORKER,
    ("spec", "tasks", 0, "name"): WORKER,
}
"""What stands in for a missing or unreadable part, so that the rest can be checked in the same pass."""


@dataclass(frozen=True)
class Source:
    """A Job's text as it was read.

    Attributes:
        text: what was read.
        file: its name; `-` for standard input.
        folder: what relative paths start from; None where there is none (a Job that came over HTTP).
        job: the Job; None while the text or its form has errors.
        draft: the Job without what is wrong, for checking the rest; None where nothing is left.
        spoiled: places of the draft that are missing or were left out: rules about them say nothing.
        findings: what is wrong with the text and its form.
        positions: line and column of every place.
        data: the values as they were read, what is wrong included; None where the text cannot be read.
    """

    text: str
    file: str = "-"
    folder: Path | None = None
    job: Job | None = None
    draft: Job | None = None
    spoiled: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    positions: Positions = field(default_factory=Positions)
    data: Any = None

    def place(self, finding: Finding) -> Finding:
        """The finding with file, line and column; the nearest parent's where the place is not written."""
        if finding.file:
            return finding
        line, column = finding.line, finding.column
        if not line and finding.inside[0]:
            line, column = self.positions.inside(finding.path, *finding.inside)
        elif not line:
            line, column = self.positions.show(finding.path, key=finding.code in AT_KEY)
        return finding.model_copy(update={"file": self.file, "line": line, "column": column})

    def spoils(self, paths: Iterable[str]) -> bool:
        """True when one of the places, or something above or below it, was left out of the draft."""
        return any(within(path, bad) or within(bad, path) for path in paths for bad in self.spoiled)


def load(text: str, *, file: str = "-", folder: Path | None = None) -> Source:
    """Read a Job.

    Args:
        text: YAML or JSON.
        file: its name, for findings.
        folder: what relative paths in it start from.
    """
    return interpret(parse(text), text, file=file, folder=folder)


def interpret(document: Document, text: str, *, file: str = "-", folder: Path | None = None) -> Source:
    """Read a Job from a text that was parsed, and perhaps changed since.

    Args:
        document: the parsed text.
        text: as it was written.
        file: its name, for findings.
        folder: what relative paths in it start from.
    """
    source = Source(text, file, folder, positions=document.positions, findings=document.findings)
    if not isinstance(document.data, dict):
        return _placed(source)
    data = _without_servers_own(document.data)
    try:
        job = Job.model_validate(data)
    except ValidationError as error:
        invalid = explain(error, Job, data, JOB)
        draft, spoiled = _mend(data, invalid)
        findings = document.findings + [one.finding for one in invalid]
        return _placed(Source(text, file, folder, None, draft, spoiled, findings, document.positions, data))
    sound = None if any(finding.severity == "error" for finding in document.findings) else job
    return _placed(Source(text, file, folder, sound, job, (), document.findings, document.positions, data))


def _placed(source: Source) -> Source:
    source.findings[:] = sorted(map(source.place, source.findings), key=lambda found: (found.line, found.column))
    return source


def _without_servers_own(data: dict[str, Any]) -> dict[str, Any]:
    written = {key: value for key, value in data.items() if key != "status"}
    metadata = written.get("metadata")
    if isinstance(metadata, dict):
        written["metadata"] = {key: value for key, value in metadata.items() if key not in SERVER_METADATA}
    return written


def _mend(data: dict[str, Any], invalid: list[Invalid]) -> tuple[Job | None, tuple[str, ...]]:
    """The Job without what is wrong, and the places where something is missing now."""
    data = copy.deepcopy(data)
    spoiled: list[str] = []
    for _ in range(4):
        for one in sorted(invalid, key=lambda one: _order(one.loc), reverse=True):
            spoiled.append(join("", one.loc))
            if one.meant and one.meant not in (_get(data, one.loc[:-1]) or {}):
                spoiled.append(join("", (*one.loc[:-1], one.meant)))
            _leave_out(data, one.loc, missing=one.finding.code == JOB.missing)
        try:
            return Job.model_validate(data), tuple(spoiled)
        except ValidationError as error:
            invalid = explain(error, Job, data, JOB)
    return None, tuple(spoiled)


def _order(loc: Loc) -> list[tuple[int, str]]:
    """Later list entries first, so that leaving one out does not move another."""
    return [(step, "") if isinstance(step, int) else (-1, step) for step in loc]


def _leave_out(data: Any, loc: Loc, *, missing: bool) -> None:
    if loc in _FILLERS:
        _set(data, loc, copy.deepcopy(_FILLERS[loc]))
        return
    keep = loc[:-1] if missing else loc
    while keep and keep not in _FILLERS:
        parent = _get(data, keep[:-1])
        if isinstance(parent, dict) and keep[-1] in parent:
            del parent[keep[-1]]
            return
        if isinstance(parent, list) and isinstance(keep[-1], int) and keep[-1] < len(parent):
            del parent[keep[-1]]
            return
        keep = keep[:-1]


def _get(data: Any, loc: Loc) -> Any:
    for step in loc:
        if isinstance(data, dict):
            data = data.get(str(step))
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


def _set(data: Any, loc: Loc, value: Any) -> None:
    parent = _get(data, loc[:-1])
    if isinstance(parent, dict):
        parent[str(loc[-1])] = value
    elif isinstance(parent, list) and isinstance(loc[-1], int) and loc[-1] < len(parent):
        parent[loc[-1]] = value
