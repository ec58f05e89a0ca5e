"""What the broken Jobs are checked against: three nodes, some engines, nothing of this machine.

A Job says in lines of its own what is different for it:

    # nodes: two.yaml                    an inventory in broken/nodes instead of the three nodes
    # facts: {free_disk: 1048576}        what was looked up on the node, and `broken_engine: true`
    # over: http                         it comes without a folder
    # grown to: 1048577                  its text has so many characters
    # read as: a file                    it may be a configuration, as `rlark validate` takes it
    # exported: to RLark                 what is told when it is brought into RLark's form
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from pydantic import BaseModel, ConfigDict, Field

from rlark import configuration
from rlark import preflight as preflight_module
from rlark.engine import Engine, Requirement
from rlark.errors import SpecError
from rlark.plan.facts import Facts
from rlark.plan.node import Inventory, Node, default_labels
from rlark.preflight import Preview, load_inventory_file, look_elsewhere, preflight
from rlark.spec import load
from rlark.spec.finding import Finding
from rlark.spec.generator import to_rlark
from rlark.spec.job import Job
from rlark.spec.source import Source
from rlark.spec.task_pack import TaskPack

GIB = 2**30
ENGINES = {
    "walk": Engine(
        *("walk", "learns to walk", "walk", "walk:PROGRAM", "walk:Config"),
        tasks=("goal-navigation",),
        quantities=("action", "goal", "heading"),
    ),
    "lacking": Engine("lacking", "lacks a package", "walk", "walk:PROGRAM", "walk:Config", can_fuse=False),
    "alone": Engine(
        *("alone", "has one Actor", "walk", "walk:PROGRAM", "walk:Config"), max_ranks={"actor": 1}, fused_only=("sac",)
    ),
}


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Runner(Section):
    engine: str = "walk"
    fuse: Literal["auto", "never"] = "auto"
    max_epochs: int = Field(default=4, ge=1)
    note: str = ""
    enable_decoupled_mode: bool = False


class Train(Section):
    task: TaskPack
    total_num_envs: int = Field(default=8, ge=1)
    group_size: int = 1


class Env(Section):
    train: Train


class Algorithm(Section):
    type: str = "ppo"
    seed: int = 7


class Config(Section):
    """The configuration of both engines."""

    cluster: dict[str, object]
    runner: Runner = Runner()
    algorithm: Algorithm = Algorithm()
    env: Env
    rollout: dict[str, object] = Field(default_factory=dict)


def a_node(name: str, **more: object) -> Node:
    return Node(name=name, labels=default_labels(name), cpus=64, memory=256 * GIB, shm=64 * GIB, gpus=4, **more)


NODES = Inventory(
    nodes=[
        a_node("box"),
        a_node("busy", free_gpus=0, free_cpus=64, holders={"other": 4}),
        a_node("cordoned", unschedulable=True),
    ],
    source="nodes.yaml",
)


def look(job: Job, node: Node, **differs: Any) -> Facts:
    sources = [mount.host_path for mount in job.worker.ray.mounts]
    missing = frozenset(source for source in sources if source and source.startswith("/nothing"))
    unmet = {"lacking": (Requirement("package", "walk_sim", "python -m pip install walk-sim"),)}
    said = look_elsewhere(job, node).script_errors
    facts = {"engines": ENGINES, "unmet": unmet, "missing_mounts": missing, "script_errors": said} | differs
    return Facts(**facts)


def load_engine(reference: str) -> type[Config]:
    """The configuration of every engine here, instead of what stands in a package."""
    return Config


def no_engine(reference: str) -> type[Config]:
    raise ImportError("No module named 'walk'")


def header(text: str, key: str) -> str:
    """What a Job says of itself in a line of its own; empty where it says nothing."""
    found = re.search(rf"^# {key}: (.*)$", text, re.M)
    return found[1] if found else ""


def facts_of(text: str) -> dict[str, Any]:
    """What is to be known of a Job's node besides what is known of every Job."""
    known = yaml.safe_load(header(text, "facts") or "{}")
    if "missing_secrets" in known:
        known["missing_secrets"] = frozenset(map(tuple, known["missing_secrets"]))
    return known


def judge_source(source: Source, nodes: Inventory = NODES) -> Preview:
    """Check a Job that was read against the nodes and engines of this file."""
    differs = facts_of(source.text)
    before = preflight_module.load_attribute
    preflight_module.load_attribute = no_engine if differs.pop("broken_engine", False) else load_engine
    try:
        return preflight(source, nodes, lambda job, node: look(job, node, **differs))
    finally:
        preflight_module.load_attribute = before


def check_text(text: str, *, file: str = "job.yaml", folder: Path | None = None, nodes: Inventory = NODES) -> Preview:
    """Check the text of a Job against the nodes and engines of this file."""
    return judge_source(load(text, file=file, folder=folder), nodes)


def check_golden(text: str, file: Path) -> list[Finding]:
    """Everything that is found in the text of a broken Job, with what it says of itself."""
    nodes = header(text, "nodes")
    try:
        inventory = load_inventory_file(file.parent / "nodes" / nodes) if nodes else NODES
    except SpecError as error:
        return list(error.findings)
    text = text.partition("# mend: ")[0]  # which may hold the secret that is to go
    text = text.ljust(int(header(text, "grown to") or 0), "#")
    if header(text, "read as"):
        return configuration.check_text(text, inventory, file=file.name, folder=file.parent).findings
    folder = None if header(text, "over") == "http" else file.parent
    preview = check_text(text, file=file.name, folder=folder, nodes=inventory)
    if header(text, "exported") and preview.job is not None:
        source = load(text, file=file.name)
        return [source.place(finding) for finding in to_rlark(preview.job, source.data)[1]]
    return preview.findings


def check_file(file: Path) -> list[str]:
    """What is found in a file, each in a line: place, severity, code and path."""
    return [place_of(finding, file) for finding in check_golden(file.read_text(), file)]


def place_of(finding: Finding, file: Path) -> str:
    where = finding.file.removeprefix(f"{file.parent}/")
    where = "" if where == file.name else f"{where}:"
    return f"{where}{finding.line}:{finding.column} {finding.severity} {finding.code} {finding.path}".rstrip()


@pytest.fixture
def check() -> Callable[..., Preview]:
    return check_text


@pytest.fixture
def found_in() -> Callable[[Path], list[str]]:
    return check_file


@pytest.fixture
def golden() -> Callable[[str, Path], list[Finding]]:
    return check_golden


@pytest.fixture
def judge() -> Callable[..., Preview]:
    return judge_source
