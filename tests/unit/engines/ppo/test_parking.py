"""Tensors that leave and come back; on a CPU the memory is given back just as on a GPU."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from engines.ppo.acting import Acting
from engines.ppo.device import Work, choose
from engines.ppo.parking import Parking
from engines.ppo.policy import NetShape, parts_of
from engines.ppo.ppo import Learner

SHAPE = NetShape(5, 2, (16, 16), shared=False)


def test_memory_is_given_back_and_views_see_the_same_numbers_afterwards():
    flat = torch.arange(1000, dtype=torch.float32)
    view, used = flat[10:20].view(2, 5), torch.zeros(50)
    parking = Parking((flat,), (used,))
    assert parking.leave() == 4000
    assert [tensor.untyped_storage().nbytes() for tensor in (flat, used)] == [0, 0]
    assert parking.come_back() == 4000
    assert (flat.shape, view[1, 0].item(), used.untyped_storage().nbytes()) == ((1000,), 15, 200)
    view[1, 0] = -1
    assert flat[15] == -1


class Moves:
    """A learner that is made to move, as if it were on a GPU."""

    def __init__(self, actor: Learner) -> None:
        self.actor = actor

    def update(self, trajectory):
        self.actor._parking.come_back()
        metrics = self.actor.update(trajectory)
        moved = self.actor._parking.leave()
        learner = self.actor
        held = [learner._flat, learner._gradient, learner._adam.scratch]
        held += learner._fused.buffers[2:]  # numpy looks into the two before, on a CPU
        assert {tensor.untyped_storage().nbytes() for tensor in held} == {0}
        assert moved == 3 * 4 * SHAPE.count
        return metrics


@pytest.mark.parametrize("microbatch", [32, 8])
def test_an_actor_that_left_between_updates_learns_to_the_byte(make_settings, make_trajectory, microbatch):
    settings = make_settings(microbatch=microbatch)
    stays, goes = (Learner(SHAPE, settings, 3, choose("cpu", Work(8)), logging.getLogger("test")) for _ in range(2))
    goes._parking.leave()
    moving = Moves(goes)
    for seed in range(3):
        assert moving.update(make_trajectory(seed=seed)) == stays.update(make_trajectory(seed=seed))
    goes._parking.come_back()
    ours, theirs = goes.state(), stays.state()
    assert ours["flat"].tobytes() == theirs["flat"].tobytes()
    assert ours["adam"]["second"].tobytes() == theirs["adam"]["second"].tobytes()
    assert parts_of(SHAPE, goes._flat).log_std.tolist() == parts_of(SHAPE, stays._flat).log_std.tolist()


def test_a_rollout_that_left_decides_the_same(make_settings):
    actor = Learner(SHAPE, make_settings(), 3, choose("cpu", Work(8)), logging.getLogger("test"))
    observation = np.random.default_rng(0).normal(size=(4, 5)).astype(np.float32)
    seen = []
    for leaves in (False, True):
        acting = Acting(SHAPE, 4, np.random.SeedSequence(0), torch.device("cpu"))
        acting.load(actor.weights())
        acting.act(observation)
        if leaves:
            assert acting._forward._parking.leave() == 4 * SHAPE.count
            acting._forward._parking.come_back()
        seen.append(acting.act(observation).action.tobytes())
    assert seen[0] == seen[1]


def test_a_rollout_gives_up_the_room_of_a_batch(make_settings):
    actor = Learner(SHAPE, make_settings(), 3, choose("cpu", Work(8)), logging.getLogger("test"))
    forward = Acting(SHAPE, 4, np.random.SeedSequence(0), torch.device("cpu"))._forward
    forward.load(actor.weights())
    observation = np.ones((4, 5), np.float32)
    before = [array.copy() for array in forward(observation)]
    forward._device = torch.device("cuda")  # as if it were there: only `offload` asks
    assert forward.offload() == 4 * SHAPE.count
    assert [forward._flat.untyped_storage().nbytes(), forward._mean.nbytes, forward._buffers] == [0, 0, []]
    assert forward.onload() == 4 * SHAPE.count
    forward._device = torch.device("cpu")
    assert [array.tobytes() for array in forward(observation)] == [array.tobytes() for array in before]


def test_room_on_a_gpu_is_given_back_to_other_processes(monkeypatch):
    flat, given_back = torch.zeros(8), []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: given_back.append(flat.untyped_storage().nbytes()))
    Parking((flat,)).leave()
    assert given_back == [0]


def test_on_a_cpu_there_is_nowhere_to_go(make_settings):
    actor = Learner(SHAPE, make_settings(), 3, choose("cpu", Work(8)), logging.getLogger("test"))
    assert [actor.offload(), actor.onload(), actor.offload()] == [0, 0, 0]
