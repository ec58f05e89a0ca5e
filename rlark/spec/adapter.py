"""Adapters: the robot that a task pack is for, as its runtime sees it.

A mapping in camelCase under `configs/adapters/<id>.yaml`, beside the task packs. Nothing here is
driven by rlark; a pack is compared with it, so that what is learned fits the robot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, JsonValue, model_validator

from rlark.model import Written
from rlark.spec.bounds import Positive
from rlark.spec.task_pack import ObservationHistory, TaskPack


class Board(Written):
    """The computer on the robot.

    Attributes:
        platform: for example rdk-x5.
        family: of robots.
        model: the robot.
    """

    platform: str = Field(examples=["rdk-x5"])
    family: str = Field(examples=["originbot"])
    model: str = Field(examples=["OriginBot"])


class Topic(Written):
    """A ROS topic.

    Attributes:
        name: for example /odom.
        type: of its messages.
        field: that counts in them; all where absent.
        required: True when nothing works without it.
    """

    name: str = Field(examples=["/odom"])
    type: str = Field(examples=["nav_msgs/msg/Odometry"])
    field: str | None = Field(default=None, examples=["battery_voltage"])
    required: bool = True


class Ros(Written):
    """The robot's topics.

    Attributes:
        topics: by what they are for: imu, odom, battery, cmdVel.
    """

    topics: dict[str, Topic] = Field(examples=[{"odom": {"name": "/odom", "type": "nav_msgs/msg/Odometry"}}])


class Actuator(Written):
    """What an action commands.

    Attributes:
        kind: diff-drive for a velocity of the body, joint for positions of joints.
        command_topic: where commands go.
        message_type: of commands.
        linear_axis: of the speed.
        angular_axis: of the yaw rate.
        max_linear: speed at an action of 1, m/s; of a drive.
        max_angular: yaw rate at an action of 1, rad/s; of a drive.
        watchdog_ms: it stops when nothing came for so long.
    """

    kind: Literal["diff-drive", "joint"]
    command_topic: str | None = Field(default=None, examples=["/cmd_vel"])
    message_type: str | None = Field(default=None, examples=["geometry_msgs/msg/Twist"])
    linear_axis: Literal["x", "y", "z"] = "x"
    angular_axis: Literal["x", "y", "z"] = "z"
    max_linear: Positive | None = Field(default=None, examples=[0.3])
    max_angular: Positive | None = Field(default=None, examples=[1.0])
    watchdog_ms: Annotated[int, Field(ge=1)] = 500

    @model_validator(mode="after")
    def _drives(self) -> Actuator:
        if self.kind == "diff-drive" and (self.max_linear is None or self.max_angular is None):
            raise ValueError("a diff-drive has maxLinear and maxAngular")
        return self


class AdapterRuntime(Written):
    """How a policy decides on the robot.

    Attributes:
        decision_hz: decisions per second.
        action_projection: how an action becomes a command, for example paired.
        action_output: what an action is, for example normalized-twist.
        observation_layout: the layout of one frame.
        joint_names: of a robot with joints, in the order of the action.
        home_position_rad: of each joint, rad.
        action_scale_rad: of each joint at an action of 1, rad from home.
    """

    decision_hz: Annotated[float, Field(gt=0, le=1000, examples=[10])]
    action_projection: str = Field(examples=["paired"])
    action_output: str = Field(examples=["normalized-twist"])
    observation_layout: str = Field(examples=["originbot-imu-odom-v1"])
    joint_names: list[str] = Field(default_factory=list, examples=[["hip"]])
    home_position_rad: list[float] = Field(default_factory=list, examples=[[0.0]])
    action_scale_rad: list[float] = Field(default_factory=list, examples=[[0.35]])


class Safety(Written):
    """What the robot's runtime never exceeds.

    Attributes:
        max_linear: m/s; of a drive.
        max_angular: rad/s; of a drive.
        sensor_stall_sec: it stops when a required sensor is silent for so long.
    """

    max_linear: Positive | None = Field(default=None, examples=[0.3])
    max_angular: Positive | None = Field(default=None, examples=[1.0])
    sensor_stall_sec: Positive = 0.5


class PolicyPort(Written):
    """What a policy for this robot sees and does.

    Attributes:
        observation_adapter_id: the layout of one frame.
        action_adapter_id: the layout of an action.
        observation_size: numbers in one frame.
        action_size: numbers in an action.
        observation_history: how many frames it sees.
    """

    observation_adapter_id: str = Field(examples=["originbot-imu-odom-v1"])
    action_adapter_id: str = Field(examples=["originbot-twist-v1"])
    observation_size: Annotated[int, Field(ge=1, le=4096, examples=[8])]
    action_size: Annotated[int, Field(ge=1, le=4096, examples=[2])]
    observation_history: ObservationHistory = ObservationHistory()


class Difference(NamedTuple):
    """Something in which a pack and its adapter do not agree.

    Attributes:
        key: of the pack, dotted.
        pack: what it says.
        adapter: what the adapter says.
    """

    key: str
    pack: object
    adapter: object


class Adapter(Written):
    """A robot.

    Attributes:
        schema_version: 1.
        id: its name, also the file's.
        display_name: for people; the id when absent.
        board: the computer on it.
        ros: its topics.
        actuator: what an action commands.
        runtime: how a policy decides.
        safety: what is never exceeded.
        policy: what a policy sees and does.
        capabilities: what it has, for people.
        provenance: where the values come from; not interpreted.
    """

    schema_version: Literal[1] = 1
    id: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", examples=["my-robot"])]
    display_name: str = ""
    board: Board
    ros: Ros
    actuator: Actuator
    runtime: AdapterRuntime
    safety: Safety
    policy: PolicyPort
    capabilities: list[str] = Field(default_factory=list, examples=[["imu"]])
    provenance: dict[str, JsonValue] = Field(default_factory=dict, examples=[{"source": "measured"}])

    @model_validator(mode="after")
    def _agrees(self) -> Adapter:
        if self.runtime.observation_layout != self.policy.observation_adapter_id:
            raise ValueError(
                f"runtime.observationLayout {self.runtime.observation_layout!r} is not "
                f"policy.observationAdapterId {self.policy.observation_adapter_id!r}"
            )
        for name in ("max_linear", "max_angular"):
            reach, limit = getattr(self.actuator, name), getattr(self.safety, name)
            if reach is not None and limit is not None and reach > limit:
                raise ValueError(f"an action of 1 commands {reach:g}, and safety allows {limit:g}")
        return self

    def differences(self, pack: TaskPack) -> Iterator[Difference]:
        """In what a pack for this robot does not agree with it."""
        actuator, policy = self.actuator, self.policy
        pairs = (
            ("observationAdapterId", pack.observation_adapter_id, policy.observation_adapter_id),
            ("actionAdapterId", pack.action_adapter_id, policy.action_adapter_id),
            ("observationHistory.frames", pack.observation_history.frames, policy.observation_history.frames),
            ("drive.controlHz", pack.drive.control_hz, self.runtime.decision_hz),
            ("drive.maxLinear", pack.drive.max_linear, actuator.max_linear or pack.drive.max_linear),
            ("drive.maxAngular", pack.drive.max_angular, actuator.max_angular or pack.drive.max_angular),
        )
        for key, ours, theirs in pairs:
            if ours != theirs:
                yield Difference(key, ours, theirs)
