from __future__ import annotations

import numpy as np
import pytest

from rlark.runtime.component import Decision, Step
from rlark.runtime.trajectory import TrajectoryBuffer, bootstrap_of


class Values:
    """A policy that values an observation by its first number."""

    def __init__(self):
        self.asked = []

    def value(self, observation):
        self.asked.append(observation.copy())
        return observation[:, 0]


def step(reward, *, truncated=(False, False), terminated=(False, False), final=None):
    observation = np.full((2, 1), reward, np.float32)
    return Step(
        observation=observation,
        reward=np.full(2, reward, np.float32),
        terminated=np.array(terminated),
        truncated=np.array(truncated),
        final_observation=observation if final is None else np.array(final, np.float32),
    )


def decision(number):
    return Decision(np.full((2, 1), number), np.full(2, number), np.full(2, number))


def add(buffer, observation, decided, came, bootstrap=None):
    buffer.observe(observation)
    buffer.decide(decided)
    buffer.outcome(came, bootstrap)


def test_steps_stand_in_the_order_in_which_they_happened():
    buffer = TrajectoryBuffer(2, 2, 1, 1)
    for t in range(2):
        add(buffer, np.full((2, 1), 10 + t), decision(t), step(100 + t))
    data = buffer.finish(np.array([5.0, 6.0]))
    assert data.observation[:, :, 0].tolist() == [[10, 10], [11, 11]]
    assert data.action[:, :, 0].tolist() == [[0, 0], [1, 1]]
    assert data.reward.tolist() == [[100, 100], [101, 101]]
    assert data.bootstrap.tolist() == [[0, 0], [0, 0]]
    assert data.last_value.tolist() == [5, 6]
    assert all(array.dtype in (np.float32, np.bool_) for array in data)


def test_what_was_seen_is_kept_although_the_environment_reuses_its_array():
    buffer, seen = TrajectoryBuffer(2, 2, 1, 1), np.zeros((2, 1), np.float32)
    for t in range(2):
        seen[...] = t
        buffer.observe(seen)
        buffer.decide(decision(0))
        seen[...] = -1
        buffer.outcome(step(0), None)
    assert buffer.finish(np.zeros(2)).observation[:, 0, 0].tolist() == [0, 1]


def test_policy_and_environment_are_given_float32_whatever_was_told():
    buffer = TrajectoryBuffer(1, 2, 1, 1)
    assert buffer.observe(np.ones((2, 1), np.float64)).dtype == np.float32
    assert buffer.decide(decision(1.5)).tolist() == [[1.5], [1.5]]


def test_a_buffer_is_used_again():
    buffer = TrajectoryBuffer(1, 2, 1, 1)
    add(buffer, np.ones((2, 1)), decision(1), step(1), np.array([3.0, 0.0]))
    assert buffer.finish(np.zeros(2)).bootstrap.tolist() == [[3, 0]]
    add(buffer, np.ones((2, 1)), decision(1), step(1))
    assert buffer.finish(np.zeros(2)).bootstrap.tolist() == [[0, 0]]


def test_half_a_rollout_is_refused():
    buffer = TrajectoryBuffer(2, 2, 1, 1)
    add(buffer, np.ones((2, 1)), decision(1), step(1))
    with pytest.raises(ValueError, match="1 of 2 steps"):
        buffer.finish(np.zeros(2))


def test_only_what_was_cut_off_is_bootstrapped_and_from_its_own_last_observation():
    policy = Values()
    found = bootstrap_of(policy, step(1, truncated=(False, True), terminated=(True, False), final=[[7], [8]]))
    assert found.tolist() == [0, 8]
    assert found.dtype == np.float32
    assert [array.shape for array in policy.asked] == [(2, 1)]


def test_nothing_is_valued_when_nothing_was_cut_off():
    policy = Values()
    assert bootstrap_of(policy, step(1, terminated=(True, True))) is None
    assert policy.asked == []
