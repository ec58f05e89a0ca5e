"""Counting an evaluation again: do its intervals follow from its rates, and its verdict from its intervals?

Only reports that say at which confidence they were made, and what their gate asked, can be counted
again; others are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlark.evidence.gate import judge
from rlark.evidence.intervals import Z_SCORES, wilson

RATES = ("successRate", "collisionRate")
"""The first is always there, the second where something can collide."""
ATOL = 1e-3
"""What rounding in a report may make of a bound."""
_Group = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class _Ablation:
    require_baseline: bool
    min_success_rate_delta: float


@dataclass(frozen=True)
class _Asked:
    min_success_rate: float
    max_collision_rate: float | None
    gate_on: str
    max_action_change_rms: float | None
    ablation: _Ablation | None

    @classmethod
    def of(cls, criteria: Mapping[str, Any]) -> _Asked:
        """From `qualityGate.criteria` of a report."""
        given = criteria["ablation"]
        ablation = given and _Ablation(bool(given["requireBaseline"]), float(given["minSuccessRateDelta"]))
        change, collisions = criteria["maxActionChangeRms"], criteria["maxCollisionRate"]
        return cls(
            float(criteria["minSuccessRate"]),
            None if collisions is None else float(collisions),
            str(criteria["gateOn"]),
            None if change is None else float(change),
            ablation or None,
        )


def contradictions(report: Mapping[str, Any]) -> list[str]:
    """A sentence for everything in an `eval-report.json` that does not follow from the rest of it."""
    try:
        confidence, gate = report["confidenceLevel"], report["qualityGate"]
        asked, passed = _Asked.of(gate["criteria"]), gate["passed"]
        groups: dict[str, _Group] = {name: report[name] for name in ("trained", "baseline") if report.get(name)}
        episodes = [figures["episodes"] for group in groups.values() for figures in group.values()]
    except (KeyError, TypeError, ValueError, AttributeError):
        return []  # another engine's report
    if confidence not in Z_SCORES or not all(type(count) is int and count > 0 for count in episodes):
        return ["it holds figures without episodes, or at a confidence that is not offered"]
    found = [wrong for name, group in groups.items() for wrong in _counted(name, group, confidence)]
    again = judge(asked, groups.get("trained", {}), groups.get("baseline"))
    if not found and again.passed != passed:
        found.append(f"its quality gate says passed: {passed}, and by its own figures it is {again.passed}")
    return found


def _counted(who: str, group: _Group, confidence: float) -> list[str]:
    """What is wrong with one policy's rates and bounds."""
    found = []
    for envelope, figures in group.items():
        for rate in (name for name in RATES if name in figures or name == RATES[0]):
            where = f"{who}.{envelope}.{rate}"
            try:
                found += _of_rate(where, rate, figures, confidence)
            except (KeyError, TypeError, ValueError) as error:
                found.append(f"{where} cannot be counted again: {error!r}")
    return found


def _of_rate(where: str, rate: str, figures: Mapping[str, Any], confidence: float) -> list[str]:
    trials, value = figures["episodes"], float(figures[rate])
    successes = round(value * trials)
    if abs(successes / trials - value) > ATOL:
        return [f"{where} {value} is no share of {trials} episodes"]
    low, high = wilson(successes, trials, confidence) or (0.0, 0.0)
    given = (float(figures[f"{rate}CiLow"]), float(figures[f"{rate}CiHigh"]))
    if max(abs(low - given[0]), abs(high - given[1])) > ATOL:
        return [f"{where} has the bounds [{given[0]}, {given[1]}], and {successes} of {trials} give [{low}, {high}]"]
    return []
