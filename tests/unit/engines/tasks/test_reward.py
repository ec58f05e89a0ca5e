from __future__ import annotations

import numpy as np
import pytest

from engines.tasks.reward import Signals, reward, terms
from rlark.spec.task_pack import Reward

WEIGHTS = {"progress": 1.0, "collision": -5.0, "goal": 10.0, "actionPenalty": -0.01, "dwell": 0.2}


def signals(nearer=0.0, collided=False, reached=False, effort=0.0, dwelling=False) -> Signals:
    return Signals(*(np.array([value]) for value in (nearer, collided, reached, effort, dwelling)))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"nearer": 0.03}, 0.03),
        ({"nearer": -0.03}, -0.03),
        ({"collided": True}, -5.0),
        ({"reached": True}, 10.0),
        ({"effort": 0.5}, -0.005),
        ({"dwelling": True}, 0.2),
        ({}, 0.0),
        ({"nearer": 0.02, "reached": True, "dwelling": True, "effort": 1.0}, 10.21),
    ],
)
def test_every_term(given, expected):
    assert reward(Reward.model_validate(WEIGHTS), signals(**given))[0] == pytest.approx(expected)


def test_the_sum_is_the_sum_of_the_terms():
    rng = np.random.default_rng(0)
    drawn = Signals(
        rng.normal(size=200), *(rng.random(200) < 0.3 for _ in range(2)), rng.random(200), rng.random(200) < 0.3
    )
    weights = Reward.model_validate(WEIGHTS)
    parts = terms(weights, drawn)
    assert list(parts) == ["progress", "collision", "goal", "action_penalty", "dwell"]
    np.testing.assert_allclose(reward(weights, drawn), sum(parts.values()), atol=1e-12)


def test_terms_without_weight_are_left_out():
    weights = Reward.model_validate({**WEIGHTS, "dwell": 0.0, "actionPenalty": 0.0})
    assert list(terms(weights, signals())) == ["progress", "collision", "goal"]


@pytest.mark.parametrize(("name", "value"), [("collision", 5.0), ("actionPenalty", 0.01)])
def test_a_penalty_cannot_become_a_bonus(name, value):
    with pytest.raises(ValueError, match=name):
        Reward.model_validate({**WEIGHTS, name: value})
