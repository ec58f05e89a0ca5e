"""A controller written by hand, to know what the observation allows; never used in training.

It turns on the spot until it looks at the goal and then drives, correcting on the way.
"""

from __future__ import annotations

import numpy as np

from rlark.runtime.component import FloatArray
from rlark.spec.task_pack import TaskPack

ALIGNED = 0.15
"""Heading error below which it drives, rad."""
GAIN = 3.0
"""Yaw rate for each radian of heading error, 1/s."""


class HeadingController:
    """Observations [B, O] to actions [B, 2], for either observation layout."""

    def __init__(self, pack: TaskPack) -> None:
        """Control the robot of this task."""
        self._layout, self._frame, self._drive = pack.observation_adapter_id, pack.frame_size, pack.drive

    def __call__(self, observation: FloatArray) -> FloatArray:
        """The action for each observation."""
        frame = observation[:, -self._frame :]
        error = self._heading_error(frame)
        turn = np.clip(GAIN * error / self._drive.max_angular, -1.0, 1.0)
        ahead = (np.abs(error) < ALIGNED).astype(np.float32)
        return np.stack((ahead, turn), axis=1).astype(np.float32)

    def _heading_error(self, frame: FloatArray) -> FloatArray:
        """Angle [B] from the robot's heading to the goal, rad."""
        if self._layout == "imu-gravity-v1":
            return np.arctan2(frame[:, 9], frame[:, 8])
        sin, cos, dx, dy = frame[:, 2], frame[:, 3], frame[:, 4], frame[:, 5]
        return np.arctan2(cos * dy - sin * dx, cos * dx + sin * dy)
