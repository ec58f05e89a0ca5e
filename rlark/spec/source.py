"""A Job's text as it was read: the Job, what is wrong with it, and where everything stands."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rlark.spec.finding import Finding, errors_of
from rlark.spec.invalid import AT_KEY, JOB, Loc
from rlark.spec.job import API_VERSION, BESIDE_KUBERNETES, KIND, KUBERNETES, WORKER, Job, Ray
from rlark.spec.mend import given, read
from rlark.spec.path import join, steps, within
from rlark.spec.reading import Reading
from rlark.spec.rlark import read_kubernetes
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
        spoiled: places that are missing or were left out of the draft: rules about them say nothing.
        kept: of each list of the draft that lost entries, which of those that were written are left.
        findings: what is wrong with the text and its form.
        positions: line and column of every place.
        data: the values as they were read, what is wrong included; None where the text cannot be read.
        reading: what a Job in RLark's Kubernetes form says in the words of ours; None for any other.
    """

    text: str
    file: str = "-"
    folder: Path | None = None
    job: Job | None = None
    draft: Job | None = None
    spoiled: tuple[str, ...] = ()
    kept: Mapping[Loc, list[int]] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    positions: Positions = field(default_factory=Positions)
    data: Any = None
    reading: Reading | None = None

    def place(self, finding: Finding) -> Finding:
        """The finding with file, line and column; the nearest parent's where the place is not written.

        What rules say about a value that was read from a kubernetes section is shown where that says it.
        """
        if finding.file:
            return finding
        line, column = finding.line, finding.column
        path = finding.path if self.reading is None else self.reading.written(finding.path)
        if not line and finding.inside[0]:
            line, column = self.positions.inside(path, *finding.inside)
        elif not line:
            line, column = self.positions.show(path, key=finding.code in AT_KEY)
        return finding.model_copy(update={"path": path, "file": self.file, "line": line, "column": column})

    def spoils(self, paths: Iterable[str]) -> bool:
        """True when one of the places, or something above or below it, was left out of the draft."""
        places = [place for path in paths for place in self._both(path)]
        return any(within(place, bad) or within(bad, place) for place in places for bad in self.spoiled)

    def of_draft(self, findings: Iterable[Finding]) -> list[Finding]:
        """What was found in the draft, at the places of the Job as it was written.

        What concerns a place that was left out is dropped: what is wrong there has been said.
        """
        written = [finding.model_copy(update={"path": self._given(finding.path)}) for finding in findings]
        return [one for one in written if one.file or not self._left_out(one.path)]

    def _left_out(self, path: str) -> bool:
        return any(within(place, bad) for place in self._both(path) for bad in self.spoiled)

    def _given(self, path: str) -> str:
        """A place of the draft before entries were left out of its lists."""
        loc = tuple(steps(path)) if self.kept else ()
        before = given(loc, self.kept)
        return path if before == loc else join("", before)

    def _both(self, path: str) -> tuple[str, ...]:
        """A place, and where a kubernetes section says what stands there."""
        return (path,) if self.reading is None else (path, self.reading.written(path))


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
    source = Source(text, file, folder, findings=document.findings, positions=document.positions)
    if not isinstance(document.data, dict):
        return _placed(source)
    data = _without_servers_own(document.data)
    section = _kubernetes(data)
    reading = read_kubernetes(section, data["spec"]["tasks"][0].get("ray")) if section is not None else None
    mended = read(Job, data if reading is None else _with_ray(data, reading), JOB, fillers=_FILLERS)
    told = reading or Reading()
    said = {finding.path for finding in errors_of(told.findings)}
    wrong = [one.finding for one in mended.invalid if one.finding.path not in said]
    findings = [*document.findings, *told.findings, *wrong]
    source = replace(source, draft=mended.model, findings=findings)
    source = replace(source, spoiled=(*told.spoiled, *mended.spoiled), kept=mended.kept)
    sound = None if errors_of(findings) else mended.model
    return _placed(replace(source, job=sound, data=data, reading=reading))


def _kubernetes(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The worker's `kubernetes` section; None for a Job in another form."""
    spec = data.get("spec")
    tasks = spec.get("tasks") if isinstance(spec, dict) else None
    worker = tasks[0] if isinstance(tasks, list) and tasks else None
    if not isinstance(worker, dict) or worker.get("agentType") != KUBERNETES:
        return None
    section = worker.get("kubernetes")
    return section if isinstance(section, dict) else None


def _with_ray(data: dict[str, Any], reading: Reading) -> dict[str, Any]:
    """The Job with what its kubernetes section says under `ray`."""
    worker, *others = data["spec"]["tasks"]
    beside = worker.get("ray")
    if beside is None or isinstance(beside, dict):
        known = {field.alias or name for name, field in Ray.model_fields.items()} - set(BESIDE_KUBERNETES)
        own = {key: value for key, value in (beside or {}).items() if key not in known}
        worker = {**worker, "ray": reading.ray | own}
    return data | {"spec": data["spec"] | {"tasks": [worker, *others]}}


def _placed(source: Source) -> Source:
    source.findings[:] = sorted(map(source.place, source.findings), key=lambda found: (found.line, found.column))
    return source


def _without_servers_own(data: dict[str, Any]) -> dict[str, Any]:
    written = {key: value for key, value in data.items() if key != "status"}
    metadata = written.get("metadata")
    if isinstance(metadata, dict):
        written["metadata"] = {key: value for key, value in metadata.items() if key not in SERVER_METADATA}
    return written
