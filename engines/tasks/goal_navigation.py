"""Drive to a goal past obstacles that the observation does not show: N robots in step.

`World` advances robots and says what happened; it starts nothing by itself, so training
(`training.GoalNavigation`) and evaluation (`evaluate`) are the same world.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engines.tasks.differential_drive import Pose, drive, track
from engines.tasks.episode import Episodes, Floats
from engines.tasks.observe import LAYOUTS
from engines.tasks.randomise import Ranges
from engines.tasks.reward import Formula, Signals
from rlark.spec.reward import Quantity
from rlark.spec.task_pack import TaskPack

Flags = NDArray[np.bool_]
OFFERS: Final[tuple[Quantity, ...]] = ("action", "goal", "heading")
"""What is measured here and can be paid for."""
DWELL_FACTOR = 1.5
"""Within this many goal distances of the goal the robot dwells near it."""


class Outcome(NamedTuple):
    """What one control step brought to N robots.

    Attributes:
        reward: [N].
        success: [N] bool, the true pose is nearer to the goal than `goalDistance`.
        collision: [N] bool, the true pose is within the radius of an obstacle.
        out_of_bounds: [N] bool, the true pose left the workspace.
        timeout: [N] bool, `timeoutSteps` are over and nothing else ended the episode.
        observation: [N, O] float32, the frames after this step.
    """

    reward: Floats
    success: Flags
    collision: Flags
    out_of_bounds: Flags
    timeout: Flags
    observation: NDArray[np.float32]

    @property
    def terminated(self) -> Flags:
        """[N] bool, the episode ended by itself."""
        return self.success | self.collision | self.out_of_bounds


class World:
    """N robots, each in its own episode.

    Attributes:
        episodes: where everything stands.
        size: N.
        observation: [N, O] float32, as last shown.
        normals: standard normal numbers that one step takes, per robot.
        drops_frames: True when a step takes a uniform number per robot as well.
        formula: the reward.
    """

    def __init__(self, pack: TaskPack, ranges: Ranges, size: int) -> None:
        """N robots without episodes; `begin` starts them.

        Raises:
            ValueError: the reward pays for what is not measured here.
        """
        self._pack, self._layout, self._frames = pack, LAYOUTS[pack.observation_adapter_id], _frames(pack)
        self.size = size
        self.normals = self._layout.normals
        self.drops_frames = ranges.drops_frames
        self.formula = formula_of(pack)
        self._sees_heading = "heading" in self.formula.needs
        self.episodes = Episodes(size, pack.workspace.obstacles.count, ranges.max_latency, self.formula.rows)
        self.observation: NDArray[np.float32] = np.zeros((size, pack.observation_size), np.float32)
        self._goal_distance, self._bound = pack.termination.goal_distance, pack.workspace.bound
        self._radius2 = pack.workspace.obstacles.radius**2
        self._timeout = pack.termination.timeout_steps

    def begin(self, robots: NDArray[np.intp], episodes: Floats, frame: Floats) -> None:
        """Start new episodes of some robots.

        Args:
            robots: [k] which.
            episodes: [rows, k] columns of `Episodes.table`.
            frame: [k, size] their first frames; frames before the first are zeros.
        """
        self.episodes.table[:, robots] = episodes
        if self._frames > 1:
            self.observation[robots] = 0.0
        self.observation[robots, -self._layout.size :] = frame

    def advance(
        self, action: NDArray[np.float32], normal: Floats, uniform: Floats | None, iteration: float = math.inf
    ) -> Outcome:
        """One control step of all robots.

        Args:
            action: [N, 2] linear and angular command; clamped to [-1, 1] here.
            normal: [normals, N] noise of the frame.
            uniform: [N] in [0, 1) that decides which frames are lost; None when none can be.
            iteration: iterations of the training that are done; by default all terms of the reward pay.
        """
        at = self.episodes
        command = np.minimum(np.maximum(action.T, -1.0), 1.0)
        self._drive(command)
        signals, success, collision = self._judge(command)
        out_of_bounds = np.maximum(np.abs(at.x[0]), np.abs(at.y[0])) > self._bound
        at.steps += 1.0
        timeout = (at.steps >= self._timeout) & ~(success | collision | out_of_bounds)
        pay, memory = self.formula.pay(signals, at.memory, iteration)
        if self.formula.rows:
            at.memory[:] = memory
        at.total += pay
        self._observe(normal, uniform)
        return Outcome(pay, success, collision, out_of_bounds, timeout, self.observation)

    def _drive(self, command: Floats) -> None:
        at = self.episodes
        if len(at.queue) > 1:
            at.queue[1:] = at.queue[:-1]
        at.queue[0] = command
        felt = np.add.reduce(at.delay * at.queue) if len(at.queue) > 1 else command
        at.velocity[:] = track(at.velocity, felt, at.reach, at.alpha)
        pose = Pose(at.x, at.y, at.yaw)
        (at.x[:], at.y[:], at.yaw[:]), cos, sin = drive(pose, at.velocity, at.stride, at.drift, self._pack.drive.dt)
        self._cos, self._sin = cos, sin

    def _judge(self, command: Floats) -> tuple[Signals, Flags, Flags]:
        at = self.episodes
        distance = np.hypot(at.goal[0] - at.x[0], at.goal[1] - at.y[0])
        success = distance < self._goal_distance
        if len(at.obstacles):
            dx, dy = at.obstacles[:, 0] - at.x[0], at.obstacles[:, 1] - at.y[0]
            collision = np.logical_or.reduce(dx * dx + dy * dy <= self._radius2)
        else:
            collision = np.zeros(self.size, np.bool_)
        dwelling = distance < DWELL_FACTOR * self._goal_distance
        heading = at.heading(self._cos[0], self._sin[0], distance) if self._sees_heading else None
        signals = Signals(distance, at.distance - distance, success, collision, dwelling, command, heading)
        at.distance[:] = distance
        return signals, success, collision

    def _observe(self, normal: Floats, uniform: Floats | None) -> None:
        readings = self.episodes.readings(self._cos[1], self._sin[1])
        frame = self._layout.frame(readings, normal, self._pack.drive).astype(np.float32)
        size = self._layout.size
        if uniform is not None:
            lost = uniform < self.episodes.dropout
            frame = np.where(lost[:, None], self.observation[:, -size:], frame)
        if self._frames == 1:
            self.observation = frame
        else:
            self.observation = np.concatenate((self.observation[:, size:], frame), axis=1)


def formula_of(pack: TaskPack) -> Formula:
    """The task's reward, as it is paid here.

    Raises:
        ValueError: it pays for what is not measured here.
    """
    return Formula(pack.formula, pack.action_size, OFFERS)


def _frames(pack: TaskPack) -> int:
    return pack.observation_history.frames
