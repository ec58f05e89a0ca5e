"""Tasks beyond the plain one, learned by the whole engine: formulas, histories, the wide layout."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import onnx
import pytest

from engines.starter_ppo import ENGINE
from engines.starter_ppo.components import PROGRAM
from engines.tasks.goal_navigation import OFFERS
from rlark.evidence.onnx_policy import OnnxPolicy
from rlark.runtime.trainer import FusedTrainer, Workload

FORMULA = [
    {"term": "progress", "op": "potential", "weight": 1.0},
    {"term": "goal_reach", "op": "rate_limit", "weight": 10.0},
    {"term": "heading", "op": "shaping", "weight": 0.1},
    {"term": "action_rate", "op": "smoothness", "weight": 0.05, "curriculum": {"introduceAfterIteration": 2}},
]


def workload(config) -> Workload:
    return Workload(PROGRAM, config, PROGRAM.shape(config), config.seed, config.runner.device)


def test_the_declaration_says_what_the_environments_measure():
    assert ENGINE.quantities == OFFERS


def test_a_term_that_comes_in_later_changes_nothing_before(make_config):
    config, without = (make_config(pack={"rewardFormula": terms}) for terms in (FORMULA, FORMULA[:3]))
    one, other = (FusedTrainer(workload(chosen), threads=1) for chosen in (config, without))
    rewards = [(one.iterate()["meanReward"], other.iterate()["meanReward"]) for _ in range(3)]
    assert [mine == theirs for mine, theirs in rewards] == [True, True, False]


def test_a_formula_goes_on_from_where_it_was(make_config):
    chosen = workload(make_config(pack={"rewardFormula": FORMULA, "frames": 2}))
    one, other = FusedTrainer(chosen, threads=1), FusedTrainer(chosen, threads=1)
    one.iterate()
    one.iterate()
    other.restore(one.state())
    np.testing.assert_equal(one.iterate(), other.iterate())
    assert (one.state()["actor"][0]["flat"] == other.state()["actor"][0]["flat"]).all()


@pytest.mark.parametrize(
    ("layout", "frames", "size"),
    [("originbot-imu-odom-v1", 3, 24), ("imu-gravity-v1", 1, 42), ("imu-gravity-v1", 2, 84)],
)
def test_the_exported_policy_takes_the_stacked_observation(make_config, trained, layout, frames, size):
    config = make_config(pack={"layout": layout, "frames": frames})
    run = trained(config)
    with contextlib.redirect_stdout(io.StringIO()):
        result = PROGRAM.export(config, run)
    file = run.folder.artifacts / "policy.onnx"
    taken = onnx.load(file).graph.input[0].type.tensor_type.shape.dim
    assert taken[1].dim_value == result.metrics["observationSize"] == size
    assert OnnxPolicy(file)(np.zeros((5, size), np.float32)).shape == (5, 2)
