from __future__ import annotations

import numpy as np
import pytest

from engines.tasks.evaluate import measure
from engines.tasks.heading_controller import HeadingController


def wander(observation: np.ndarray) -> np.ndarray:
    return np.tanh(observation[:, :2] * 3 + observation[:, 4:6])


@pytest.mark.parametrize("envelope", ["nominal", "hard"])
def test_an_episode_does_not_depend_on_how_many_run(pack, envelope):
    under = getattr(pack.domain_randomization.eval_envelopes, envelope)
    few, many = (measure(wander, pack, under, count, 1007) for count in (5, 40))
    for name in ("success", "collision", "distance", "length", "reward", "change"):
        np.testing.assert_array_equal(getattr(few, name), getattr(many, name)[:5])


def test_other_seeds_are_other_episodes(pack):
    under = pack.domain_randomization.eval_envelopes.nominal
    one, other = (measure(wander, pack, under, 5, seed) for seed in (1007, 1008))
    assert (one.distance != other.distance).any()
    assert measure(wander, pack, under, 1, 1008).distance == other.distance[0]


@pytest.mark.parametrize("layout", ["originbot-imu-odom-v1", "imu-gravity-v1"])
def test_the_heading_controller_shows_that_the_task_can_be_done(make_pack, layout):
    pack = make_pack(layout=layout)
    found = measure(HeadingController(pack), pack, pack.domain_randomization.eval_envelopes.nominal, 200, 1007)
    report = found.report(0.95)
    assert report["successRate"] >= 0.95
    assert report["successRate"] + report["collisionRate"] <= 1.0
    assert report["successRateCiLow"] < report["successRate"] < report["successRateCiHigh"]
    assert report["meanFinalDistance"] < 0.2
    assert 30 < report["meanEpisodeLength"] < 80


def test_doing_nothing_reaches_nothing(pack):
    def nothing(observation):
        return np.zeros((len(observation), 2))

    found = measure(nothing, pack, pack.domain_randomization.eval_envelopes.nominal, 10, 1)
    report = found.report(0.95)
    assert (report["successRate"], report["collisionRate"], report["meanReturn"]) == (0.0, 0.0, 0.0)
    assert report["meanEpisodeLength"] == pack.termination.timeout_steps
    assert report["actionChangeRms"] == 0.0
    np.testing.assert_allclose(found.distance, np.clip(found.distance, 0.8, 1.2))


def test_goals_are_always_those_of_the_initial_range(make_pack):
    pack = make_pack(curriculum={"initialGoalDistance": [0.5, 0.6], "finalGoalDistance": [1.4, 1.6]})

    def nothing(observation):
        return np.zeros((len(observation), 2))

    found = measure(nothing, pack, pack.domain_randomization.eval_envelopes.nominal, 20, 1)
    assert found.distance.min() >= 0.5
    assert found.distance.max() <= 0.6


def test_actions_are_clamped_before_they_count(pack):
    under = pack.domain_randomization.eval_envelopes.nominal
    loud = measure(lambda seen: 50.0 * np.sign(seen[:, :2]), pack, under, 5, 3)
    clamped = measure(lambda seen: np.sign(seen[:, :2]), pack, under, 5, 3)
    np.testing.assert_array_equal(loud.change, clamped.change)
    np.testing.assert_array_equal(loud.reward, clamped.reward)


def test_an_ended_episode_counts_no_more(pack):
    found = measure(HeadingController(pack), pack, pack.domain_randomization.eval_envelopes.nominal, 50, 1007)
    assert len(set(found.length)) > 5
    assert (found.reward[found.success] < 11.5).all()
    assert (found.reward[found.success] > 10.0).all()


def test_telemetry_is_episode_0(pack):
    under = pack.domain_randomization.eval_envelopes.hard
    found = measure(wander, pack, under, 3, 5, record=True)
    rows = found.telemetry
    assert len(rows) == found.length[0]
    assert [row.t for row in rows[:3]] == [0.0, 0.1, 0.2]
    assert {len(row.observation) for row in rows} == {8}
    assert {len(row.action) for row in rows} == {2}
    assert [row.done for row in rows] == [False] * (len(rows) - 1) + [True]
    assert rows[-1].fall == bool(found.collision[0])
    assert sum(row.reward for row in rows) == pytest.approx(found.reward[0])
    assert measure(wander, pack, under, 3, 5).telemetry == []
