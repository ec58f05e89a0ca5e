from __future__ import annotations

import logging

import numpy as np
import pytest

from engines.ppo.device import Work, choose
from engines.ppo.policy import NetShape
from engines.ppo.ppo import Learner
from engines.ppo.trained import Trained


@pytest.fixture(params=[True, False], ids=["shared", "separate"])
def shape(request) -> NetShape:
    return NetShape(5, 2, (16, 8), shared=request.param)


@pytest.fixture
def actor(shape, make_settings, make_trajectory) -> Learner:
    actor = Learner(shape, make_settings(lr=0.05), 3, choose("cpu", Work(8)), logging.getLogger("test"))
    actor.update(make_trajectory())
    return actor


def observations(scale: float = 1.0) -> np.ndarray:
    return (scale * np.random.default_rng(0).normal(size=(20, 5))).astype(np.float32)


def test_a_file_gives_back_the_same_policy(actor, shape, tmp_path):
    policy = Trained.of_state(shape, actor.state())
    policy.save(tmp_path / "a.npz")
    policy.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    loaded = Trained.load(shape, tmp_path / "a.npz")
    np.testing.assert_array_equal(policy(observations()), loaded(observations()))
    with pytest.raises(ValueError, match="parameters"):
        Trained.load(NetShape(5, 2, (4,), shared=True), tmp_path / "a.npz")


def test_layers_are_the_path_to_the_mean(actor, shape):
    policy = Trained.of_state(shape, actor.state())
    here = policy.weights.scaling.apply(observations())
    layers = policy.layers()
    for weight, bias in layers[:-1]:
        here = np.tanh(here @ weight.T + bias)
    weight, bias = layers[-1]
    np.testing.assert_allclose(policy(observations()), np.clip(here @ weight.T + bias, -1, 1), atol=1e-6)


def test_actions_are_clamped(actor, shape):
    assert np.abs(Trained.of_state(shape, actor.state())(observations(100.0))).max() <= 1.0


def test_untrained_is_what_the_learner_starts_from(shape, make_settings):
    fresh = Learner(shape, make_settings(), 3, choose("cpu", Work(8)), logging.getLogger("test"))
    np.testing.assert_array_equal(Trained.untrained(shape, 3, -0.7).weights.flat, fresh.weights().flat)
