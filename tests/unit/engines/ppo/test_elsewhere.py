"""Learning and acting on another device than the CPU, tried on torch's `meta` device.

Meta tensors have a device and a shape and no numbers, and refuse to be mixed with the CPU's, so
that whatever stays behind on the CPU is found without a GPU. What is read back is made up.
"""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from engines.ppo.acting import Acting
from engines.ppo.device import Chosen
from engines.ppo.policy import NetShape, hidden_buffers, hidden_layers, parts_of
from engines.ppo.ppo import Learner
from rlark.runtime.component import DeviceUse

META = torch.device("meta")
CHOSEN = Chosen(META, DeviceUse("cuda", "A GPU", cuda_requested=True))
SHAPES = [NetShape(5, 2, (16, 16), shared=False), NetShape(5, 2, (8,), shared=True)]


@pytest.fixture(autouse=True)
def read_back(monkeypatch) -> list[str]:
    """Reading back gives numbers, and is counted."""
    reads: list[str] = []

    def number(_tensor: torch.Tensor) -> float:
        reads.append("float")
        return 0.5

    def copy(tensor: torch.Tensor) -> torch.Tensor:
        reads.append("cpu")
        return torch.zeros(tensor.shape, dtype=tensor.dtype)

    monkeypatch.setattr(torch.Tensor, "__float__", number)
    monkeypatch.setattr(torch.Tensor, "cpu", copy)
    return reads


def test_meta_finds_what_was_left_on_the_cpu():
    shape = SHAPES[0]
    parts = parts_of(shape, torch.zeros(shape.count, device=META))
    buffers = hidden_buffers(shape, 4, torch.zeros(1))
    with pytest.raises(RuntimeError, match="device"):
        hidden_layers(parts, torch.zeros(5, 4, device=META), buffers)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("microbatch", [32, 8])
def test_an_update_runs_there_from_end_to_end(make_settings, make_trajectory, shape, microbatch):
    learner = Learner(shape, make_settings(microbatch=microbatch), 0, CHOSEN, logging.getLogger("test"))
    metrics = learner.update(make_trajectory())
    assert metrics["epochs"] == 2
    assert learner._flat.device == learner._gradient.device == learner._adam._first.device == META
    assert learner.device() == CHOSEN.use
    again = Learner(shape, make_settings(microbatch=microbatch), 1, CHOSEN, logging.getLogger("test"))
    again.restore(learner.state())
    again.update(make_trajectory())
    assert again._flat.device == again._adam._second.device == META
    assert isinstance(again.weights().flat, np.ndarray)


@pytest.mark.parametrize("shape", SHAPES)
def test_acting_runs_there_and_gives_arrays(make_settings, shape, read_back):
    learner = Learner(shape, make_settings(), 0, CHOSEN, logging.getLogger("test"))
    acting = Acting(shape, 8, np.random.SeedSequence(0), META)
    acting.load(learner.weights())
    read_back.clear()
    decision = acting.act(np.zeros((8, 5), np.float32))
    assert read_back == ["cpu", "cpu"]  # means and values, and nothing else crosses in a step
    assert [type(part) for part in decision] == [np.ndarray] * 3
    assert acting._forward._flat.device == META
    assert acting.value(np.zeros((3, 5), np.float32)).shape == (3,)
