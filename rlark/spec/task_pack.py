"""Task packs: what a policy is to learn, with its units, checked before anything starts.

A pack is a mapping in camelCase under `configs/tasks/<id>.yaml`. `rlark.spec.pack_file` finds and
reads the files; this module only knows values.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, JsonValue, Strict, model_validator
from pydantic_core import PydanticCustomError

from rlark.model import Written
from rlark.spec.bounds import NotNegative, Positive, PositiveRange, PositiveShare, Share
from rlark.spec.dynamics import DomainRandomization
from rlark.spec.reward import Reward, RewardFormula, RewardTerm

GOAL_NAVIGATION: Final = "goal-navigation"

OBSERVATION_SIZES = {"originbot-imu-odom-v1": 8, "imu-gravity-v1": 42}
"""Numbers in one frame of each observation layout."""

ACTION_SIZES = {"originbot-twist-v1": 2, "diff-drive-vw-v1": 2, "diff-drive-velocity-v1": 2}
"""Numbers in one action of each action layout, all three linear and angular command in [-1, 1]: the name
OriginBot's adapter has for it, that of the generic one, and the older one of this project."""


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
    success_rate_threshold: PositiveShare = 0.7
    lookback_episodes: Annotated[int, Field(ge=1)] = 50

    @model_validator(mode="after")
    def _grows(self) -> Curriculum:
        first, last = self.initial_goal_distance, self.final_goal_distance
        if last[0] < first[0] or last[1] < first[1]:
            raise ValueError(
                f"finalGoalDistance {list(last)} lies below initialGoalDistance {list(first)}: goals only grow"
            )
        return self


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
        aliases: other names it is found by.
        display_name: for people; the id when absent.
        kind: what sort of task it is; an engine says which it accepts.
        adapter_id: the robot it is for.
        observation_adapter_id: the layout of one observation frame.
        action_adapter_id: the layout of an action.
        observation_history: how many frames the policy sees.
        drive: how an action moves the robot.
        recommended_engine: the engine used when nobody names one.
        reward: weights of the reward's terms, the plain form.
        reward_formula: the reward in its vocabulary, instead of `reward`.
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
    aliases: Annotated[tuple[str, ...], Strict(False)] = Field(default=(), examples=[["walk"]])
    display_name: str = ""
    kind: Literal["goal-navigation", "microduck-locomotion", "isaac-upstream"] = GOAL_NAVIGATION
    adapter_id: str = Field(examples=["rdk-originbot"])
    observation_adapter_id: str = Field(examples=["originbot-imu-odom-v1"])
    action_adapter_id: str = Field(examples=["diff-drive-velocity-v1"])
    observation_history: ObservationHistory = ObservationHistory()
    drive: Drive = Drive()
    recommended_engine: str | None = Field(default=None, examples=["starter-ppo"])
    reward: Reward | None = Field(default=None, examples=[{"progress": 1, "collision": -5, "goal": 10}])
    reward_formula: RewardFormula | None = Field(
        default=None, examples=[[{"term": "progress", "op": "potential", "weight": 1}]]
    )
    termination: Termination
    workspace: Workspace
    curriculum: Curriculum
    domain_randomization: DomainRandomization
    evaluation_config: EvaluationConfig = EvaluationConfig()
    quality_gate: QualityGate
    evaluation: list[str] = Field(default_factory=list, examples=[["successRate"]])
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] = 7
    provenance: dict[str, JsonValue] = Field(default_factory=dict, examples=[{"source": "measured"}])

    @model_validator(mode="after")
    def _one_reward(self) -> TaskPack:
        if (self.reward is None) == (self.reward_formula is None):
            found = "neither" if self.reward is None else "both"
            raise PydanticCustomError(
                "RL475",
                "a task pack says what it pays for once, by reward or by rewardFormula, not both, and here are {found}",
                {
                    "found": found,
                    "hint": "add reward: {progress: 1, collision: -5, goal: 10}"
                    if found == "neither"
                    else "remove reward, or rewardFormula",
                },
            )
        return self

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
    def formula(self) -> tuple[RewardTerm, ...]:
        """The reward, term by term; that of a `reward` is the same, written out."""
        return self.reward_formula if self.reward_formula is not None else self.reward.terms() if self.reward else ()

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
