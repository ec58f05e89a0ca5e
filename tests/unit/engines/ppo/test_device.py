from __future__ import annotations

import logging
import os

import pytest
import torch

from engines.ppo.device import Work, choose

LARGE = Work(4096)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def gpu(monkeypatch):
    """A machine that says it has one."""
    before = torch.are_deterministic_algorithms_enabled(), torch.backends.cuda.matmul.allow_tf32
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _: "A GPU")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    yield
    torch.use_deterministic_algorithms(before[0])
    torch.backends.cuda.matmul.allow_tf32 = before[1]


def told(chosen, caplog) -> list[tuple[str, str]]:
    with caplog.at_level(logging.INFO):
        chosen.tell(logging.getLogger("actor-0"))
    return [(record.levelname, record.message) for record in caplog.records]


def test_a_missing_gpu_is_told_and_honest(no_gpu, caplog):
    chosen = choose("cuda", LARGE)
    assert (chosen.device.type, chosen.use.device, chosen.use.cuda_requested) == ("cpu", "cpu", True)
    assert told(chosen, caplog) == [("WARNING", "cuda requested but not available; falling back to cpu")]


def test_the_warning_stands_on_stderr(no_gpu, capfd):
    choose("cuda", LARGE).tell(logging.Logger("actor-0"))  # as Python prints it where nobody set up logging
    assert "cuda requested but not available; falling back to cpu" in capfd.readouterr().err


def test_auto_without_a_gpu_says_so(no_gpu, caplog):
    chosen = choose("auto", LARGE)
    assert (chosen.use.device, chosen.use.cuda_requested) == ("cpu", False)
    assert chosen.use.name
    assert told(chosen, caplog) == [("INFO", "auto: cpu, since there is no usable GPU")]


def test_cpu_as_asked_is_nothing_to_tell(gpu, caplog):
    chosen = choose("cpu", LARGE)
    assert (chosen.use.device, chosen.use.cuda_requested, chosen.use.reason) == ("cpu", False, "cpu as asked")
    assert told(chosen, caplog) == []


@pytest.mark.parametrize("asked", ["tpu", "CUDA", "", "cuda:0"])
def test_other_words_are_refused(no_gpu, asked):
    with pytest.raises(ValueError, match="choose one of auto, cuda, cpu"):
        choose(asked, LARGE)


@pytest.mark.parametrize(
    ("work", "device"),
    [
        (Work(64), "cpu"),
        (Work(256), "cpu"),
        (Work(1024), "cpu"),
        (Work(2048), "cuda"),
        (Work(4096), "cuda"),
        (Work(64, parameters=600_000), "cuda"),  # few environments, but nets that keep a GPU busy
        (Work(4096, minibatches=512), "cpu"),  # many environments, but learned from in crumbs
    ],
)
def test_auto_weighs_whether_a_gpu_pays(gpu, work, device):
    assert choose("auto", work).use.device == device


def test_auto_says_why(gpu, caplog):
    small = choose("auto", Work(64))
    said = (
        "auto: cpu, since 64 environments x 64 steps with nets of 10000 parameters are faster there "
        "(a GPU pays from about 1923 environments on); runner.device=cuda insists on the GPU"
    )
    assert told(small, caplog) == [("INFO", said)]
    assert "4096 environments x 64 steps" in choose("auto", LARGE).use.reason


def test_cuda_insists(gpu):
    chosen = choose("cuda", Work(64))
    assert (chosen.device, chosen.use.device, chosen.use.name) == (torch.device("cuda", 0), "cuda", "A GPU")
    assert (chosen.use.cuda_requested, chosen.warning) == (True, False)
    assert choose("auto", LARGE).use.cuda_requested is False


def test_on_a_gpu_it_is_as_repeatable_as_cuda_allows(gpu):
    torch.backends.cuda.matmul.allow_tf32 = True
    use = choose("cuda", LARGE).use
    assert (use.tf32, use.deterministic) == (False, True)
    assert torch.backends.cuda.matmul.allow_tf32 is False
    assert torch.are_deterministic_algorithms_enabled()
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
