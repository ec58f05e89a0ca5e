"""Episodes side by side, and how each begins.

All numbers of an episode stand in one column of one table, so that starting an episode is copying
a column, and each quantity is a row of numbers over all robots.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engines.tasks.differential_drive import lag_alpha
from engines.tasks.observe import Layout, Readings
from engines.tasks.randomise import WIDTH as DYNAMICS_WIDTH
from engines.tasks.randomise import Ranges, draw
from engines.tasks.reward import Formula, Signals
from rlark.spec.task_pack import TaskPack, Workspace

Floats = NDArray[np.float64]
OBSTACLE_TRIES = 8
"""Places drawn for one obstacle; should all lie too near, it takes the corner opposite the goal."""


class Episodes:
    """E episodes; every attribute is a view of `table`, whose columns are the episodes.

    Attributes:
        table: [rows, E] float64, everything below.
        x, y, yaw: [2, E], row 0 the truth, row 1 the odometry.
        velocity: [2, E], linear m/s and angular rad/s.
        goal: [2, E] m.
        obstacles: [C, 2, E] m.
        queue: [L + 1, 2, E], commands that wait for their effect, newest first.
        delay: [L + 1, 1, E], 1 at the episode's latency and 0 elsewhere.
        reach: [2, E], velocity that a command of 1 leads to.
        alpha: [E], share of the gap to the command that a step closes.
        stride: [2, E] s, `slip * dt` and `dt`.
        drift: [2, E] rad, `bias * dt` and 0.
        bias, odom_std, gyro_std, dropout: [E], as drawn.
        distance: [E] m, from the true pose to the goal.
        steps: [E] control steps done.
        total: [E] sum of rewards.
        memory: [M, E], what the reward remembers of the step before.
    """

    def __init__(self, count: int, obstacles: int, max_latency: int, memory: int = 0) -> None:
        """Room for `count` episodes, all zeros."""
        pairs = ("x", "y", "yaw", "velocity", "goal", "reach", "stride", "drift")
        singles = ("alpha", "bias", "odom_std", "gyro_std", "dropout", "distance", "steps", "total")
        sizes = dict.fromkeys(pairs, 2) | dict.fromkeys(singles, 1)
        sizes |= {"delay": max_latency + 1, "queue": 2 * (max_latency + 1), "obstacles": 2 * obstacles}
        sizes["memory"] = memory
        self.count = count
        self.table: Floats = np.zeros((sum(sizes.values()), count))
        rows = dict(zip(sizes, np.split(self.table, np.cumsum(list(sizes.values()))[:-1]), strict=True))
        self.x, self.y, self.yaw = rows["x"], rows["y"], rows["yaw"]
        self.velocity, self.goal, self.reach = rows["velocity"], rows["goal"], rows["reach"]
        self.stride, self.drift = rows["stride"], rows["drift"]
        self.alpha, self.bias = rows["alpha"][0], rows["bias"][0]
        self.odom_std, self.gyro_std, self.dropout = rows["odom_std"][0], rows["gyro_std"][0], rows["dropout"][0]
        self.distance, self.steps, self.total = rows["distance"][0], rows["steps"][0], rows["total"][0]
        self.memory = rows["memory"]
        self.delay = rows["delay"].reshape(max_latency + 1, 1, count)
        self.queue = rows["queue"].reshape(max_latency + 1, 2, count)
        self.obstacles = rows["obstacles"].reshape(obstacles, 2, count)

    def heading(self, cos: Floats, sin: Floats, distance: Floats) -> Floats:
        """Cosine [E] of the angle to the goal, from cosine and sine [E] of the true yaw and the distance [E]."""
        ahead: Floats = (self.goal[0] - self.x[0]) * cos + (self.goal[1] - self.y[0]) * sin
        return ahead / np.maximum(distance, 1e-9)

    def readings(self, cos: Floats, sin: Floats) -> Readings:
        """What the sensors measure, from the cosine and sine [E] of the odometry's yaw."""
        return Readings(
            *(self.x[1], self.y[1], cos, sin, self.goal[0], self.goal[1]),
            *(self.velocity[0], self.velocity[1], self.bias, self.odom_std, self.gyro_std),
        )


