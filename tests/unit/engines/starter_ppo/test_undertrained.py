"""A policy that has learned nothing never passes for a trained one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from engines.starter_ppo.components import PROGRAM
from engines.starter_ppo.config import Config
from rlark.spec.config import compose
from rlark.spec.job import ConfigSource

SMOKE = Path(__file__).parents[4] / "job_specs/smoke.yaml"


def smoke(seed: int) -> Config:
    """The configuration of the shipped smoke Job: two iterations."""
    given = yaml.safe_load(SMOKE.read_text())["spec"]["tasks"][0]["ray"]["config"]
    overrides = [*given["overrides"], f"algorithm.seed={seed}"]
    composed = compose(ConfigSource(path=given["path"], overrides=overrides), SMOKE.parent)
    assert composed.effective is not None, composed.findings
    return PROGRAM.config(composed.effective, "")


@pytest.mark.parametrize("seed", [7, 11, 12, 13, 2026])
def test_two_iterations_fail_the_gate(trained, seed):
    config = smoke(seed)
    assert config.runner.max_epochs == 2
    run = trained(config, f"smoke-{seed}")
    result = PROGRAM.export(config, run)
    assert result.metrics["evalEpisodes"] >= 30
    assert result.metrics["qualityGatePassed"] is False
    gate = json.loads((run.folder.artifacts / "eval-report.json").read_text())["qualityGate"]
    assert gate["passed"] is False
    assert any(error.startswith("the success rate (lower bound) is 0.0") for error in gate["errors"])
