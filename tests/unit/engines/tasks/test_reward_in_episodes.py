"""Formulas as episodes pay them: what is remembered belongs to an episode, and iterations are counted."""

from __future__ import annotations

import numpy as np
import pytest

from engines.tasks.evaluate import measure
from engines.tasks.training import GoalNavigation
from rlark.spec.task_pack import TaskPack

LEGACY = [
    {"term": "progress", "op": "potential", "weight": 1.0},
    {"term": "collision", "op": "penalty", "weight": 5.0},
    {"term": "goal_reach", "op": "bonus", "weight": 10.0},
    {"term": "action_magnitude", "op": "penalty", "weight": 0.01},
]
HEADING = {"term": "heading", "op": "potential", "weight": 1.0}
RATE = {"term": "action_rate", "op": "penalty", "weight": 1.0}
LATER = {"term": "action_rate", "op": "smoothness", "weight": 1.0, "curriculum": {"introduceAfterIteration": 2}}


def make(pack: TaskPack, count: int = 16, **other) -> GoalNavigation:
    env = GoalNavigation(pack, count, np.random.SeedSequence([7, 2, 0]), **other)
    env.reset()
    return env


def actions(steps: int, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(steps, count, 2)).astype(np.float32)


def test_a_reward_and_the_same_as_a_formula_pay_the_same_to_the_byte(make_pack):
    plain, formula = make(make_pack()), make(make_pack(rewardFormula=LEGACY))
    for action in actions(200, 16):
        np.testing.assert_array_equal(plain.step(action).reward, formula.step(action).reward)


def test_the_goal_is_paid_in_full(make_pack):
    for terms in (LEGACY, [{"term": "goal_reach", "op": "rate_limit", "weight": 10.0}]):
        env = make(make_pack(obstacles=0, rewardFormula=terms))
        episodes = env._world.episodes
        episodes.x[:], episodes.y[:] = episodes.goal[0], episodes.goal[1]
        step = env.step(np.zeros((16, 2), np.float32))
        assert step.terminated.all()
        assert (step.reward >= 10.0).all()


def test_a_new_episode_remembers_nothing_of_the_one_before(make_pack):
    env = make(make_pack(obstacles=0, timeout=6, rewardFormula=[RATE]), count=6)
    last = np.full((6, 2), np.nan, np.float32)
    for action in np.clip(actions(40, 6), -1, 1):
        step = env.step(action)
        expected = -np.nan_to_num(np.square(action - last), nan=0.0).mean(axis=1)
        np.testing.assert_allclose(step.reward, expected, rtol=1e-6)
        last = np.where((step.terminated | step.truncated)[:, None], np.float32(np.nan), action)


def test_the_first_step_pays_for_turning_to_the_goal(make_pack):
    env = make(make_pack(obstacles=0, rewardFormula=[HEADING]), count=64)
    at = env._world.episodes
    before = np.cos(np.arctan2(at.goal[1], at.goal[0]) - at.yaw[0])
    reward = env.step(np.tile(np.array([0.0, 1.0], np.float32), (64, 1))).reward
    way = np.arctan2(at.goal[1] - at.y[0], at.goal[0] - at.x[0])
    np.testing.assert_allclose(reward, np.cos(way - at.yaw[0]) - before, atol=1e-6)


def test_standing_still_earns_nothing(make_pack):
    pack = make_pack(obstacles=0, rewardFormula=[LEGACY[0], {**HEADING, "op": "shaping"}])
    env = make(pack)
    env._world.episodes.drift[:] = 0.0
    for _ in range(5):
        np.testing.assert_allclose(env.step(np.zeros((16, 2), np.float32)).reward, 0.0, atol=1e-12)


class TestIterations:
    def paid(self, env: GoalNavigation, steps: int, seed: int = 0) -> list[bool]:
        return [bool(env.step(action).reward.any()) for action in actions(steps, 16, seed)]

    def test_a_term_comes_in_when_so_many_iterations_are_done(self, make_pack):
        env = make(make_pack(obstacles=0, rewardFormula=[LATER]), rollout_steps=5)
        assert self.paid(env, 20) == [False] * 10 + [True] * 10
        assert env.iteration == 4

    def test_it_goes_on_from_a_state(self, make_pack):
        pack = make_pack(obstacles=0, rewardFormula=[LATER])
        env, other = make(pack, rollout_steps=5), make(pack, rollout_steps=5)
        self.paid(env, 7)
        other.restore(env.state())
        assert self.paid(other, 6, seed=1) == self.paid(env, 6, seed=1) == [False] * 3 + [True] * 3

    def test_nobody_counts(self, make_pack):
        with pytest.raises(ValueError, match="nobody counts iterations"):
            make(make_pack(rewardFormula=[LATER]))

    def test_an_evaluation_pays_every_term(self, make_pack):
        pack = make_pack(obstacles=0, rewardFormula=[LATER])
        nominal = pack.domain_randomization.eval_envelopes.nominal
        found = measure(lambda seen: np.sin(50 * seen[:, :2]), pack, nominal, 5, 1)
        assert (found.reward < 0).all()


def test_what_is_not_measured_here_is_refused(make_pack):
    with pytest.raises(ValueError, match="upright is made of attitude"):
        make(make_pack(rewardFormula=[{"term": "upright", "op": "bonus", "weight": 1.0}]))