class Start:
    """Makes the beginnings of episodes from random numbers.

    Attributes:
        uniforms: uniform numbers that one episode takes.
        layout: the observation's layout.
    """

    def __init__(self, pack: TaskPack, ranges: Ranges, layout: Layout, formula: Formula) -> None:
        """Prepare to start episodes of a task.

        Raises:
            ValueError: the workspace has no place for an obstacle away from start and goal.
        """
        _check_room(pack.workspace)
        self._workspace, self._drive, self._ranges = pack.workspace, pack.drive, ranges
        self.layout, self._formula = layout, formula
        self.uniforms = 3 + DYNAMICS_WIDTH + 2 * OBSTACLE_TRIES * pack.workspace.obstacles.count

    def make(self, uniform: Floats, normal: Floats, goal_distance: tuple[float, float]) -> tuple[Episodes, Floats]:
        """Beginnings of E episodes.

        Args:
            uniform: [uniforms, E] in [0, 1).
            normal: [layout.normals, E], the noise of the first frame.
            goal_distance: the range the goal's distance is drawn from, m.

        Returns:
            The episodes, and the first frame [E, size] of each.
        """
        count = uniform.shape[1]
        episodes = Episodes(count, self._workspace.obstacles.count, self._ranges.max_latency, self._formula.rows)
        angle = 2.0 * math.pi * uniform[:2] - math.pi
        episodes.yaw[:] = angle[0]
        episodes.distance[:] = goal_distance[0] + uniform[2] * (goal_distance[1] - goal_distance[0])
        episodes.goal[:] = episodes.distance * np.stack((np.cos(angle[1]), np.sin(angle[1])))
        self._set_dynamics(episodes, uniform[3 : 3 + DYNAMICS_WIDTH])
        tries = uniform[3 + DYNAMICS_WIDTH :].reshape(-1, OBSTACLE_TRIES, 2, count)
        episodes.obstacles[:] = place_obstacles(self._workspace, episodes.goal, tries)
        cos, sin = np.cos(episodes.yaw[1]), np.sin(episodes.yaw[1])
        if self._formula.rows:
            episodes.memory[:] = self._formula.begin(_at_start(episodes, episodes.heading(cos, sin, episodes.distance)))
        readings = episodes.readings(cos, sin)
        return episodes, self.layout.frame(readings, normal, self._drive)

    def _set_dynamics(self, episodes: Episodes, uniform: Floats) -> None:
        drive, dynamics = self._drive, draw(self._ranges, uniform)
        episodes.reach[0] = drive.max_linear * dynamics.motor_gain
        episodes.reach[1] = drive.max_angular * dynamics.motor_gain
        episodes.alpha[:] = lag_alpha(dynamics.lag_tau_seconds, drive.dt)
        episodes.stride[0], episodes.stride[1] = dynamics.slip_scale * drive.dt, drive.dt
        episodes.drift[0] = dynamics.angular_bias_rad_sec * drive.dt
        episodes.bias[:] = dynamics.angular_bias_rad_sec
        episodes.odom_std[:] = dynamics.odom_noise_std_m
        episodes.gyro_std[:] = dynamics.gyro_noise_std_rad_sec
        episodes.dropout[:] = dynamics.odom_dropout_prob
        steps = np.arange(len(episodes.delay))[:, None, None]
        episodes.delay[:] = dynamics.action_latency_steps == steps


def _at_start(episodes: Episodes, heading: Floats) -> Signals:
    """What is measured before the first action: nobody has reached or hit anything yet."""
    nothing = np.zeros(episodes.count)
    never = np.zeros(episodes.count, np.bool_)
    return Signals(episodes.distance, nothing, never, never, never, None, heading)


def place_obstacles(workspace: Workspace, goal: Floats, tries: Floats) -> Floats:
    """Obstacle centres [C, 2, E], at least `keep_out` from the start (0, 0) and from the goal.

    Args:
        workspace: its bound and its obstacles.
        goal: [2, E] m.
        tries: [C, tries, 2, E] uniform numbers in [0, 1): places in the square of half size
            `bound - radius`; the first that is free is taken.
    """
    half, keep_out = workspace.bound - workspace.obstacles.radius, workspace.obstacles.keep_out
    corner = np.where(goal >= 0.0, -half, half)
    places = np.concatenate((half * (2.0 * tries - 1.0), np.broadcast_to(corner, (len(tries), 1, *goal.shape))), axis=1)
    from_start = np.hypot(places[:, :, 0], places[:, :, 1])
    from_goal = np.hypot(places[:, :, 0] - goal[0], places[:, :, 1] - goal[1])
    free = np.minimum(from_start, from_goal) >= keep_out
    first = np.argmax(free, axis=1)[:, None, None, :]
    return np.take_along_axis(places, np.broadcast_to(first, (len(tries), 1, *goal.shape)), axis=1)[:, 0]


def _check_room(workspace: Workspace) -> None:
    obstacles = workspace.obstacles
    corner = math.sqrt(2.0) * (workspace.bound - obstacles.radius)
    if obstacles.count and (workspace.bound <= obstacles.radius or corner < obstacles.keep_out):
        raise ValueError(
            f"workspace.bound {workspace.bound} m leaves no place for an obstacle at least {obstacles.keep_out:.2f} m "
            f"(radius {obstacles.radius} + clearance {obstacles.clearance}) from start and goal: "
            "make the bound larger, or the obstacles smaller"
        )
