"""The quality gate: is the policy good enough to be called trained?

It looks at the nominal envelope only. With `gateOn: ciLowerBound` the success rate counts by the
lower bound of its interval and the collision rate by the upper one, so that few episodes are no
help; with `point` the rates themselves count. What was not measured fails.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

from pydantic import Field, JsonValue

from rlark.model import StoredModel

ENVELOPE = "nominal"


class Ablation(Protocol):
    """The comparison with a network that has learned nothing."""

    @property
    def require_baseline(self) -> bool:
        """The gate fails without a baseline."""
        ...

    @property
    def min_success_rate_delta(self) -> float:
        """How much better the trained policy must be, in success rate."""
        ...


class Criteria(Protocol):
    """What a policy must reach; a task pack's `qualityGate` is one."""

    @property
    def min_success_rate(self) -> float:
        """Least success rate."""
        ...

    @property
    def max_collision_rate(self) -> float | None:
        """Greatest collision rate; None where nothing can collide."""
        ...

    @property
    def gate_on(self) -> str:
        """`point` or `ciLowerBound`."""
        ...

    @property
    def max_action_change_rms(self) -> float | None:
        """Greatest RMS of the difference of successive actions; None for no limit."""
        ...

    @property
    def ablation(self) -> Ablation | None:
        """The comparison with an untrained network; None for none."""
        ...


class GateVerdict(StoredModel):
    """`qualityGate` of an evaluation report.

    Attributes:
        passed: every criterion holds.
        errors: a sentence for each that does not.
        criteria: what was asked, under its names in a task pack.
        measured: what was found.
    """

    passed: bool
    errors: list[str] = Field(default_factory=list)
    criteria: dict[str, JsonValue] = Field(default_factory=dict)
    measured: dict[str, JsonValue] = Field(default_factory=dict)


def judge(
    criteria: Criteria, trained: Mapping[str, Mapping[str, Any]], baseline: Mapping[str, Mapping[str, Any]] | None
) -> GateVerdict:
    """Hold an evaluation against the criteria.

    Args:
        criteria: what is asked.
        trained: envelope -> its figures: `successRate`, `successRateCiLow`, `collisionRate`,
            `collisionRateCiHigh`, `actionChangeRms`.
        baseline: the same of the untrained network; None when it was not measured.
    """
    on_bound = criteria.gate_on == "ciLowerBound"
    figures = trained.get(ENVELOPE, {})
    success = _number(figures, "successRateCiLow" if on_bound else "successRate")
    collision = _number(figures, "collisionRateCiHigh" if on_bound else "collisionRate")
    change = _number(figures, "actionChangeRms")
    errors = [
        _at_least("success rate" + (" (lower bound)" if on_bound else ""), success, criteria.min_success_rate),
    ]
    if criteria.max_collision_rate is not None:
        what = "collision rate" + (" (upper bound)" if on_bound else "")
        errors.append(_at_most(what, collision, criteria.max_collision_rate))
    if criteria.max_action_change_rms is not None:
        errors.append(_at_most("RMS of the action's change", change, criteria.max_action_change_rms))
    measured = {"successRate": success, "collisionRate": collision, "actionChangeRms": change}
    if criteria.ablation is not None:
        delta = _delta(figures, None if baseline is None else baseline.get(ENVELOPE))
        measured["successRateDelta"] = delta
        errors.append(_ablation(criteria.ablation, delta))
    found = [error for error in errors if error]
    return GateVerdict(passed=not found, errors=found, criteria=_asked(criteria), measured={**measured})


def _asked(criteria: Criteria) -> dict[str, JsonValue]:
    ablation = criteria.ablation
    asked: JsonValue = None
    if ablation is not None:
        asked = {
            "requireBaseline": ablation.require_baseline,
            "minSuccessRateDelta": ablation.min_success_rate_delta,
        }
    return {
        "envelope": ENVELOPE,
        "gateOn": criteria.gate_on,
        "minSuccessRate": criteria.min_success_rate,
        "maxCollisionRate": criteria.max_collision_rate,
        "maxActionChangeRms": criteria.max_action_change_rms,
        "ablation": asked,
    }


def _number(figures: Mapping[str, Any], name: str) -> float | None:
    value = figures.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _at_least(what: str, value: float | None, bound: float) -> str:
    if value is None:
        return f"the {what} was not measured"
    return "" if value >= bound else f"the {what} is {value:.4f}, at least {bound} is asked"


def _at_most(what: str, value: float | None, bound: float) -> str:
    if value is None:
        return f"the {what} was not measured"
    return "" if value <= bound else f"the {what} is {value:.4f}, at most {bound} is allowed"


def _delta(trained: Mapping[str, Any], baseline: Mapping[str, Any] | None) -> float | None:
    ours, theirs = _number(trained, "successRate"), _number(baseline or {}, "successRate")
    return None if ours is None or theirs is None else round(ours - theirs, 9)


def _ablation(ablation: Ablation, delta: float | None) -> str:
    if delta is None:
        return "there is no baseline to compare with" if ablation.require_baseline else ""
    return _at_least("gain in success rate over the untrained baseline", delta, ablation.min_success_rate_delta)
