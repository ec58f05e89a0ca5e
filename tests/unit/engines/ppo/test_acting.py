from __future__ import annotations

import numpy as np
import pytest
import torch

from engines.ppo.acting import Acting, Forward
from engines.ppo.normaliser import Scaling
from engines.ppo.policy import NetShape, initial
from engines.ppo.ppo import Weights

SHAPE = NetShape(5, 2, (16, 16), shared=False)
CPU = torch.device("cpu")


def weights(seed: int = 0) -> Weights:
    flat = initial(SHAPE, torch.Generator().manual_seed(seed), -0.3).numpy()
    flat += np.random.default_rng(seed).normal(0, 0.2, flat.shape).astype(np.float32)
    return Weights(flat, Scaling(np.full(5, 0.5, np.float32), np.full(5, 2.0, np.float32)))


def acting(seed: int = 0, num_envs: int = 6) -> Acting:
    policy = Acting(SHAPE, num_envs, np.random.SeedSequence(seed), CPU)
    policy.load(weights())
    return policy


def seen(seed: int, num_envs: int = 6) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(num_envs, 5)).astype(np.float32)


def test_the_log_probability_is_that_of_the_action_as_sampled():
    policy, forward = acting(), Forward(SHAPE, CPU)
    forward.load(weights())
    std = torch.from_numpy(np.exp(forward.log_std))
    beyond = 0
    for step in range(100):
        observation = seen(step)
        decision = policy.act(observation)
        mean, value = forward(observation)
        normal = torch.distributions.Normal(torch.from_numpy(mean.copy()), std)
        expected = normal.log_prob(torch.from_numpy(decision.action)).sum(1)
        np.testing.assert_allclose(decision.log_prob, expected.numpy(), atol=1e-5)
        np.testing.assert_allclose(decision.value, value, atol=1e-6)
        beyond += int((np.abs(decision.action) > 1).sum())
    assert beyond  # nothing is clamped here


def test_noise_has_the_policys_spread():
    policy = acting(num_envs=2000)
    observation = np.zeros((2000, 5), np.float32)
    actions = np.concatenate([policy.act(observation).action for _ in range(20)])
    std = np.exp(policy._forward.log_std)
    np.testing.assert_allclose(actions.std(0), std, rtol=0.03)


def test_decisions_are_the_callers_own():
    policy = acting()
    first = policy.act(seen(0))
    kept = [array.copy() for array in first]
    policy.act(seen(1))
    policy.value(seen(2))
    for array, before in zip(first, kept, strict=True):
        np.testing.assert_array_equal(array, before)


def test_values_of_any_number_of_observations():
    policy = acting()
    whole = policy.value(seen(0, 6))
    np.testing.assert_allclose(policy.value(seen(0, 6)[:1]), whole[:1], atol=1e-6)
    assert policy.value(seen(0, 9)).shape == (9,)


def test_weights_are_copied():
    policy, given = acting(), weights(3)
    policy.load(given)
    before = policy.value(seen(0))
    given.flat[:] = 0.0
    np.testing.assert_array_equal(policy.value(seen(0)), before)


@pytest.mark.parametrize("steps", [3, 64, 70])
def test_continues_from_a_state(steps):
    policy, other = acting(), acting(seed=9)
    for step in range(steps):
        policy.act(seen(step))
    other.restore(policy.state())
    for step in range(70):
        for left, right in zip(policy.act(seen(step)), other.act(seen(step)), strict=True):
            np.testing.assert_array_equal(left, right)
