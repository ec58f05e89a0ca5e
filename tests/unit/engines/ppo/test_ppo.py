from __future__ import annotations

import logging
import math
import pickle

import numpy as np
import pytest
import torch

from engines.ppo.acting import Acting
from engines.ppo.device import Work, choose
from engines.ppo.policy import NetShape, parts_of
from engines.ppo.ppo import Learner, Settings
from rlark.runtime.component import Step
from rlark.runtime.trajectory import Trajectory, TrajectoryBuffer

SHAPE = NetShape(5, 2, (16, 16), shared=False)
LOG = logging.getLogger("test")


def learner(settings: Settings, seed: int = 0, shape: NetShape = SHAPE) -> Learner:
    return Learner(shape, settings, seed, choose("cpu", Work(8)), LOG)


def rollout(actor: Learner, steps: int = 8, num_envs: int = 8, seed: int = 0) -> Trajectory:
    """A rollout that really acted with the actor's weights, in a random world."""
    policy = Acting(SHAPE, num_envs, np.random.SeedSequence(seed), torch.device("cpu"))
    policy.load(actor.weights())
    rng = np.random.default_rng(seed)
    buffer = TrajectoryBuffer(steps, num_envs, SHAPE.observation, SHAPE.action)
    none = np.zeros(num_envs, np.bool_)
    for _ in range(steps):
        observation = (3 + 2 * rng.normal(size=(num_envs, SHAPE.observation))).astype(np.float32)
        action = buffer.decide(policy.act(buffer.observe(observation)))
        reward = -np.square(action - 0.5).sum(1).astype(np.float32)
        buffer.outcome(Step(observation, reward, ~none, none, observation), None)
    return buffer.finish(np.zeros(num_envs, np.float32))


def test_one_normaliser_for_a_whole_iteration(make_settings):
    actor = learner(make_settings())
    for seed in range(5):
        assert actor.update(rollout(actor, seed=seed))["firstRatioError"] < 1e-5
    scaling = actor.weights().scaling
    np.testing.assert_allclose(scaling.mean, 3.0, atol=0.5)
    np.testing.assert_allclose(scaling.std, 2.0, atol=0.5)


def test_learns_the_action_that_pays(make_settings):
    actor = learner(make_settings(lr=1e-2, epochs=4, minibatch=64, gamma=0.9))
    rewards = []
    for seed in range(60):
        trajectory = rollout(actor, steps=16, num_envs=16, seed=seed)
        rewards.append(float(trajectory.reward.mean()))
        metrics = actor.update(trajectory)
    assert np.mean(rewards[-5:]) > np.mean(rewards[:5]) + 0.5
    assert metrics["actionStd"] < 0.4


def test_the_same_seed_gives_the_same_bytes(make_settings):
    runs = []
    for noise in (1, 2):
        torch.manual_seed(noise)
        actor = learner(make_settings())
        for seed in range(3):
            actor.update(rollout(actor, seed=seed))
        runs.append(actor.weights().flat.tobytes())
    assert runs[0] == runs[1]
    assert (
        learner(make_settings(), seed=1).weights().flat.tobytes() != learner(make_settings()).weights().flat.tobytes()
    )


def test_continues_from_a_state(make_settings):
    settings = make_settings(lr_schedule="linear")
    actor = learner(settings)
    actor.update(rollout(actor))
    other = learner(settings, seed=5)
    other.restore(pickle.loads(pickle.dumps(actor.state())))
    for seed in (1, 2):
        first, second = actor.update(rollout(actor, seed=seed)), other.update(rollout(other, seed=seed))
        assert first == second
    assert actor.weights().flat.tobytes() == other.weights().flat.tobytes()


def test_a_state_of_other_nets_is_refused(make_settings):
    other = learner(make_settings(), shape=NetShape(5, 2, (8,), shared=True))
    with pytest.raises(ValueError, match="parameters"):
        other.restore(learner(make_settings()).state())


def test_weights_are_a_snapshot(make_settings):
    actor = learner(make_settings())
    before = actor.weights()
    kept = before.flat.copy()
    actor.update(rollout(actor))
    np.testing.assert_array_equal(before.flat, kept)
    assert (actor.weights().flat != kept).any()


