"""The reward vocabulary, term by term and op by op (cases C45)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from engines.tasks.goal_navigation import OFFERS
from engines.tasks.reward import Formula, Signals
from rlark.spec.reward import TERMS, Reward, RewardTerm

WEIGHTS = {"progress": 1.0, "collision": -5.0, "goal": 10.0, "actionPenalty": -0.01, "dwell": 0.2}
EVERYTHING = ("action", "goal", "heading", "attitude", "contact", "body_rate")


def formula(*terms: dict[str, Any], offers: tuple[str, ...] = EVERYTHING) -> Formula:
    return Formula([RewardTerm.model_validate(term) for term in terms], 2, offers)


def signals(**changes: Any) -> Signals:
    usual: dict[str, Any] = {"distance": 1.0, "nearer": 0.0, "reached": False, "collided": False, "dwelling": False}
    usual |= {"heading": 0.0, "upright": (0.0, 0.0, 1.0), "accel_z": 0.0, "body_rate": 0.0}
    command = np.array(changes.pop("command", (0.0, 0.0)), float)[:, None]
    measured = {name: np.array([value]).T for name, value in (usual | changes).items()}
    measured["upright"] = measured["upright"].reshape(3, 1)
    return Signals(**measured, command=command)


def course(chosen: Formula, start: Signals, *steps: Signals, iteration: float = math.inf) -> list[float]:
    """What is paid in each step of one episode."""
    memory, paid = chosen.begin(start), []
    for step in steps:
        reward, memory = chosen.pay(step, memory, iteration)
        paid.append(float(reward[0]))
    return paid


class TestLegacyMap:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            ({"nearer": 0.03}, 0.03),
            ({"nearer": -0.03}, -0.03),
            ({"collided": True}, -5.0),
            ({"reached": True}, 10.0),
            ({"command": (0.5, -0.5)}, -0.005),
            ({"dwelling": True}, 0.2),
            ({}, 0.0),
            ({"nearer": 0.02, "reached": True, "dwelling": True, "command": (1.0, -1.0)}, 10.21),
        ],
    )
    def test_every_term(self, given, expected):
        chosen = Formula(Reward.model_validate(WEIGHTS).terms(), 2, OFFERS)
        assert course(chosen, signals(), signals(**given)) == [pytest.approx(expected)]

    def test_it_agrees_with_the_plain_formula_term_by_term(self):
        """Over a random course of 200 steps, against the arithmetic of the map itself."""
        rng = np.random.default_rng(0)
        chosen = Formula(Reward.model_validate(WEIGHTS).terms(), 2, OFFERS)
        before = np.full(7, 1.2)
        memory = chosen.begin(signals())
        for _ in range(200):
            distance = np.abs(before + rng.normal(0, 0.05, 7))
            command = rng.uniform(-1, 1, (2, 7))
            collided, reached = rng.random(7) < 0.1, rng.random(7) < 0.1
            seen = Signals(distance, before - distance, reached, collided, distance < 0.225, command)
            plain = [
                1.0 * (before - distance),
                np.where(collided, -5.0, 0.0),
                np.where(reached, 10.0, 0.0),
                -0.01 * np.abs(command).mean(axis=0),
                np.where(distance < 0.225, 0.2, 0.0),
            ]
            np.testing.assert_allclose(chosen.amounts(seen, memory), plain, rtol=0, atol=1e-9)
            paid, memory = chosen.pay(seen, memory)
            np.testing.assert_allclose(paid, np.sum(plain, axis=0), rtol=0, atol=1e-9)
            before = distance

    def test_a_weight_of_0_leaves_its_term_out(self):
        terms = Reward.model_validate({**WEIGHTS, "dwell": 0.0, "actionPenalty": 0.0}).terms()
        assert [term.term for term in terms] == ["progress", "collision", "goal_reach"]

    @pytest.mark.parametrize(("name", "value"), [("collision", 5.0), ("actionPenalty", 0.01)])
    def test_a_penalty_cannot_become_a_bonus(self, name, value):
        with pytest.raises(ValueError, match=name):
            Reward.model_validate({**WEIGHTS, name: value})


class TestOps:
    @pytest.mark.parametrize("op", ["potential", "shaping"])
    def test_improvement_is_paid_and_standing_still_is_not(self, op):
        chosen = formula({"term": "heading", "op": op, "weight": 2.0})
        seen = [signals(heading=value) for value in (0.5, 0.5, 0.2)]
        assert course(chosen, signals(heading=0.1), *seen) == pytest.approx([0.8, 0.0, -0.6])

    def test_what_is_better_when_less_is_paid_for_falling(self):
        chosen = formula({"term": "accel_z", "op": "potential", "weight": 1.0})
        assert course(chosen, signals(accel_z=3.0), signals(accel_z=1.0)) == pytest.approx([2.0])

    @pytest.mark.parametrize("op", ["potential", "shaping", "smoothness"])
    def test_nothing_is_paid_without_a_step_before(self, op):
        chosen = formula({"term": "action_magnitude", "op": op, "weight": 1.0})
        hasty, still = signals(command=(1, 1)), signals()
        first, second = course(chosen, signals(), hasty, still)
        assert (first, second) == (0.0, -1.0 if op == "smoothness" else 1.0)

    def test_smoothness_is_the_square_of_the_change(self):
        chosen = formula({"term": "body_rate", "op": "smoothness", "weight": 0.5})
        seen = [signals(body_rate=value) for value in (0.4, 0.4, -0.2)]
        assert course(chosen, signals(body_rate=0.0), *seen) == pytest.approx([-0.08, 0.0, -0.18])

    @pytest.mark.parametrize("value", [0.3, -0.3])
    def test_a_penalty_takes_the_amount_whatever_the_sign(self, value):
        chosen = formula({"term": "heading", "op": "penalty", "weight": 2.0})
        assert course(chosen, signals(), signals(heading=value)) == pytest.approx([-0.6])

    def test_a_bonus_is_the_quantity(self):
        chosen = formula({"term": "proximity", "op": "bonus", "weight": 3.0})
        seen = [signals(distance=value) for value in (0.0, 1.0, 2.0)]
        assert course(chosen, signals(), *seen) == pytest.approx([3.0, 1.5, 1.0])

    def test_a_rate_limit_pays_over_steps_and_never_twice(self):
        chosen = formula({"term": "proximity", "op": "rate_limit", "weight": 1.0})
        seen = [signals(distance=value) for value in (3.0, 3.0, 3.0, 3.0)]
        assert course(chosen, signals(), *seen) == pytest.approx([0.1, 0.1, 0.05, 0.0])

    def test_a_rate_limited_goal_is_paid_in_full_for_the_episode_ends_there(self):
        chosen = formula({"term": "goal_reach", "op": "rate_limit", "weight": 10.0})
        assert course(chosen, signals(), signals(), signals(reached=True)) == pytest.approx([0.0, 10.0])

    def test_the_rate_of_the_action_is_its_mean_squared_change(self):
        chosen = formula({"term": "action_rate", "op": "penalty", "weight": 1.0})
        seen = [signals(command=command) for command in ((1.0, 0.0), (0.5, 0.0), (0.5, -0.5))]
        assert course(chosen, signals(), *seen) == pytest.approx([0.0, -0.125, -0.125])

    @pytest.mark.parametrize(("axis", "paid"), [("x", 0.1), ("y", 0.2), ("z", 0.3), (None, 0.3)])
    def test_upright_is_of_an_axis(self, axis, paid):
        chosen = formula({"term": "upright", "op": "bonus", "weight": 1.0, "params": {"axis": axis}})
        assert course(chosen, signals(), signals(upright=(0.1, 0.2, 0.3))) == [paid]

    def test_a_smoothed_acceleration(self):
        chosen = formula({"term": "accel_z", "op": "penalty", "weight": 1.0, "params": {"smooth": 0.5}})
        seen = [signals(accel_z=value) for value in (-4.0, 0.0, 0.0)]
        assert course(chosen, signals(), *seen) == [-2.0, -1.0, -0.5]

    def test_a_bonus_on_a_smoothed_acceleration_keeps_its_sign(self):
        chosen = formula({"term": "accel_z", "op": "bonus", "weight": 1.0, "params": {"smooth": 0.5}})
        assert course(chosen, signals(), signals(accel_z=-4.0)) == [-2.0]

    def test_a_change_of_a_smoothed_acceleration(self):
        smooth = {"term": "accel_z", "op": "potential", "weight": 1.0, "params": {"smooth": 0.5}}
        seen = [signals(accel_z=value) for value in (4.0, 0.0)]
        assert course(formula(smooth), signals(), *seen) == [-2.0, 1.0]

    def test_terms_keep_their_memories_apart(self):
        terms = [
            {"term": term, "op": op, "weight": 1.0}
            for term, op in (("action_rate", "smoothness"), ("heading", "shaping"), ("proximity", "rate_limit"))
        ]
        together = formula(*terms)
        rng = np.random.default_rng(1)
        seen = [
            signals(heading=rng.uniform(-1, 1), distance=rng.uniform(0, 2), command=rng.uniform(-1, 1, 2))
            for _ in range(20)
        ]
        parts = [course(formula(term), signals(), *seen) for term in terms]
        assert course(together, signals(), *seen) == pytest.approx(np.sum(parts, axis=0).tolist())
        assert together.rows == 2 + 3

    @pytest.mark.parametrize("term", TERMS)
    @pytest.mark.parametrize("op", ["potential", "shaping", "penalty", "bonus", "rate_limit", "smoothness"])
    def test_every_term_can_be_paid_by_every_op(self, term, op):
        chosen = formula({"term": term, "op": op, "weight": 1.0})
        seen = [
            signals(heading=-0.5, upright=(0.0, 0.0, -0.5), accel_z=-2.0, command=(0.3, -0.2)),
            signals(nearer=-0.1),
        ]
        paid = course(chosen, signals(), *seen)
        assert np.isfinite(paid).all()
        if op in {"penalty", "smoothness"}:
            assert max(paid) <= 0.0


LATER = {"term": "heading", "op": "smoothness", "weight": 1.0, "curriculum": {"introduceAfterIteration": 5}}


class TestIntroducedLater:
    @pytest.mark.parametrize(("iteration", "paid"), [(0, 0.0), (4, 0.0), (5, -0.25), (math.inf, -0.25)])
    def test_it_pays_nothing_before(self, iteration, paid):
        chosen = formula(LATER)
        assert chosen.scheduled
        assert course(chosen, signals(), signals(heading=0.5), iteration=iteration) == [paid]

    def test_it_remembers_before_it_pays(self):
        chosen = formula(LATER)
        _, memory = chosen.pay(signals(heading=0.5), chosen.begin(signals()), 4)
        paid, _ = chosen.pay(signals(heading=0.6), memory, 5)
        assert paid[0] == pytest.approx(-0.01)


def test_what_is_not_measured_is_refused_by_name():
    with pytest.raises(ValueError, match=r"upright is made of attitude, .* measured are action, goal, heading"):
        formula({"term": "upright", "op": "bonus", "weight": 1.0}, offers=OFFERS)
