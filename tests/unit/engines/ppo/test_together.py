"""Ranks that learn together: as one that sees everything, and equal to the byte."""

from __future__ import annotations

import logging
import math
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
    assert all(one is not None for one in found)
    return found


def part(whole: Trajectory, rank: int, size: int) -> Trajectory:
    """The columns of one rank."""
    share = whole.reward.shape[1] // size
    own = slice(rank * share, (rank + 1) * share)
    columns = {name: array[:, own] for name, array in whole._asdict().items() if name != "last_value"}
    return Trajectory(**columns, last_value=whole.last_value[own])


def taken_together(size: int, columns: int, rows: int, minibatch: int) -> Callable[..., torch.Tensor]:
    """A shuffle of everything that makes the minibatches that so many ranks make, each of its own columns."""
    shuffle, share = torch.randperm, columns // size

    def of_all(total: int, *, generator: torch.Generator) -> torch.Tensor:
        own = shuffle(total // size, generator=generator)
        ranks = torch.arange(size)[:, None, None]
        places = (own // share) * columns + own % share  # where they stand among the columns of everybody
        return (places.view(1, -1, minibatch // size) + ranks * share).transpose(0, 1).reshape(total)

    assert sorted(of_all(rows * columns, generator=torch.Generator())) == list(range(rows * columns))
    return of_all


# What differs is the order in which float32 numbers are added: a gradient of B of them is off by about sqrt(B) / 2
# units in the last place, 5e-7 here, and Adam, which divides by the gradient's own size, turns that into the same
# share of its step of lr = 1e-3 where a gradient is not nearly zero; there, up to a thousandth. 24 steps are taken.
ONE_STEP = 1e-6


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("minibatch", [64, 16])
def test_several_ranks_learn_what_one_does_from_everything(
    make_settings, make_trajectory, monkeypatch, size, normalize, minibatch
):
    loss = {"normalize_advantages": normalize, "entropy_bonus": 0.01}
    settings = make_settings(minibatch=minibatch, epochs=3, loss=loss, clip_grad=0.1)
    wholes = [make_trajectory(seed=seed) for seed in range(2)]

    def learn(actor: Learner, rank: int) -> tuple[list, dict]:
        return [actor.update(part(whole, rank, size)) for whole in wholes], actor.state()

    found = together(size, settings, learn)
    monkeypatch.setattr(torch, "randperm", taken_together(size, 8, 8, minibatch))
    alone = Learner(SHAPE, settings, 3, choose("cpu", Work(8)), LOG)
    expected = [alone.update(whole) for whole in wholes]
    steps = 2 * 3 * (64 // minibatch)
    for metrics, state in found:
        for got, wanted in zip(metrics, expected, strict=True):
            assert got == pytest.approx(wanted, rel=2e-4, abs=2e-6)
        np.testing.assert_allclose(state["flat"], alone.state()["flat"], rtol=0, atol=steps * ONE_STEP)
        ours, theirs = state["normaliser"], alone.state()["normaliser"]
        assert ours["count"] == theirs["count"]
        np.testing.assert_allclose(ours["square"], theirs["square"], rtol=1e-12)


def test_parts_of_a_minibatch_change_nothing_but_rounding(make_settings, make_trajectory):
    def learn(actor: Learner, rank: int) -> bytes:
        actor.update(part(make_trajectory(), rank, 2))
        return actor.state()["flat"]

    whole, _ = together(2, make_settings(minibatch=32, microbatch=32), learn)
    parts, _ = together(2, make_settings(minibatch=32, microbatch=4), learn)
    np.testing.assert_allclose(whole, parts, atol=1e-5)


def test_they_stay_equal_to_the_byte_whatever_each_sees(make_settings, make_trajectory):
    settings = make_settings(minibatch=32, epochs=4, lr_schedule="adaptive", target_kl=0.01)

    def learn(actor: Learner, rank: int) -> tuple[list, bytes]:
        metrics = [actor.update(make_trajectory(seed=10 * seed + rank)) for seed in range(4)]
        return metrics, actor.state()["flat"].tobytes()

    first, second = together(2, settings, learn)
    assert first == second


@pytest.mark.parametrize("what", ["weights", "optimiser", "normaliser"])
def test_a_rank_that_has_drifted_says_so_before_anything_is_saved(make_settings, make_trajectory, what):
    def learn(actor: Learner, rank: int) -> str:
        actor.update(make_trajectory(seed=rank))
        parts = {"weights": actor._flat, "optimiser": actor._adam._second, "normaliser": actor._normaliser._mean}
        with torch.inference_mode():
            parts[what][0] += rank
        try:
            actor.state()
        except RuntimeError as error:
            return str(error).partition(" and holds")[0]
        return "fine"

    assert together(3, make_settings(minibatch=96), learn) == [
        "fine",
        *(f"Actor rank {rank} has drifted from rank 0" for rank in (1, 2)),
    ]


def test_a_gradient_that_one_rank_cannot_compute_is_skipped_by_all(make_settings, make_trajectory):
    def learn(actor: Learner, rank: int) -> tuple[float, bytes]:
        of_one, calls = actor._fused, []

        class Failing:
            stats = of_one.stats

            def __call__(self, *arguments) -> None:
                of_one(*arguments)
                calls.append(1)
                if rank == 1 and len(calls) == 2:
                    actor._gradient[0] = math.inf

        actor._fused = Failing()
        return actor.update(make_trajectory(seed=rank))["skippedMinibatches"], actor.state()["flat"].tobytes()

    first, second = together(2, make_settings(), learn)
    assert first == second
    assert first[0] == 1


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
