"""Task packs: what a policy is to learn, with its units, checked before anything starts.

A pack is a mapping in camelCase under `configs/tasks/<id>.yaml`. `rlark.spec.pack_file` finds and
reads the files; this module only knows values.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, Strict, model_validator

from rlark.model import Written

GOAL_NAVIGATION: Final = "goal-navigation"

Pair = TypeVar("Pair", bound=tuple[float, float])

OBSERVATION_SIZES = {"originbot-imu-odom-v1": 8, "imu-gravity-v1": 42}
"""Numbers in one frame of each observation layout."""

ACTION_SIZES = {"diff-drive-velocity-v1": 2}
"""Numbers in one action of each action layout: linear and angular command in [-1, 1]."""


class Envelope(NamedTuple):
    """One fixed draw of the randomised dynamics, in the order of the vectors in a pack.

    What each number means, and its unit, stands at `DomainRandomization`.
    """

    motor_gain: float
    lag_tau_seconds: float
    gyro_noise_std_rad_sec: float
    odom_noise_std_m: float
    angular_bias_rad_sec: float
    action_latency_steps: int
    odom_dropout_prob: float
    slip_scale: float


def _ascending(pair: Pair) -> Pair:
    if pair[0] > pair[1]:
        raise ValueError(f"the range [{pair[0]}, {pair[1]}] ends below its start: write [min, max]")
    return pair


def _whole_steps(pair: object) -> object:
    """Refuse a fractional latency in words of the field, before pydantic speaks of integers."""
    if isinstance(pair, list | tuple) and any(isinstance(step, float) and not step.is_integer() for step in pair):
        raise ValueError(f"latency is counted in whole control steps, and {list(pair)} has a fraction")
    return pair


def _envelope(values: object) -> object:
    """Read a vector of 8 numbers, or of 6 in the older form (no dropout, no slip)."""
    if isinstance(values, Envelope) or not isinstance(values, list | tuple):
        return values
    if len(values) not in {6, 8}:
        raise ValueError(
            f"an envelope has 8 numbers, or 6 in the older form (no dropout, slip 1); here are {len(values)}"
        )
    full = [*values, 0.0, 1.0] if len(values) == 6 else list(values)
    latency = full[5]
    whole = isinstance(latency, int) and not isinstance(latency, bool)
    if not (whole or (isinstance(latency, float) and latency.is_integer())) or latency < 0:
        raise ValueError(f"number 6 of an envelope is the latency in whole steps, at least 0; here it is {latency!r}")
    full[5] = int(latency)
    return Envelope(*full)


def _possible(envelope: Envelope) -> Envelope:
    checks = (
        (envelope.motor_gain > 0, "number 1, the motor gain, is above 0"),
        (envelope.lag_tau_seconds >= 0, "number 2, the lag in seconds, is at least 0"),
        (envelope.gyro_noise_std_rad_sec >= 0, "number 3, the gyro noise, is at least 0"),
        (envelope.odom_noise_std_m >= 0, "number 4, the odometry noise, is at least 0"),
        (0 <= envelope.odom_dropout_prob <= 1, "number 7, the dropout probability, is between 0 and 1"),
        (0 < envelope.slip_scale <= 1, "number 8, the slip scale, is above 0 and at most 1"),
    )
    wrong = [text for holds, text in checks if not holds]
    if wrong:
        raise ValueError(f"in the envelope {list(envelope)}: {'; '.join(wrong)}")
    return envelope


Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
NotPositive = Annotated[float, Field(le=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Range = Annotated[tuple[float, float], Strict(False), AfterValidator(_ascending)]
PositiveRange = Annotated[tuple[Positive, Positive], Strict(False), AfterValidator(_ascending)]
NotNegativeRange = Annotated[tuple[NotNegative, NotNegative], Strict(False), AfterValidator(_ascending)]
ShareRange = Annotated[tuple[Share, Share], Strict(False), AfterValidator(_ascending)]
Steps = Annotated[int, Field(ge=0)]
StepRange = Annotated[tuple[Steps, Steps], Strict(False), BeforeValidator(_whole_steps), AfterValidator(_ascending)]
EnvelopeVector = Annotated[Envelope, BeforeValidator(_envelope), AfterValidator(_possible)]


class Reward(Written):
    """Weights of the reward's terms, per control step.

    Attributes:
        progress: per metre that the robot came nearer to the goal.
        collision: paid once on a collision; at most 0.
        goal: paid once, in full, on reaching the goal.
        action_penalty: per unit of mean |action|; at most 0.
        dwell: per step within 1.5 goal distances of the goal.
    """

    progress: NotNegative = 1.0
    collision: NotPositive = -5.0
    goal: NotNegative = 10.0
    action_penalty: NotPositive = -0.01
    dwell: NotNegative = 0.0


class Termination(Written):
    """When an episode ends.

    Attributes:
        goal_distance: success is nearer to the goal than this, m.
        timeout_steps: the longest episode, in control steps.
    """

    goal_distance: Positive = Field(examples=[0.15])
    timeout_steps: Annotated[int, Field(ge=1, examples=[200])]


class Obstacles(Written):
    """Round obstacles, drawn anew for each episode.

    Attributes:
        count: how many; 0 for a clear arena.
        radius: a robot whose centre is this near collides, m.
        clearance: centres lie at least `radius + clearance` from the start and from the goal, m; the
            observation does not show obstacles, so without it no policy could succeed always.
    """

    count: Annotated[int, Field(ge=0, le=64)] = 0
    radius: Positive = 0.15
    clearance: NotNegative = 0.30

    @property
    def keep_out(self) -> float:
        """The least distance of an obstacle's centre from the start and from the goal, m."""
        return self.radius + self.clearance


