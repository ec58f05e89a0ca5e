from __future__ import annotations

import numpy as np
import pytest

from engines.tasks.pendulum_evaluate import JointController, measure
from engines.tasks.task import task_of
from rlark.evidence.gate import judge
from rlark.evidence.intervals import wilson
from rlark.evidence.recount import contradictions
from rlark.spec.pendulum_pack import PendulumPack

PACK = PendulumPack.model_validate({"id": "chain", "kind": "pendulum-chain"})


def idle(observation):
    return np.zeros((len(observation), 12), np.float32)


def test_who_does_nothing_falls_and_a_controller_stands():
    fallen, stands = measure(idle, PACK, 1.0, 8, 11), measure(JointController(PACK), PACK, 1.0, 8, 11)
    assert fallen.fallen.all()
    assert 30 < fallen.length.mean() < 60
    assert fallen.harm == int((400 - fallen.length).sum())
    assert not stands.fallen.any()
    assert (stands.length == 400).all()
    report = stands.report(0.95)
    assert (report["episodes"], report["successRate"], report["survivalSteps"]) == (8, 1.0, 400.0)
    assert (report["successRateCiLow"], report["successRateCiHigh"]) == wilson(8, 8)
    assert "collisionRate" not in report


def test_an_episode_does_not_depend_on_its_neighbours():
    few, many = (measure(idle, PACK, 1.5, count, 11) for count in (2, 9))
    np.testing.assert_array_equal(few.length, many.length[:2])
    np.testing.assert_array_equal(few.reward, many.reward[:2])
    assert not np.array_equal(measure(idle, PACK, 1.5, 2, 12).reward, few.reward)


def test_a_farther_start_falls_sooner():
    near, far = (measure(idle, PACK, factor, 8, 11) for factor in (1.0, 3.0))
    assert far.length.mean() < near.length.mean()


def test_what_is_counted_ends_with_the_fall():
    fallen = measure(idle, PACK, 1.0, 1, 11, record=True)
    rows = fallen.telemetry
    assert len(rows) == fallen.length[0]
    assert [row.done for row in rows] == [row.fall for row in rows] == [False] * (len(rows) - 1) + [True]
    assert fallen.reward[0] == pytest.approx(sum(row.reward for row in rows))
    assert (len(rows[0].observation), len(rows[0].action), rows[1].t) == (42, 12, 0.02)
    stands = measure(JointController(PACK), PACK, 1.0, 1, 11, record=True).telemetry
    assert (len(stands), stands[-1].done, stands[-1].fall) == (400, True, False)


@pytest.mark.parametrize(("survived", "passes"), [(8, True), (7, False)])
def test_the_gate_looks_at_survival_alone(survived, passes):
    low, high = wilson(survived, 8)
    figures = {"successRate": survived / 8, "successRateCiLow": low, "successRateCiHigh": high}
    verdict = judge(PACK.quality_gate, {"nominal": figures}, None)
    assert (verdict.passed, verdict.criteria["maxCollisionRate"]) == (passes, None)
    assert verdict.errors == ([] if passes else [f"the success rate (lower bound) is {low:.4f}, at least 0.6 is asked"])


def test_a_report_without_collisions_is_counted_again():
    figures = measure(idle, PACK, 1.0, 8, 11).report(0.95)
    gate = judge(PACK.quality_gate, {"nominal": figures}, None).to_json()
    report = {"confidenceLevel": 0.95, "qualityGate": gate, "trained": {"nominal": figures}}
    assert contradictions(report) == []
    assert contradictions({**report, "qualityGate": {**gate, "passed": True}})
    better = {"nominal": {**figures, "successRate": 1.0}}
    assert "trained.nominal.successRate has the bounds" in contradictions({**report, "trained": better})[0]


def test_both_kinds_of_task_answer_alike(calm):
    for pack, workload in ((PACK, "locomotion"), (calm, "navigation")):
        task = task_of(pack)
        assert task.workload == workload
        env = task.env(2, np.random.SeedSequence(1), ranks=1, rollout_steps=4)
        assert env.reset().shape == (2, pack.observation_size)
        measured = task.measure(task.controller(), "nominal", 4, 3)
        assert measured.success.sum() >= 3
        assert measured.harm >= 0
