"""Ranks that learn together: as one that sees everything, and equal to the byte."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import numpy as np
import pytest
import torch

from engines.ppo.device import Work, choose
from engines.ppo.moments import Moments
from engines.ppo.policy import NetShape
from engines.ppo.ppo import Learner, Settings
from rlark.runtime.trajectory import Trajectory

SHAPE = NetShape(5, 2, (16, 16), shared=False)
LOG = logging.getLogger("test")


class Members:
    """A team of threads: what each of them brings is there for all once the last has brought it."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._here, self._read = threading.Barrier(size), threading.Barrier(size)
        self._brought: list[np.ndarray] = [np.zeros(0)] * size

    def meet(self, rank: int, numbers: np.ndarray) -> np.ndarray:
        self._brought[rank] = numbers.copy()
        self._here.wait(10)
        all_of_them = np.stack(self._brought)
        self._read.wait(10)
        return all_of_them

    def member(self, rank: int) -> Member:
        return Member(self, rank)


class Member:
    """One of them (`rlark.runtime.component.Team`)."""

    def __init__(self, members: Members, rank: int) -> None:
        self._members, self.rank, self.size = members, rank, members.size

    def mean_(self, tensor) -> None:
        tensor.copy_(tensor.new_tensor(self._members.meet(self.rank, tensor.numpy().astype(np.float64)).mean(axis=0)))

    def gather(self, numbers: np.ndarray) -> np.ndarray:
        return self._members.meet(self.rank, numbers)


def together(size: int, settings: Settings, do: Callable[[Learner, int], object]) -> list[object]:
    """What each of so many ranks finds."""
    members, found = Members(size), [None] * size

    def be(rank: int) -> None:
        actor = Learner(SHAPE, settings, 3, choose("cpu", Work(8)), LOG, team=members.member(rank))
        found[rank] = do(actor, rank)

    threads = [threading.Thread(target=be, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert None not in found
    return found


def part(whole: Trajectory, rank: int, size: int) -> Trajectory:
    """The columns of one rank."""
    share = whole.reward.shape[1] // size
    own = slice(rank * share, (rank + 1) * share)
    columns = {name: array[:, own] for name, array in whole._asdict().items() if name != "last_value"}
    return Trajectory(**columns, last_value=whole.last_value[own])


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("normalize", [True, False])
def test_several_ranks_learn_what_one_does_from_everything(make_settings, make_trajectory, size, normalize):
    settings = make_settings(minibatch=64, epochs=3, loss={"normalize_advantages": normalize}, clip_grad=0.1)
    wholes = [make_trajectory(seed=seed) for seed in range(2)]
    alone = Learner(SHAPE, settings, 3, choose("cpu", Work(8)), LOG)
    expected = [alone.update(whole) for whole in wholes]

    def learn(actor: Learner, rank: int) -> tuple[list, dict]:
        return [actor.update(part(whole, rank, size)) for whole in wholes], actor.state()

    for metrics, state in together(size, settings, learn):
        for got, wanted in zip(metrics, expected, strict=True):
            assert got == pytest.approx(wanted, rel=2e-4, abs=2e-6)
        np.testing.assert_allclose(state["flat"], alone.state()["flat"], atol=3e-6)
        ours, theirs = state["normaliser"], alone.state()["normaliser"]
        assert ours["count"] == theirs["count"]
        np.testing.assert_allclose(ours["square"], theirs["square"], rtol=1e-12)


def test_they_stay_equal_to_the_byte_whatever_each_sees(make_settings, make_trajectory):
    settings = make_settings(minibatch=32, epochs=4, lr_schedule="adaptive", target_kl=0.01)

    def learn(actor: Learner, rank: int) -> tuple[list, bytes]:
        metrics = [actor.update(make_trajectory(seed=10 * seed + rank)) for seed in range(4)]
        return metrics, actor.state()["flat"].tobytes()

    first, second = together(2, settings, learn)
    assert first == second


def test_weights_that_differ_are_found_before_they_are_saved(make_settings, make_trajectory):
    def learn(actor: Learner, rank: int) -> str:
        actor.update(make_trajectory(seed=rank))
        with torch.inference_mode():
            actor._flat[0] += rank
        with pytest.raises(RuntimeError) as found:
            actor.state()
        return str(found.value)

    assert together(2, make_settings(), learn) == ["the weights of Actor rank 1 differ from those of rank 0"] * 2


def test_a_rank_goes_on_from_the_state_of_rank_0(make_settings, make_trajectory):
    def learn(actor: Learner, rank: int) -> dict:
        actor.update(make_trajectory(seed=rank))
        return actor.state()

    state = together(2, make_settings(), learn)[0]
    alone = Learner(SHAPE, make_settings(), 99, choose("cpu", Work(8)), LOG)
    alone.restore(state)
    again = together(3, make_settings(minibatch=96), lambda actor, _: (actor.restore(state), actor.state())[1])
    assert {one["flat"].tobytes() for one in again} == {alone.state()["flat"].tobytes()}


def test_minibatches_that_cannot_be_shared_say_what_to_change(make_settings):
    with pytest.raises(ValueError, match="minibatches of 32 transitions cannot be shared by 3 Actor ranks"):
        Learner(SHAPE, make_settings(), 3, choose("cpu", Work(8)), LOG, team=Members(3).member(0))


def test_parts_merge_to_the_moments_of_the_whole():
    values = np.random.default_rng(0).normal(1e4, 1.0, (60, 3))
    parts = [Moments.of(values[start : start + 20]) for start in (0, 20, 40)]
    merged = parts[0].merged(parts[1]).merged(parts[2])
    whole = Moments.of(values)
    assert merged.number == 60
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-14)
    np.testing.assert_allclose(merged.square, whole.square, rtol=1e-10)
