from __future__ import annotations

import numpy as np
import pytest

from engines.tasks.training import GoalNavigation
from rlark.spec.task_pack import TaskPack


def make(pack: TaskPack, count: int = 16, seed: int = 7, **other) -> GoalNavigation:
    return GoalNavigation(pack, count, np.random.SeedSequence([seed, 2, 0]), **other)


def actions(steps: int, count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(steps, count, 2)).astype(np.float32)


def test_shapes_and_types(pack):
    env = make(pack)
    assert env.reset().shape == (16, 8)
    step = env.step(actions(1, 16)[0])
    assert step.observation.shape == step.final_observation.shape == (16, 8)
    assert step.observation.dtype == step.reward.dtype == np.float32
    assert step.terminated.dtype == step.truncated.dtype == np.bool_


@pytest.mark.parametrize("layout", ["originbot-imu-odom-v1", "imu-gravity-v1"])
def test_the_same_seed_gives_the_same_course_and_another_seed_another(make_pack, layout):
    pack = make_pack(layout=layout)
    first, again, other = make(pack), make(pack), make(pack, seed=8)
    assert (first.reset() == again.reset()).all()
    other.reset()
    for action in actions(300, 16):
        one, two, three = first.step(action), again.step(action), other.step(action)
        for left, right in zip(one, two, strict=True):
            np.testing.assert_array_equal(left, right)
        assert (one.observation != three.observation).any()


def test_what_ended_starts_anew_and_shows_both_observations(make_pack):
    env = make(make_pack(timeout=5, frames=2), count=5)
    last = env.reset()
    seen = 0
    for action in actions(30, 5):
        step = env.step(action)
        ended = step.terminated | step.truncated
        seen += int(ended.sum())
        np.testing.assert_array_equal(step.final_observation[~ended], step.observation[~ended])
        np.testing.assert_array_equal(step.final_observation[:, :8], last[:, 8:])  # the old episode's last
        assert not step.observation[ended, :8].any()  # the new one has no frame before its first
        assert step.observation[ended, 8:].any(axis=1).all()
        last = step.observation.copy()
    assert seen == 30


def test_first_episodes_end_at_different_times_and_later_ones_at_the_timeout(make_pack):
    env = make(make_pack(obstacles=0, timeout=8), count=8)
    env.reset()
    still = np.zeros((8, 2), np.float32)
    truncated = np.array([env.step(still).truncated for _ in range(24)])
    assert [int(np.flatnonzero(column)[0]) for column in truncated.T] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert {int(gap) for column in truncated.T for gap in np.diff(np.flatnonzero(column))} == {8}


def test_termination_and_truncation_are_told_apart(pack):
    env = make(pack, count=64)
    env.reset()
    terminated = truncated = 0
    ahead = np.tile(np.array([1.0, 0.0], np.float32), (64, 1))
    ahead[::2] = 0.0  # every other robot waits for its timeout
    for _ in range(200):
        step = env.step(ahead)
        assert not (step.terminated & step.truncated).any()
        terminated += int(step.terminated.sum())
        truncated += int(step.truncated.sum())
    assert terminated
    assert truncated


def test_one_observation_a_step(make_pack, monkeypatch):
    env = make(make_pack(obstacles=0), count=4)
    env.reset()
    shown = []
    advance = env._world._observe
    monkeypatch.setattr(env._world, "_observe", lambda *given: shown.append(1) or advance(*given))
    for action in actions(10, 4):
        env.step(action)
    assert len(shown) == 10


def test_continues_from_a_state_exactly(make_pack):
    pack = make_pack(timeout=30, frames=2)
    env = make(pack, count=32)
    env.reset()
    for action in actions(100, 32):
        env.step(action)
    state = env.state()
    other = make(pack, count=32, seed=99)
    other.restore(state)
    env.metrics()
    for action in actions(200, 32, seed=1):
        for left, right in zip(env.step(action), other.step(action), strict=True):
            np.testing.assert_array_equal(left, right)
    assert env.metrics() == other.metrics()


def test_a_state_is_a_snapshot(pack):
    env = make(pack)
    env.reset()
    state = env.state()
    before = state["table"].copy()
    env.step(actions(1, 16)[0])
    np.testing.assert_array_equal(state["table"], before)


def test_metrics_count_what_finished_since_the_last_call(make_pack):
    env = make(make_pack(obstacles=0, timeout=4), count=4)
    env.reset()
    assert np.isnan(env.metrics()["successRate"])
    for _ in range(4):
        env.step(np.zeros((4, 2), np.float32))
    metrics = env.metrics()
    assert metrics["episodes"] == 4
    assert (metrics["successRate"], metrics["timeoutRate"], metrics["recentSuccess"]) == (0.0, 1.0, 0.0)
    assert metrics["meanEpisodeLength"] == 4.0
    assert (metrics["goalRangeLow"], metrics["goalRangeHigh"]) == (0.8, 1.2)
    assert env.metrics()["episodes"] == 0


def test_goals_move_away_with_success(make_pack):
    pack = make_pack(obstacles=0)
    env = make(pack, count=64)
    env.reset()
    world = env._world.episodes
    for _ in range(3):
        world.x[:] = world.goal[0]
        world.y[:] = world.goal[1]
        assert env.step(np.zeros((64, 2), np.float32)).terminated.all()
    assert env.goal_range == pytest.approx((0.8 * 1.08**3, 1.2 * 1.08**3))
    assert world.distance.max() <= env.goal_range[1] + 1e-9
    assert world.distance.max() > 1.3


def test_ranks_share_the_window_of_recent_episodes(calm):
    alone, half = make(calm), make(calm, ranks=2)
    alone._tally.recent = half._tally.recent = [True] * 200
    assert (len(alone._tally.recent), len(half._tally.recent)) == (200, 100)
