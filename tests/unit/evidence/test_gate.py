from __future__ import annotations

from typing import Any

import pytest

from rlark.evidence.gate import judge
from rlark.evidence.intervals import wilson
from rlark.spec.task_pack import QualityGate


def figures(successes: int = 50, collisions: int = 0, episodes: int = 50, change: float = 0.1) -> dict[str, Any]:
    success, collision = wilson(successes, episodes), wilson(collisions, episodes)
    return {
        "successRate": successes / episodes,
        "successRateCiLow": success[0],
        "collisionRate": collisions / episodes,
        "collisionRateCiHigh": collision[1],
        "actionChangeRms": change,
    }


def passed(trained: dict[str, Any], baseline: dict[str, Any] | None = None, **criteria: Any) -> bool:
    asked = QualityGate.model_validate({"minSuccessRate": 0.7, "maxCollisionRate": 0.15, **criteria})
    verdict = judge(asked, {"nominal": trained}, None if baseline is None else {"nominal": baseline})
    assert verdict.passed == (not verdict.errors)
    return verdict.passed


@pytest.mark.parametrize(
    ("successes", "gate_on", "expected"),
    [(36, "point", True), (36, "ciLowerBound", False), (42, "ciLowerBound", True), (41, "ciLowerBound", False)],
)
def test_success_counts_by_the_lower_bound(successes, gate_on, expected):
    assert passed(figures(successes), gateOn=gate_on) is expected


@pytest.mark.parametrize(("collisions", "expected"), [(2, True), (3, False)])
def test_collisions_count_by_the_upper_bound(collisions, expected):
    assert passed(figures(collisions=collisions)) is expected


def test_at_200_episodes_153_successes_and_20_collisions_are_enough():
    assert passed(figures(153, 20, 200))
    assert not passed(figures(152, 20, 200))
    assert not passed(figures(153, 21, 200))


@pytest.mark.parametrize("missing", ["successRateCiLow", "collisionRateCiHigh"])
@pytest.mark.parametrize("value", [None, float("nan"), "0.9", True])
def test_what_was_not_measured_fails(missing, value):
    assert not passed({**figures(), missing: value})


def test_no_nominal_envelope_fails():
    asked = QualityGate.model_validate({"minSuccessRate": 0.7, "maxCollisionRate": 0.15})
    assert not judge(asked, {"hard": figures()}, None).passed


def test_smoothness_counts_only_where_asked():
    assert passed(figures(change=0.36))
    assert not passed(figures(change=0.36), maxActionChangeRms=0.35)
    assert passed(figures(change=0.35), maxActionChangeRms=0.35)


def test_ablation_compares_with_the_baseline():
    asked = {"ablation": {"requireBaseline": True, "minSuccessRateDelta": 0.1}, "gateOn": "point"}
    assert not passed(figures(75, episodes=100), None, **asked)
    assert not passed(figures(75, episodes=100), figures(70, episodes=100), **asked)
    assert passed(figures(80, episodes=100), figures(70, episodes=100), **asked)


def test_ablation_without_a_required_baseline_may_lack_it():
    asked = {"ablation": {"requireBaseline": False, "minSuccessRateDelta": 0.1}, "gateOn": "point"}
    assert passed(figures(), None, **asked)
    assert not passed(figures(50), figures(48), **asked)


def test_the_verdict_says_what_was_asked_and_found():
    asked = QualityGate.model_validate({"minSuccessRate": 0.7, "maxCollisionRate": 0.15})
    verdict = judge(asked, {"nominal": figures(30)}, None).to_json()
    assert verdict["criteria"]["minSuccessRate"] == 0.7
    assert verdict["measured"]["successRate"] == pytest.approx(wilson(30, 50)[0])
    assert verdict["errors"] == ["the success rate (lower bound) is 0.4618, at least 0.7 is asked"]
