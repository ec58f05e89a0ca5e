"""What the policy is shown: frames from odometry and gyro, with their noise.

The goal is given relative to the noisy odometry; obstacles, slip, bias and the true pose are
never shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from engines.tasks.arrays import Array, library
from rlark.spec.task_pack import Drive


class Readings(NamedTuple):
    """What the sensors of N robots measure in one control step, before noise; each [N].

    Attributes:
        x: odometry, m.
        y: odometry, m.
        cos: of the odometry's yaw.
        sin: of the odometry's yaw.
        goal_x: m.
        goal_y: m.
        linear: velocity v, m/s.
        angular: velocity w as the odometry has it, rad/s.
        bias: yaw rate that only the gyro sees, rad/s.
        odom_std: standard deviation of the noise on x and y, m.
        gyro_std: standard deviation of the noise on angular rates, rad/s.
    """

    x: Array
    y: Array
    cos: Array
    sin: Array
    goal_x: Array
    goal_y: Array
    linear: Array
    angular: Array
    bias: Array
    odom_std: Array
    gyro_std: Array


class Layout(NamedTuple):
    """An observation layout.

    Attributes:
        size: numbers in a frame.
        normals: standard normal numbers that one frame of one robot takes.
        frame: (readings, normals [normals, N], drive) -> [N, size].
    """

    size: int
    normals: int
    frame: Callable[[Readings, Array, Drive], Array]


def _imu_odometry(at: Readings, normals: Array, drive: Drive) -> Array:  # noqa: ARG001
    """`originbot-imu-odom-v1`: x, y, sin yaw, cos yaw, goal dx, goal dy (world frame), v, w."""
    x = at.x + at.odom_std * normals[0]
    y = at.y + at.odom_std * normals[1]
    rate = at.angular + at.gyro_std * normals[2]
    rows = (x, y, at.sin, at.cos, at.goal_x - x, at.goal_y - y, at.linear, rate)
    return library(x).stack(rows, axis=-1)


def _imu_gravity(at: Readings, normals: Array, drive: Drive) -> Array:
    """`imu-gravity-v1`: gyro 3, gravity 3, last command 2, goal in the body frame 2, v, w, 30 zeros."""
    dx = at.goal_x - (at.x + at.odom_std * normals[0])
    dy = at.goal_y - (at.y + at.odom_std * normals[1])
    gyro = at.gyro_std * normals[2:5]
    zero = 0.0 * at.x
    rows = (
        *(gyro[0], gyro[1], gyro[2] + at.angular + at.bias),
        *(zero, zero, zero - 1.0),
        *(at.linear / drive.max_linear, at.angular / drive.max_angular),
        *(at.cos * dx + at.sin * dy, at.cos * dy - at.sin * dx),
        *(at.linear, at.angular),
        *([zero] * 30),
    )
    return library(zero).stack(rows, axis=-1)


LAYOUTS = {
    "originbot-imu-odom-v1": Layout(8, 3, _imu_odometry),
    "imu-gravity-v1": Layout(42, 5, _imu_gravity),
}
"""Every layout by the id a task pack names in `observationAdapterId`."""
