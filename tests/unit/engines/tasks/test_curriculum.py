from __future__ import annotations

import pytest

from engines.tasks.curriculum import Curriculum
from rlark.spec.task_pack import Curriculum as Schedule


def make_schedule(**changes: object) -> Schedule:
    return Schedule.model_validate({"initialGoalDistance": [0.8, 1.2], "finalGoalDistance": [1.4, 1.6], **changes})


def make() -> Curriculum:
    return Curriculum(make_schedule())


def outcomes(successes: int, episodes: int) -> list[bool]:
    return [True] * successes + [False] * (episodes - successes)


def test_69_percent_change_nothing():
    curriculum = Curriculum(make_schedule(lookbackEpisodes=100))
    assert not curriculum.record(outcomes(69, 100))
    assert (curriculum.low, curriculum.high) == (0.8, 1.2)


def test_70_percent_widen_the_range_and_are_forgotten():
    curriculum = make()
    assert curriculum.record(outcomes(35, 50))
    assert (curriculum.low, curriculum.high) == pytest.approx((0.8 * 1.08, 1.2 * 1.08))
    assert not curriculum.record([True] * 49)
    assert curriculum.record([True])


def test_nothing_happens_before_enough_episodes():
    assert not make().record([True] * 49)


def test_the_range_ends_at_the_final_one():
    curriculum = make()
    for _ in range(100):
        curriculum.record([True] * 50)
    assert (curriculum.low, curriculum.high) == (1.4, 1.6)
    assert not curriculum.record([True] * 50)


def test_old_outcomes_leave_the_window():
    curriculum = make()
    curriculum.record([False] * 50)
    assert not curriculum.record([True] * 34)
    assert curriculum.record([True])


def test_continues_from_a_state():
    curriculum, other = make(), make()
    curriculum.record([True] * 80)
    other.restore(curriculum.state())
    assert other.record([True] * 20) == curriculum.record([True] * 20) is True
    assert (other.low, other.high) == (curriculum.low, curriculum.high)
