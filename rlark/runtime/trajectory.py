"""One rollout, time by environment: what an Actor learns from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rlark.runtime.component import BoolArray, Decision, FloatArray, Rollout, Step


class Trajectory(NamedTuple):
    """T steps of N environments.

    Attributes:
        observation: [T, N, O], what the policy saw.
        action: [T, N, A], as sampled.
        log_prob: [T, N].
        value: [T, N], V of `observation`.
        reward: [T, N].
        terminated: [T, N] bool.
        truncated: [T, N] bool.
        bootstrap: [T, N], V of the final observation where truncated, zero elsewhere.
        last_value: [N], V of the observation after the last step (of the new episode where one ended:
            then it is not used).
    """

    observation: FloatArray
    action: FloatArray
    log_prob: FloatArray
    value: FloatArray
    reward: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    bootstrap: FloatArray
    last_value: FloatArray

    @classmethod
    def empty(cls, steps: int, num_envs: int, observation_size: int, action_size: int) -> Trajectory:
        """Room for [T, N, ...], all zeros."""
        shape = (steps, num_envs)
        return cls(
            observation=np.zeros((*shape, observation_size), np.float32),
            action=np.zeros((*shape, action_size), np.float32),
            log_prob=np.zeros(shape, np.float32),
            value=np.zeros(shape, np.float32),
            reward=np.zeros(shape, np.float32),
            terminated=np.zeros(shape, np.bool_),
            truncated=np.zeros(shape, np.bool_),
            bootstrap=np.zeros(shape, np.float32),
            last_value=np.zeros(num_envs, np.float32),
        )


class TrajectoryBuffer:
    """Room for one rollout, filled step by step and used again for the next.

    A step is told in the order in which it happens: `observe`, `decide`, `outcome`. What was seen
    is copied before the environment moves on, so that an environment may reuse its arrays.
    """

    def __init__(self, steps: int, num_envs: int, observation_size: int, action_size: int) -> None:
        """Reserve [T, N, ...] arrays once."""
        self._filled = 0
        self._data = Trajectory.empty(steps, num_envs, observation_size, action_size)

    def observe(self, observation: FloatArray) -> FloatArray:
        """Note what the policy is about to see: the stored copy [N, O], float32, for `Rollout.act`."""
        row: FloatArray = self._data.observation[self._filled]
        row[...] = observation
        return row

    def decide(self, decision: Decision) -> FloatArray:
        """Note what it decided: the stored actions [N, A], float32, for `Env.step`."""
        data, t = self._data, self._filled
        data.log_prob[t] = decision.log_prob
        data.value[t] = decision.value
        row: FloatArray = data.action[t]
        row[...] = decision.action
        return row

    def outcome(self, step: Step, bootstrap: FloatArray | None) -> None:
        """Note what came of it and go on to the next step; `bootstrap` [N] is None when nothing was truncated."""
        data, t = self._data, self._filled
        data.reward[t] = step.reward
        data.terminated[t] = step.terminated
        data.truncated[t] = step.truncated
        data.bootstrap[t] = 0.0 if bootstrap is None else bootstrap
        self._filled = t + 1

    def finish(self, last_value: FloatArray) -> Trajectory:
        """The full rollout; its arrays are the buffer's own and valid until the next `observe`."""
        if self._filled != len(self._data.reward):
            raise ValueError(f"{self._filled} of {len(self._data.reward)} steps were added")
        self._data.last_value[...] = last_value
        self._filled = 0
        return self._data


def bootstrap_of(rollout: Rollout, step: Step) -> FloatArray | None:
    """V of the final observations [N] where an episode was cut off, zero elsewhere; None when none was.

    The policy always values all N rows, so that a row's number does not depend on its neighbours' fate.
    """
    if not np.count_nonzero(step.truncated):
        return None
    value = rollout.value(np.asarray(step.final_observation, np.float32))
    return np.where(step.truncated, value, np.float32(0))
