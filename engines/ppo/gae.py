"""Generalised advantage estimation (Schulman et al. 2016), with ends told apart from cut-offs."""

from __future__ import annotations

import numpy as np

from rlark.runtime.component import FloatArray
from rlark.runtime.trajectory import Trajectory


def advantages(
    trajectory: Trajectory, gamma: float, gae_lambda: float, reward_scale: float = 1.0
) -> tuple[FloatArray, FloatArray]:
    """Advantages and value targets, each [T, N].

    A terminated step has no future; a truncated one has the value of the observation it was cut
    off at; the last step has the value of the observation after it. The sum stops at both kinds
    of end.

    Args:
        trajectory: one rollout.
        gamma: discount of one control step.
        gae_lambda: weight of longer estimates.
        reward_scale: factor on the rewards; values are in scaled units already.
    """
    value, steps = trajectory.value, len(trajectory.value)
    following = np.concatenate((value[1:], trajectory.last_value[None]))
    following = np.where(trajectory.truncated, trajectory.bootstrap, following)
    alive = ~trajectory.terminated
    delta = trajectory.reward * np.float32(reward_scale) + np.float32(gamma) * (following * alive) - value
    carry = np.float32(gamma * gae_lambda) * (alive & ~trajectory.truncated)
    advantage = np.empty_like(value)
    running = np.zeros_like(value[0])
    for step in range(steps - 1, -1, -1):
        running = delta[step] + carry[step] * running
        advantage[step] = running
    return advantage, advantage + value