class Workspace(Written):
    """Where the robot may drive.

    Attributes:
        bound: half the side of the square around the start, m; beyond it the episode ends.
        obstacles: what stands in it.
    """

    bound: Positive = Field(examples=[2.0])
    obstacles: Obstacles = Obstacles()


class Curriculum(Written):
    """How far goals lie, growing with success.

    Attributes:
        initial_goal_distance: the first range, and always that of the evaluation, m.
        final_goal_distance: the range it never exceeds, m.
        expand_factor: both ends are multiplied by it at each expansion.
        success_rate_threshold: expand when the recent success rate is at least this.
        lookback_episodes: how many finished episodes "recent" means.
    """

    initial_goal_distance: PositiveRange = Field(examples=[[0.8, 1.2]])
    final_goal_distance: PositiveRange = Field(examples=[[1.4, 1.6]])
    expand_factor: Annotated[float, Field(ge=1)] = 1.08
    success_rate_threshold: Annotated[float, Field(gt=0, le=1)] = 0.7
    lookback_episodes: Annotated[int, Field(ge=1)] = 50

    @model_validator(mode="after")
    def _grows(self) -> Curriculum:
        first, last = self.initial_goal_distance, self.final_goal_distance
        if last[0] < first[0] or last[1] < first[1]:
            raise ValueError(
                f"finalGoalDistance {list(last)} lies below initialGoalDistance {list(first)}: goals only grow"
            )
        return self


class EvalEnvelopes(Written):
    """The fixed dynamics of the evaluation.

    Attributes:
        nominal: as the robot should be; the quality gate looks at this one.
        hard: as bad as it may become.
    """

    nominal: EnvelopeVector = Field(examples=[[1, 0.1, 0.01, 0.005, 0, 1, 0, 1]])
    hard: EnvelopeVector = Field(examples=[[0.8, 0.25, 0.02, 0.05, 0.05, 2, 0.05, 0.8]])


class DomainRandomization(Written):
    """Ranges of the dynamics, drawn uniformly for each episode.

    Attributes:
        motor_gain: factor on the commanded velocity.
        lag_tau_seconds: time constant of the first-order velocity lag, s.
        gyro_noise_std_rad_sec: standard deviation of the gyro's noise, rad/s.
        odom_noise_std_m: standard deviation of the odometry's noise on x and y, m.
        angular_bias_rad_sec: constant yaw rate the odometry does not see, rad/s.
        action_latency_steps: control steps between a command and its effect.
        odom_dropout_prob: probability that a frame repeats the one before it.
        slip_scale: share of the wheels' speed that moves the robot.
        eval_envelopes: the fixed dynamics of the evaluation.
    """

    motor_gain: PositiveRange = (1.0, 1.0)
    lag_tau_seconds: NotNegativeRange = (0.05, 0.05)
    gyro_noise_std_rad_sec: NotNegativeRange = (0.0, 0.0)
    odom_noise_std_m: NotNegativeRange = (0.0, 0.0)
    angular_bias_rad_sec: Range = (0.0, 0.0)
    action_latency_steps: StepRange = (0, 0)
    odom_dropout_prob: ShareRange = (0.0, 0.0)
    slip_scale: Annotated[
        tuple[Annotated[float, Field(gt=0, le=1)], Annotated[float, Field(gt=0, le=1)]],
        Strict(False),
        AfterValidator(_ascending),
    ] = (1.0, 1.0)
    eval_envelopes: EvalEnvelopes


class EvaluationConfig(Written):
    """How the finished policy is measured.

    Attributes:
        episodes_per_envelope: deterministic episodes for each envelope.
        confidence_level: of the Wilson intervals.
    """

    episodes_per_envelope: Annotated[int, Field(ge=1, le=200)] = 50
    confidence_level: Annotated[float, Field(gt=0, lt=1)] = 0.95


class Ablation(Written):
    """The comparison with a network that has learned nothing, on the same seeds.

    Attributes:
        require_baseline: the gate fails without it.
        min_success_rate_delta: how much better the trained policy is, in success rate.
    """

    require_baseline: bool = True
    min_success_rate_delta: Share = 0.0


