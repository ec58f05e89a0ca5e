from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from rlark.evidence.gate import judge
from rlark.evidence.intervals import wilson
from rlark.evidence.manifest import write_manifest
from rlark.evidence.recount import contradictions
from rlark.evidence.verify import verify
from rlark.spec.task_pack import QualityGate


def figures(successes: int, collisions: int = 0, episodes: int = 50) -> dict[str, Any]:
    found: dict[str, Any] = {"episodes": episodes, "actionChangeRms": 0.1}
    for name, count in (("successRate", successes), ("collisionRate", collisions)):
        low, high = wilson(count, episodes)
        found |= {name: count / episodes, f"{name}CiLow": low, f"{name}CiHigh": high}
    return found


def report(successes: int = 45, **criteria: Any) -> dict[str, Any]:
    asked = QualityGate.model_validate(
        {
            "minSuccessRate": 0.7,
            "maxCollisionRate": 0.15,
            "ablation": {"requireBaseline": True, "minSuccessRateDelta": 0.3},
            **criteria,
        }
    )
    trained, baseline = {"nominal": figures(successes), "hard": figures(30)}, {"nominal": figures(0)}
    gate = judge(asked, trained, baseline).to_json()
    return {"confidenceLevel": 0.95, "trained": trained, "baseline": baseline, "qualityGate": gate}


@pytest.mark.parametrize("successes", [0, 36, 41, 42, 50])
@pytest.mark.parametrize("criteria", [{}, {"gateOn": "point"}, {"ablation": None}, {"maxActionChangeRms": 0.05}])
def test_an_honest_report_stands(successes, criteria):
    assert contradictions(report(successes, **criteria)) == []


def wrong(**changes: Any) -> list[str]:
    """A report in whose nominal figures of the trained policy something was changed."""
    changed = copy.deepcopy(report())
    changed["trained"]["nominal"] |= changes
    return contradictions(changed)


def test_a_bound_that_does_not_follow_is_found():
    assert "45 of 50 give [0.786" in wrong(successRateCiLow=0.95)[0]
    assert "trained.nominal.collisionRate" in wrong(collisionRateCiHigh=0.01)[0]


def test_a_rate_that_no_number_of_episodes_gives_is_found():
    assert "is no share of 50 episodes" in wrong(successRate=0.911)[0]


def test_rounding_is_allowed():
    assert wrong(successRateCiLow=round(wilson(45, 50)[0], 3)) == []


@pytest.mark.parametrize("change", [{"successRate": None}, {"successRateCiLow": "high"}, {"successRate": 2.0}])
def test_what_cannot_be_counted_is_told(change):
    assert wrong(**change)


def test_no_episodes_prove_nothing():
    assert wrong(episodes=0)
    assert wrong(episodes=True)


@pytest.mark.parametrize("successes", [41, 42])
def test_a_verdict_that_does_not_follow_is_found(successes):
    changed = report(successes)
    changed["qualityGate"]["passed"] = not changed["qualityGate"]["passed"]
    assert "by its own figures" in contradictions(changed)[0]


def test_a_missing_baseline_counts():
    changed = report()
    del changed["baseline"]
    assert "by its own figures it is False" in contradictions(changed)[0]


@pytest.mark.parametrize("other", [{}, {"qualityGate": {"passed": True}}, {"confidenceLevel": 0.95, "trained": []}])
def test_another_engines_report_is_left_alone(other):
    assert contradictions(other) == []


def test_it_counts_when_a_job_is_verified(tmp_path: Path):
    def written(told: dict[str, Any]) -> list[str]:
        (tmp_path / "artifacts").mkdir(exist_ok=True)
        (tmp_path / "artifacts/eval-report.json").write_text(json.dumps(told))
        write_manifest(tmp_path / "artifacts")
        result = {"artifact": {"artifactRef": "artifact://a"}, "metrics": {"qualityGatePassed": True}}
        (tmp_path / "result.json").write_text(json.dumps(result))
        return [check.code for check in verify(tmp_path, started_at=None, outputs=[], evidence=True, gate=True).failed]

    assert written(report()) == []
    forged = report(30)
    forged["qualityGate"]["passed"] = True
    assert written(forged)[0] == "report_contradicts_itself"
