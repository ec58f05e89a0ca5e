"""Check a file that is no Job: a configuration with a cluster section, or a part of one.

Such a file is composed as a Job's would be and checked against the nodes there are. Nothing runs
it, so what only a Job can say (a selector, a confirmation that a device is safe) is not asked for.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlark.folder import Home
from rlark.plan.node import Inventory, Node
from rlark.plan.placement import resolve
from rlark.plan.rules.engine import named
from rlark.plan.rules.rlinf import check_configuration, without_echoes
from rlark.plan.rules.secrets import tell_leaks
from rlark.preflight import preflight
from rlark.spec.config import CONFIG, Composed, compose_text
from rlark.spec.finding import Finding, errors_of, exit_code
from rlark.spec.job import API_VERSION, KIND, WORKER, Job
from rlark.spec.leak import Veil, find_in_comments, find_leaks
from rlark.spec.path import within
from rlark.spec.source import Source, interpret
from rlark.spec.yaml import Document, parse

_JOB_KEYS = ("apiVersion", "kind", "metadata", "spec")
_ALSO_JOBS = ("tasks", "runScript", "prepareScript", "nodeSelector")
"""Keys that stand deeper in a Job: a file that has them at its top is a Job with a slip."""
_CLUSTER = "cluster"


@dataclass(frozen=True)
class Checked:
    """What was found in a file.

    Attributes:
        file: its name, as it was given.
        findings: in the order of its text.
    """

    file: str
    findings: list[Finding]

    @property
    def exit_code(self) -> int:
        """0, 3 or 4, as for a Job."""
        return exit_code(self.findings)


def check_text(
    text: str, inventory: Inventory, *, file: str = "-", folder: Path | None = None, home: Home | None = None
) -> Checked:
    """Check a file: a Job as `preflight` does, anything else as a configuration.

    Args:
        text: what stands in it.
        inventory: the nodes to check against.
        file: its name, for findings; `-` for standard input.
        folder: what relative paths in it start from.
        home: the state directory to look into; None where the platform is not this user's.
    """
    document = parse(text)
    if looks_like_job(document):
        source = interpret(document, text, file=file, folder=folder)
        return Checked(file, preflight(source, inventory, home=home).findings)
    path = Path(folder or ".").absolute() / ("stdin" if file == "-" else Path(file).name)
    composed = compose_text(text, path)
    leaks = find_leaks(composed.effective if composed.effective is not None else document.data)
    leaks += find_in_comments(text, leaks)
    findings = _ordered([*_check(composed, inventory), *tell_leaks(leaks)], composed, file)
    return Checked(file, [Veil(leaks).shown(finding) for finding in findings])


def looks_like_job(document: Document) -> bool:
    """True for a Job, a slip in one, and a text of which nothing can be said."""
    data = document.data
    if not isinstance(data, dict) or not data:
        return True
    keys = set(data)
    if keys & set(_JOB_KEYS):
        return True
    if _CLUSTER in keys or "defaults" in keys:
        return False
    return bool(keys & set(_ALSO_JOBS)) or any(_near_job(key) for key in keys)


def _near_job(key: str) -> bool:
    """True for `apiVerison`, which no configuration has; `data` and `precision` are words of their own."""
    return bool(difflib.get_close_matches(key.lower(), ("apiversion", "metadata"), 1, 0.8))


def _check(composed: Composed, inventory: Inventory) -> list[Finding]:
    found = list(composed.findings)
    if composed.effective is None:
        return found if errors_of(found) else [*found, _fragment()]
    if not isinstance(composed.effective.get(_CLUSTER), Mapping):
        return [*found, _fragment()]
    if named(composed.effective):
        return [*found, *_as_job(composed, inventory)]
    return [*found, *_on_best_node(composed.effective, inventory)]


def _fragment() -> Finding:
    return Finding(
        code="RL012",
        severity="warning",
        message="this is neither a Job nor a configuration: it has no cluster section, written or from its defaults",
        expected="a Job, or a cluster section",
        hint="a part of a configuration is checked with the file whose defaults name it; to check this one alone, add "
        "cluster: {num_nodes: 1, component_placement: ...}",
    )


def _on_best_node(config: Mapping[str, Any], inventory: Inventory) -> list[Finding]:
    """What is found on the usable node that suits best: a Job's selector can choose it."""
    usable = [node for node in inventory.nodes if node.usable]
    candidates: list[Node | None] = list({node.gpus: node for node in usable}.values()) or [None]
    found = [_on_node(config, node) for node in candidates]
    return min(found, key=lambda findings: len(errors_of(findings)))


def _on_node(config: Mapping[str, Any], node: Node | None) -> list[Finding]:
    placement, found = resolve(config[_CLUSTER], node, path=_CLUSTER)
    found = without_echoes(config[_CLUSTER], found)
    return [*found, *check_configuration(config, placement, None, "", devices_confirmed=None)]


def _as_job(composed: Composed, inventory: Inventory) -> list[Finding]:
    """What is found about an engine's configuration, which only the engine's own model can judge."""
    worker = {"name": WORKER, "head": True, "ray": {"config": {"inline": composed.effective}}}
    data = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": "configuration"},
        "spec": {"tasks": [worker]},
    }
    job = Job.model_validate(data)
    usable = [node for node in inventory.nodes if node.usable]
    one = inventory.model_copy(update={"nodes": sorted(usable, key=lambda node: -node.gpus)[:1]})
    findings = preflight(Source(text="", folder=Path(composed.base), job=job, draft=job), one).findings
    inside = f"{CONFIG}.inline"
    return [
        finding.model_copy(update={"path": finding.path[len(inside) :].lstrip("."), **_unplaced(finding)})
        for finding in findings
        if within(finding.path, inside)
    ]


def _unplaced(finding: Finding) -> dict[str, Any]:
    """Without a place in the Job that was made up; one in a file of its own, a task pack's, stays."""
    return {"file": "", "line": 0, "column": 0} if finding.file in ("", "-") else {}


def _ordered(findings: Iterable[Finding], composed: Composed, file: str) -> list[Finding]:
    """Findings at their places, the file's own first, without repetitions."""
    place = _placing(composed, file)
    placed = dict.fromkeys(place(finding) for finding in findings)
    return sorted(placed, key=lambda found: (found.file != file, found.file, found.line, found.column))


def _placing(composed: Composed, file: str) -> Callable[[Finding], Finding]:
    def place(finding: Finding) -> Finding:
        placed = composed.place(finding)
        if placed.file in ("", composed.file):
            line, column = (placed.line, placed.column) if placed.line else (1, 1)
            placed = placed.model_copy(update={"file": file, "line": line, "column": column})
        return placed

    return place
