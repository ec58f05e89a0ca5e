"""What the broken Jobs are checked against: three nodes, two engines, nothing of this machine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field

from rlark import preflight as preflight_module
from rlark.engine import Engine, Requirement
from rlark.plan.facts import Facts
from rlark.plan.node import Inventory, Node, default_labels
from rlark.preflight import Preview, preflight
from rlark.spec import load
from rlark.spec.finding import Finding
from rlark.spec.job import Job
from rlark.spec.task_pack import TaskPack

GIB = 2**30
ENGINES = {
    "walk": Engine("walk", "learns to walk", "walk", "walk:PROGRAM", "walk:Config", tasks=("goal-navigation",)),
    "lacking": Engine("lacking", "lacks a package", "walk", "walk:PROGRAM", "walk:Config", can_fuse=False),
}


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Runner(Section):
    engine: str = "walk"
    fuse: Literal["auto", "never"] = "auto"
    max_epochs: int = Field(default=4, ge=1)
    note: str = ""


class Train(Section):
    task: TaskPack
    total_num_envs: int = Field(default=8, ge=1)


class Env(Section):
    train: Train


class Algorithm(Section):
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


def look(job: Job, node: Node) -> Facts:
    sources = [mount.host_path for mount in job.worker.ray.mounts]
    missing = frozenset(source for source in sources if source and source.startswith("/nothing"))
    unmet = {"lacking": (Requirement("package", "walk_sim", "python -m pip install walk-sim"),)}
    return Facts(engines=ENGINES, unmet=unmet, missing_mounts=missing)


def check_text(text: str, *, file: str = "job.yaml", folder: Path | None = None, nodes: Inventory = NODES) -> Preview:
    """Check a Job against the nodes and engines of this file."""
    before = preflight_module.load_attribute
    preflight_module.load_attribute = lambda _: Config
    try:
        return preflight(load(text, file=file, folder=folder), nodes, look)
    finally:
        preflight_module.load_attribute = before


def check_file(file: Path) -> list[str]:
    """What is found in a file, each in a line: place, severity, code and path."""
    return [
        place_of(finding, file) for finding in check_text(file.read_text(), file=file.name, folder=file.parent).findings
    ]


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
