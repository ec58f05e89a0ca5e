from __future__ import annotations

import logging

import pytest
import torch

from engines.ppo.device import choose


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "A GPU")
    monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda *_, **__: None)


def test_a_missing_gpu_is_told_and_honest(no_gpu, caplog):
    chosen = choose("cuda", 64)
    assert (chosen.device.type, chosen.use.device, chosen.use.cuda_requested) == ("cpu", "cpu", True)
    with caplog.at_level(logging.INFO):
        chosen.tell(logging.getLogger("actor-0"))
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "cuda requested but not available; falling back to cpu")
    ]


@pytest.mark.parametrize("asked", ["auto", "cpu"])
def test_without_a_gpu_there_is_nothing_to_tell(no_gpu, asked):
    chosen = choose(asked, 1_000_000)
    assert (chosen.use.device, chosen.use.cuda_requested, chosen.note) == ("cpu", False, "")
    assert chosen.use.name


def test_auto_weighs_the_number_of_environments(gpu):
    small, large = choose("auto", 64), choose("auto", 4096)
    assert small.use.device == "cpu"
    assert "64 environments are faster on the CPU" in small.note
    assert (large.use.device, large.use.name, large.use.cuda_requested) == ("cuda", "A GPU", False)


def test_cuda_insists_and_cpu_refrains(gpu):
    assert choose("cuda", 64).use == ("cuda", "A GPU", True)
    assert choose("cpu", 4096).use.device == "cpu"
