"""One rollout, time by environment: what an Actor learns from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rlark.runtime.component import BoolArray, Decision, FloatArray, Step


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


class TrajectoryBuffer:
    """Room for one rollout, filled step by step and used again for the next."""

    def __init__(self, steps: int, num_envs: int, observation_size: int, action_size: int) -> None:
        """Reserve [T, N, ...] arrays once."""
        shape = (steps, num_envs)
        self._filled = 0
        self._data = Trajectory(
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

    def add(self, observation: FloatArray, decision: Decision, step: Step, bootstrap: FloatArray | None) -> None:
        """Append one step; `bootstrap` [N] is None when nothing was truncated."""
        data, t = self._data, self._filled
        data.observation[t] = observation
        data.action[t] = decision.action
        data.log_prob[t] = decision.log_prob
        data.value[t] = decision.value
        data.reward[t] = step.reward
        data.terminated[t] = step.terminated
        data.truncated[t] = step.truncated
        data.bootstrap[t] = 0.0 if bootstrap is None else bootstrap
        self._filled = t + 1

    def finish(self, last_value: FloatArray) -> Trajectory:
        """The full rollout; its arrays are the buffer's own and valid until the next `add`."""
        if self._filled != len(self._data.reward):
            raise ValueError(f"{self._filled} of {len(self._data.reward)} steps were added")
        self._data.last_value[:] = last_value
        self._filled = 0
        return self._data