def test_microbatches_change_nothing_but_rounding(make_settings):
    whole, split = learner(make_settings()), learner(make_settings(microbatch=8))
    whole.update(rollout(whole))
    split.update(rollout(split))
    np.testing.assert_allclose(whole.weights().flat, split.weights().flat, atol=1e-5)


@pytest.mark.parametrize("name", ["reward", "observation", "value"])
def test_a_rollout_that_is_not_finite_is_refused(make_settings, make_trajectory, name):
    actor, data = learner(make_settings()), make_trajectory()
    getattr(data, name)[3, 3] = math.nan
    with pytest.raises(FloatingPointError, match="NaN or infinity"):
        actor.update(data)


def test_a_gradient_that_is_not_finite_is_skipped_and_told(make_settings, monkeypatch, caplog):
    actor = learner(make_settings())
    minibatch = actor._minibatch
    calls = []

    def sometimes(packed, loss, moments):
        minibatch(packed, loss, moments)
        calls.append(1)
        if len(calls) == 2:
            actor._gradient[0] = math.inf

    monkeypatch.setattr(actor, "_minibatch", sometimes)
    metrics = actor.update(rollout(actor))
    assert metrics["skippedMinibatches"] == 1
    assert np.isfinite(actor.weights().flat).all()
    assert "1 of 4 minibatches of iteration 1" in caplog.text


def test_when_every_gradient_is_broken_it_ends(make_settings, monkeypatch):
    actor = learner(make_settings())
    minibatch = actor._minibatch

    def never(packed, loss, moments):
        minibatch(packed, loss, moments)
        actor._gradient[0] = math.nan

    monkeypatch.setattr(actor, "_minibatch", never)
    with pytest.raises(FloatingPointError, match="nothing can be learned"):
        actor.update(rollout(actor))


def test_a_rollout_that_does_not_divide_is_refused(make_settings):
    actor = learner(make_settings(minibatch=48))
    with pytest.raises(ValueError, match=r"64 transitions .* minibatches of 48"):
        actor.update(rollout(actor))


def test_the_log_std_stays_in_its_range(make_settings):
    actor = learner(make_settings(lr=0.5, log_std=(-0.7, -0.75, -0.65)))
    for seed in range(3):
        actor.update(rollout(actor, seed=seed))
        log_std = parts_of(SHAPE, torch.from_numpy(actor.weights().flat)).log_std
        assert (log_std >= -0.7500001).all()
        assert (log_std <= -0.6499999).all()


def test_the_learning_rate_falls_linearly(make_settings):
    actor = learner(make_settings(iterations=5, lr_schedule="linear", lr=1e-3, lr_final=0.2))
    rates = [actor.update(rollout(actor, seed=seed))["learningRate"] for seed in range(6)]
    np.testing.assert_allclose(rates, [1e-3, 8e-4, 6e-4, 4e-4, 2e-4, 2e-4], rtol=1e-6)


def test_the_learning_rate_follows_the_divergence(make_settings):
    slow = learner(make_settings(lr_schedule="adaptive", lr=1e-3, target_kl=100.0))
    assert slow.update(rollout(slow))["learningRate"] == pytest.approx(1.5e-3)
    fast = learner(make_settings(lr_schedule="adaptive", lr=1e-3, target_kl=1e-9))
    assert fast.update(rollout(fast))["learningRate"] == pytest.approx(1e-3 / 1.5)


def test_a_large_divergence_ends_the_update(make_settings):
    stopping = learner(make_settings(lr=0.05, epochs=10, target_kl=0.01))
    assert stopping.update(rollout(stopping))["epochs"] < 10
    going = learner(make_settings(lr=0.05, epochs=10))
    assert going.update(rollout(going))["epochs"] == 10


def test_the_entropy_bonus_decays(make_settings):
    settings = make_settings(iterations=3, loss={"entropy_bonus": 0.1}, entropy_final=0.0)
    actor = learner(settings)
    assert [actor._loss(progress).entropy_bonus for progress in (0.0, 0.5, 1.0)] == pytest.approx([0.1, 0.05, 0.0])


def test_the_gradient_is_clipped(make_settings):
    actor = learner(make_settings(clip_grad=1e-3))
    seen = []
    actor._adam.step = lambda gradient, lr: seen.append(float(gradient.norm()))
    with torch.inference_mode():  # as within an update
        actor._gradient.fill_(1.0)
        actor._descend(float(actor._gradient.norm()))
    assert seen == pytest.approx([1e-3], rel=1e-5)
