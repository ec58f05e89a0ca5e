from __future__ import annotations

import numpy as np

from engines.ppo.gae import advantages
from rlark.runtime.trajectory import Trajectory


def by_definition(data: Trajectory, gamma: float, lam: float) -> np.ndarray:
    """Each advantage as its own sum, without recursion."""
    steps, num_envs = data.value.shape
    found = np.zeros((steps, num_envs))
    for env in range(num_envs):
        for start in range(steps):
            weight = 1.0
            for t in range(start, steps):
                last = data.last_value[env] if t == steps - 1 else data.value[t + 1, env]
                if data.terminated[t, env]:
                    last = 0.0
                elif data.truncated[t, env]:
                    last = data.bootstrap[t, env]
                found[start, env] += weight * (data.reward[t, env] + gamma * last - data.value[t, env])
                if data.terminated[t, env] or data.truncated[t, env]:
                    break
                weight *= gamma * lam
    return found


def test_agrees_with_the_definition(make_trajectory):
    data = make_trajectory(steps=20, num_envs=6)
    assert data.terminated.any()
    assert data.truncated.any()
    advantage, target = advantages(data, 0.9, 0.8)
    np.testing.assert_allclose(advantage, by_definition(data, 0.9, 0.8), atol=1e-5)
    np.testing.assert_allclose(target, advantage + data.value, atol=1e-6)


def flat(**changes) -> Trajectory:
    shape = (10, 1)
    blank = Trajectory(
        observation=np.zeros((*shape, 1), np.float32),
        action=np.zeros((*shape, 1), np.float32),
        log_prob=np.zeros(shape, np.float32),
        value=np.full(shape, 10.0, np.float32),
        reward=np.ones(shape, np.float32),
        terminated=np.zeros(shape, np.bool_),
        truncated=np.zeros(shape, np.bool_),
        bootstrap=np.zeros(shape, np.float32),
        last_value=np.full(1, 10.0, np.float32),
    )
    return blank._replace(**changes)


def test_constant_reward_with_cut_offs_only_has_the_value_of_an_endless_episode():
    truncated = np.zeros((10, 1), np.bool_)
    truncated[4] = True
    bootstrap = np.where(truncated, np.float32(10), np.float32(0))
    advantage, target = advantages(flat(truncated=truncated, bootstrap=bootstrap), 0.9, 0.95)
    np.testing.assert_allclose(advantage, 0.0, atol=1e-5)  # V = r / (1 - gamma) = 10 is already right
    np.testing.assert_allclose(target, 10.0, atol=1e-5)


def test_a_terminated_step_has_no_future():
    terminated = np.zeros((10, 1), np.bool_)
    terminated[4] = True
    _, target = advantages(flat(terminated=terminated), 0.9, 1.0)
    np.testing.assert_allclose(target[:5, 0], [sum(0.9**k for k in range(n)) for n in (5, 4, 3, 2, 1)], rtol=1e-5)
    np.testing.assert_allclose(target[5:], 10.0, atol=1e-5)


def test_the_value_after_an_end_is_never_used(make_trajectory):
    data = make_trajectory()
    last = data._replace(terminated=data.terminated.copy(), last_value=data.last_value + 1000)
    last.terminated[-1] = True
    before = data._replace(terminated=last.terminated)
    np.testing.assert_array_equal(advantages(before, 0.99, 0.95)[0], advantages(last, 0.99, 0.95)[0])


def test_rewards_are_scaled(make_trajectory):
    data = make_trajectory()
    scaled = data._replace(reward=data.reward * 0.5)
    np.testing.assert_allclose(advantages(data, 0.9, 0.9, 0.5)[0], advantages(scaled, 0.9, 0.9)[0], rtol=1e-6)


def test_stays_in_float32(make_trajectory):
    advantage, target = advantages(make_trajectory(), 0.99, 0.95)
    assert advantage.dtype == target.dtype == np.float32
