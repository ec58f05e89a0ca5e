"""A differential drive as a unicycle with a first-order velocity lag.

N robots side by side; the robot is the last axis. What the wheels did is integrated twice: the
true pose with slip and yaw bias, and the odometry without them, so `x`, `y` and `yaw` are
[2, N] with row 0 the truth and row 1 the odometry.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from engines.tasks.arrays import Array, library


class Pose(NamedTuple):
    """Where N robots are, and where their odometry believes they are.

    Attributes:
        x: [2, N] m.
        y: [2, N] m.
        yaw: [2, N] rad in [-pi, pi).
    """

    x: Array
    y: Array
    yaw: Array


def lag_alpha(tau_seconds: Array, dt: float) -> Array:
    """Share of the gap between velocity and command that one control step closes."""
    xp = library(tau_seconds)
    return xp.minimum(dt / xp.maximum(tau_seconds, 1e-6), 1.0)


def track(velocity: Array, command: Array, reach: Array, alpha: Array) -> Array:
    """Velocities [2, N] (linear m/s, angular rad/s) after one control step of the lag.

    Args:
        velocity: [2, N] before.
        command: [2, N] in [-1, 1].
        reach: [2, N], the velocity that a command of 1 leads to: limit times motor gain.
        alpha: [N] of `lag_alpha`.
    """
    return velocity + alpha * (command * reach - velocity)


def wrap(angle: Array) -> Array:
    """The same angle in [-pi, pi)."""
    return (angle + math.pi) % (2.0 * math.pi) - math.pi


def drive(pose: Pose, velocity: Array, stride: Array, drift: Array, dt: float) -> tuple[Pose, Array, Array]:
    """One control step: first the turn, then the way along the new heading.

    Args:
        pose: before.
        velocity: [2, N] of `track`.
        stride: [2, N] seconds that count as driven: slip times dt for the truth, dt for the odometry.
        drift: [2, N] rad that the yaw turns by itself: bias times dt for the truth, 0 for the odometry.
        dt: seconds of one control step.

    Returns:
        The pose after, and the cosine and sine [2, N] of its yaw.
    """
    xp = library(velocity)
    yaw = wrap(pose.yaw + (velocity[1] * dt + drift))
    cos, sin = xp.cos(yaw), xp.sin(yaw)
    way = velocity[0] * stride
    return Pose(pose.x + way * cos, pose.y + way * sin, yaw), cos, sin
