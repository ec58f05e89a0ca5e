"""What a task pays for: weights in the plain form, or a formula of terms in a closed vocabulary.

A term says what is measured, its op how that is paid. The op carries the sign, so a weight is a
positive amount and a penalty can never become a bonus. What the ops pay, for a quantity q:

- potential, shaping: weight times how much q improved since the step before; nothing without a step before
- bonus: weight times q
- penalty: minus weight times the amount of q
- smoothness: minus weight times the square of q's change; nothing without a step before
- rate_limit: weight times the rise of a target that starts at 0 and follows q by at most 0.1 a step; in the
  step that reaches the goal all of the rest, for the episode ends there
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from pydantic import Field, Strict, model_validator
from pydantic_core import PydanticCustomError

from rlark.model import Written
from rlark.spec.bounds import NotNegative, NotPositive

MOST_TERMS: Final = 24
MOST_WEIGHT: Final = 1000
SCHEDULED: Final = "smoothness"
"""The one op that may be introduced later: a regulariser before there is a skill teaches to do nothing."""

TermName: TypeAlias = Literal[
    "progress",
    "heading",
    "goal_reach",
    "goal_hold",
    "proximity",
    "collision",
    "action_magnitude",
    "action_rate",
    "upright",
    "accel_z",
    "body_rate",
]
Op: TypeAlias = Literal["potential", "shaping", "penalty", "bonus", "rate_limit", "smoothness"]
Quantity: TypeAlias = Literal["action", "goal", "heading", "attitude", "contact", "body_rate"]
"""What an engine's environments can measure."""


class Measured(NamedTuple):
    """What a term measures.

    Attributes:
        quantity: what the engine must offer for it.
        rises: True when more of it is better.
        params: the parameters it takes.
    """

    quantity: Quantity
    rises: bool
    params: tuple[str, ...] = ()


TERMS: Final[dict[TermName, Measured]] = {
    "progress": Measured("goal", rises=False),  # distance to the goal, m
    "heading": Measured("heading", rises=True),  # cosine of the angle between heading and goal
    "goal_reach": Measured("goal", rises=True),  # 1 in the step that reaches the goal
    "goal_hold": Measured("goal", rises=True),  # 1 within 1.5 goal distances
    "proximity": Measured("goal", rises=True),  # 1 / (1 + distance to the goal in m)
    "collision": Measured("goal", rises=False),  # 1 in the step that collides
    "action_magnitude": Measured("action", rises=False),  # mean |action|
    "action_rate": Measured("action", rises=False),  # mean squared change of the action
    "upright": Measured("attitude", rises=True, params=("axis",)),  # cosine of the angle between the axis and up
    "accel_z": Measured("contact", rises=False, params=("smooth",)),  # vertical acceleration, m/s^2
    "body_rate": Measured("body_rate", rises=False),  # angular rate of the body, rad/s
}
"""Every term; what it measures on numpy or jax arrays stands in `engines.tasks.reward`."""


class RewardParams(Written):
    """What a term is told about its measurement.

    Attributes:
        axis: of `upright`: the axis of the body that shall point up.
        smooth: of `accel_z`: the share of the step before in its exponential mean; 0 for not smoothed.
    """

    axis: Literal["x", "y", "z"] | None = Field(default=None, examples=["z"])
    smooth: Annotated[float, Field(ge=0, lt=1)] | None = Field(default=None, examples=[0.5])


class RewardSchedule(Written):
    """When a term begins to count.

    Attributes:
        introduce_after_iteration: it pays nothing until so many iterations are done.
    """

    introduce_after_iteration: Annotated[int, Field(ge=0, examples=[100])]


class RewardTerm(Written):
    """One term of a formula.

    Attributes:
        term: what is measured.
        op: how it is paid.
        weight: a positive amount; the op carries the sign.
        params: of the measurement.
        curriculum: when it begins to count; of `smoothness` only.
    """

    term: TermName = Field(examples=["progress"])
    op: Op = Field(examples=["potential"])
    weight: Annotated[float, Field(gt=0, le=MOST_WEIGHT, examples=[1.0])]
    params: RewardParams = RewardParams()
    curriculum: RewardSchedule | None = Field(default=None, examples=[{"introduceAfterIteration": 100}])

    @model_validator(mode="after")
    def _fits(self) -> RewardTerm:
        known = TERMS[self.term].params
        given = [name for name in RewardParams.model_fields if getattr(self.params, name) is not None]
        if foreign := [name for name in given if name not in known]:
            raise PydanticCustomError(
                "RL470",
                "the term {term} takes no {params}",
                {
                    "term": self.term,
                    "params": " and no ".join(foreign),
                    "hint": f"it takes {', '.join(known)}" if known else "remove params",
                },
            )
        if self.curriculum is not None and self.op != SCHEDULED:
            raise ValueError(f"curriculum.introduceAfterIteration is for the op smoothness, and this is {self.op}")
        return self

    @property
    def quantity(self) -> Quantity:
        """What the engine must offer for it."""
        return TERMS[self.term].quantity

    @property
    def after(self) -> int:
        """Iterations that must be done before it pays."""
        return self.curriculum.introduce_after_iteration if self.curriculum else 0


RewardFormula = Annotated[tuple[RewardTerm, ...], Strict(False), Field(min_length=1, max_length=MOST_TERMS)]


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

    def terms(self) -> tuple[RewardTerm, ...]:
        """The same reward as a formula; a weight of 0 leaves its term out."""
        written: tuple[tuple[TermName, Op, float], ...] = (
            ("progress", "potential", self.progress),
            ("collision", "penalty", -self.collision),
            ("goal_reach", "bonus", self.goal),
            ("action_magnitude", "penalty", -self.action_penalty),
            ("goal_hold", "bonus", self.dwell),
        )
        return tuple(
            RewardTerm.model_construct(term=term, op=op, weight=weight) for term, op, weight in written if weight
        )