class QualityGate(Written):
    """When a policy is good enough, on the nominal envelope.

    Attributes:
        min_success_rate: least share of episodes that reach the goal.
        max_collision_rate: greatest share that collide.
        gate_on: the rates themselves, or the bounds of their intervals (success low, collision high).
        max_action_change_rms: greatest RMS of the difference of successive actions; None for no limit.
        ablation: the comparison with an untrained network; None for none.
    """

    min_success_rate: Share = Field(examples=[0.9])
    max_collision_rate: Share = Field(examples=[0.05])
    gate_on: Literal["point", "ciLowerBound"] = "ciLowerBound"
    max_action_change_rms: Positive | None = Field(default=None, examples=[0.6])
    ablation: Ablation | None = None


class ObservationHistory(Written):
    """How many frames the policy sees at once.

    Attributes:
        frames: from 1 to 64; zeros before the first.
        order: the oldest frame stands first.
    """

    frames: Annotated[int, Field(ge=1, le=64)] = 1
    order: Literal["oldest-first"] = "oldest-first"


class Drive(Written):
    """The differential drive that an action of [-1, 1] commands.

    Attributes:
        control_hz: decisions per second.
        max_linear: speed at a linear action of 1, m/s.
        max_angular: yaw rate at an angular action of 1, rad/s.
    """

    control_hz: Annotated[float, Field(gt=0, le=1000)] = 10.0
    max_linear: Positive = 0.3
    max_angular: Positive = 1.0

    @property
    def dt(self) -> float:
        """Seconds between two decisions."""
        return 1.0 / self.control_hz


class TaskPack(Written):
    """What a policy is to learn.

    Attributes:
        schema_version: 1.
        id: its name, also the file's.
        display_name: for people; the id when absent.
        kind: what sort of task it is; an engine says which it accepts.
        adapter_id: the robot it is for.
        observation_adapter_id: the layout of one observation frame.
        action_adapter_id: the layout of an action.
        observation_history: how many frames the policy sees.
        drive: how an action moves the robot.
        recommended_engine: the engine used when nobody names one.
        reward: weights of the reward's terms.
        termination: when an episode ends.
        workspace: where the robot may drive.
        curriculum: how far goals lie.
        domain_randomization: how the dynamics vary.
        evaluation_config: how the policy is measured.
        quality_gate: when it is good enough.
        evaluation: names of what the evaluation reports, for people.
        seed: the random seed when nobody gives one.
        provenance: where the values come from; not interpreted.
    """

    schema_version: Literal[1] = 1
    id: Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", examples=["my-task"])]
    display_name: str = ""
    kind: Literal["goal-navigation", "microduck-locomotion", "isaac-upstream"] = GOAL_NAVIGATION
    adapter_id: str = Field(examples=["rdk-originbot"])
    observation_adapter_id: str = Field(examples=["originbot-imu-odom-v1"])
    action_adapter_id: str = Field(examples=["diff-drive-velocity-v1"])
    observation_history: ObservationHistory = ObservationHistory()
    drive: Drive = Drive()
    recommended_engine: str | None = Field(default=None, examples=["starter-ppo"])
    reward: Reward
    termination: Termination
    workspace: Workspace
    curriculum: Curriculum
    domain_randomization: DomainRandomization
    evaluation_config: EvaluationConfig = EvaluationConfig()
    quality_gate: QualityGate
    evaluation: list[str] = Field(default_factory=list, examples=[["successRate"]])
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 7
    provenance: dict[str, JsonValue] = Field(default_factory=dict, examples=[{"source": "measured"}])

    @model_validator(mode="before")
    @classmethod
    def _one_reward(cls, data: object) -> object:
        """Refuse the reward vocabulary in its own words: it must never be dropped silently."""
        if isinstance(data, dict) and "rewardFormula" in data:
            if "reward" in data:
                raise ValueError("a pack has reward or rewardFormula, not both")
            raise ValueError("rewardFormula is not supported by this version: write the reward's weights under reward")
        return data

    @model_validator(mode="after")
    def _agrees(self) -> TaskPack:
        if self.kind == GOAL_NAVIGATION:
            self._known("observationAdapterId", self.observation_adapter_id, OBSERVATION_SIZES)
            self._known("actionAdapterId", self.action_adapter_id, ACTION_SIZES)
        nearest = self.curriculum.initial_goal_distance[0]
        if self.termination.goal_distance >= nearest:
            raise ValueError(
                f"termination.goalDistance {self.termination.goal_distance} reaches the nearest goal at {nearest}: "
                "an episode would succeed before its first step"
            )
        return self

    @staticmethod
    def _known(name: str, value: str, known: dict[str, int]) -> None:
        if value not in known:
            raise ValueError(f"{name} {value!r} is not known; known are {', '.join(known)}")

    @property
    def frame_size(self) -> int:
        """Numbers in one observation frame."""
        return OBSERVATION_SIZES[self.observation_adapter_id]

    @property
    def observation_size(self) -> int:
        """Numbers the policy sees: frames times the frame's size."""
        return self.frame_size * self.observation_history.frames

    @property
    def action_size(self) -> int:
        """Numbers in one action."""
        return ACTION_SIZES[self.action_adapter_id]
