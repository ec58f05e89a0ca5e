"""The engine that docs/writing-an-engine.md goes through: installed beside rlark, fused and placed."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.user import ROOT, User

pytestmark = pytest.mark.acceptance
EXAMPLE = ROOT / "examples/reach"
JOB = EXAMPLE / "job.yaml"
APART = 'spec.tasks[0].ray.config.inline.cluster.component_placement={actor: 0, rollout: 0, env: "0:0-1"}'


@pytest.fixture
def author(nobody: User, tmp_path: Path) -> User:
    """Somebody who has the example installed, as `pip install -e` does it: its folder and its entry point."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    installed = tmp_path / "site" / f"rlark_reach-{project['version']}.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n")
    entries = project["entry-points"]["rlark.engines"]
    (installed / "entry_points.txt").write_text(
        "[rlark.engines]\n" + "".join(f"{name} = {value}\n" for name, value in entries.items())
    )
    nobody.env["PYTHONPATH"] = os.pathsep.join([str(installed.parent), str(EXAMPLE)])
    return nobody


def test_the_example_trains_fused_and_placed(author: User) -> None:
    author.rlark("validate", JOB)
    author.up("--num-cpus", "4", "--num-gpus", "0")
    assert "reach" in author.rlark("engines", "list")
    author.rlark("submit", JOB)
    author.rlark("submit", JOB, "--name", "reach-placed", "--set", APART)
    for name, ranks in (("reach", 1), ("reach-placed", 4)):
        status = author.status(name)
        assert (status["phase"], status["verified"], len(status["ranks"])) == ("Succeeded", True, ranks)
        rewards = author.json("metrics", name)["metrics"]["meanReward"]
        assert rewards[-1] > -0.4 > rewards[0]


def test_a_misspelt_key_is_found_before_anything_starts(author: User, write: Callable[[str, str], Path]) -> None:
    wrong = write("reach", JOB.read_text().replace("runner: {engine: reach}", "runner: {engine: reach, epochs: 9}"))
    assert "runner.epochs" in author.rlark("validate", wrong, code=3)


def test_the_example_is_short() -> None:
    lines = [line for path in EXAMPLE.rglob("*.py") for line in path.read_text().splitlines() if line.strip()]
    assert len(lines) < 150
