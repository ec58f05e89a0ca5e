from __future__ import annotations

import numpy as np
import pytest

from engines.tasks.observe import LAYOUTS, Readings
from rlark.spec.task_pack import OBSERVATION_SIZES, Drive


def readings(**changes: float) -> Readings:
    names = ("x", "y", "cos", "sin", "goal_x", "goal_y", "linear", "angular", "bias", "odom_std", "gyro_std")
    usual = (0.1, -0.2, np.cos(0.5), np.sin(0.5), 1.0, 0.5, 0.2, 0.3, 0.05, 0.0, 0.0)
    values = dict(zip(names, usual, strict=True)) | changes
    return Readings(**{name: np.array([value]) for name, value in values.items()})


def frame(layout: str, normals: object = None, **changes: float) -> np.ndarray:
    chosen = LAYOUTS[layout]
    given = np.zeros((chosen.normals, 1)) if normals is None else np.array(normals, float)[:, None]
    return chosen.frame(readings(**changes), given, Drive())[0]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_widths_are_those_of_the_task_packs(layout):
    assert len(frame(layout)) == LAYOUTS[layout].size == OBSERVATION_SIZES[layout]


def test_eight_numbers():
    expected = [0.1, -0.2, np.sin(0.5), np.cos(0.5), 0.9, 0.7, 0.2, 0.3]
    np.testing.assert_allclose(frame("originbot-imu-odom-v1"), expected)


def test_eight_numbers_with_noise():
    found = frame("originbot-imu-odom-v1", [1.0, -2.0, 3.0], odom_std=0.01, gyro_std=0.1)
    expected = [0.11, -0.22, np.sin(0.5), np.cos(0.5), 0.89, 0.72, 0.2, 0.6]
    np.testing.assert_allclose(found, expected)


def test_forty_two_numbers():
    found = frame("imu-gravity-v1", [0, 0, 1.0, 2.0, 3.0], gyro_std=0.1)
    np.testing.assert_allclose(found[:3], [0.1, 0.2, 0.3 + 0.3 + 0.05])
    assert list(found[3:6]) == [0, 0, -1]
    np.testing.assert_allclose(found[6:8], [0.2 / 0.3, 0.3])
    turned = np.array([0.9, 0.7]) @ np.array([[np.cos(0.5), -np.sin(0.5)], [np.sin(0.5), np.cos(0.5)]])
    np.testing.assert_allclose(found[8:10], turned)
    np.testing.assert_allclose(found[10:12], [0.2, 0.3])
    assert not found[12:].any()
