from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from pydantic import ValidationError

from rlark.spec.adapter import Adapter
from rlark.spec.task_pack import TaskPack
from tests.unit.spec.test_task_pack import PACK

ADAPTER: dict[str, Any] = {
    "id": "rdk-originbot",
    "board": {"platform": "rdk-x5", "family": "originbot", "model": "OriginBot"},
    "ros": {"topics": {"odom": {"name": "/odom", "type": "nav_msgs/msg/Odometry"}}},
    "actuator": {"kind": "diff-drive", "maxLinear": 0.3, "maxAngular": 1.0},
    "runtime": {
        "decisionHz": 10,
        "actionProjection": "paired",
        "actionOutput": "normalized-twist",
        "observationLayout": "originbot-imu-odom-v1",
    },
    "safety": {"maxLinear": 0.3, "maxAngular": 1.0},
    "policy": {
        "observationAdapterId": "originbot-imu-odom-v1",
        "actionAdapterId": "diff-drive-velocity-v1",
        "observationSize": 8,
        "actionSize": 2,
    },
}


def adapter(**changes: dict[str, Any]) -> Adapter:
    data = copy.deepcopy(ADAPTER)
    for section, values in changes.items():
        data[section] |= values
    return Adapter.model_validate(data)


def pack(**changes: object) -> TaskPack:
    return TaskPack.model_validate(PACK | changes)


def test_a_pack_and_its_robot_agree():
    assert list(adapter().differences(pack())) == []
    assert Adapter.model_validate(adapter().to_json()) == adapter()


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"actionAdapterId": "originbot-twist-v1"}, "actionAdapterId"),
        ({"observationAdapterId": "imu-gravity-v1"}, "observationAdapterId"),
        ({"observationHistory": {"frames": 3}}, "observationHistory.frames"),
        ({"drive": {"controlHz": 20}}, "drive.controlHz"),
        ({"drive": {"maxLinear": 0.5}}, "drive.maxLinear"),
        ({"drive": {"maxAngular": 2}}, "drive.maxAngular"),
    ],
)
def test_where_they_do_not_agree(changes, key):
    assert [difference.key for difference in adapter().differences(pack(**changes))] == [key]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"runtime": {"observationLayout": "imu-gravity-v1"}}, "is not policy.observationAdapterId"),
        ({"actuator": {"maxLinear": 0.5}}, "safety allows 0.3"),
        ({"actuator": {"kind": "legs"}}, "'diff-drive' or 'joint'"),
        ({"actuator": {"maxAngular": None}}, "has maxLinear and maxAngular"),
        ({"policy": {"observationHistory": {"frames": 65}}}, "less than or equal to 64"),
        ({"policy": {"observationHistory": {"frames": 3, "order": "newest-first"}}}, "'oldest-first'"),
        ({"runtime": {"decisionHz": 0}}, "greater than 0"),
        ({"safety": {"wheels": 2}}, "Extra inputs"),
    ],
)
def test_wrong_values_are_refused(changes, says):
    with pytest.raises(ValidationError, match=re.escape(says)):
        adapter(**changes)
