"""Which device computes, and an honest word when it is another than was asked for."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import NamedTuple

import torch

from rlark.host.device import report
from rlark.runtime.component import DeviceUse

ASKED = ("auto", "cuda", "cpu")
GPU_PAYS = 2e8
"""Multiply-adds between two launches from which on a GPU no longer waits for its own launches longer than a CPU
computes: 2,048 environments with nets of 64 by 64 units. It is an estimate; `cuda` and `cpu` overrule it."""
BACKWARD = 3
"""A forward and a backward pass take about this many times a forward pass alone."""


class Work(NamedTuple):
    """The size of one iteration.

    Attributes:
        num_envs: environments over all ranks (N).
        steps: control steps of a rollout (T).
        parameters: of all nets.
        epochs: passes over the rollout.
        minibatches: optimiser steps of one pass.
    """

    num_envs: int
    steps: int = 64
    parameters: int = 10_000
    epochs: int = 4
    minibatches: int = 4

    @property
    def per_launch(self) -> float:
        """Multiply-adds of an iteration over its control steps and optimiser steps, each of which is launched anew."""
        passes = self.num_envs * self.steps * (1 + BACKWARD * self.epochs)
        return passes * self.parameters / (self.steps + self.epochs * self.minibatches)

    def __str__(self) -> str:
        """The size in words."""
        return f"{self.num_envs} environments x {self.steps} steps with nets of {self.parameters} parameters"


class Chosen(NamedTuple):
    """A device and how it came about.

    Attributes:
        device: for torch.
        use: for the result, with the reason.
        warning: True when it is not what was asked for.
    """

    device: torch.device
    use: DeviceUse
    warning: bool = False

    def tell(self, log: logging.Logger) -> None:
        """Log the reason, where there was something to choose."""
        if self.warning:
            log.warning(self.use.reason)
        elif self.use.reason.startswith("auto"):
            log.info(self.use.reason)


def choose(asked: str, work: Work) -> Chosen:
    """The device for an iteration of this size.

    Args:
        asked: `auto`, `cuda` or `cpu`.
        work: what there is to compute; `auto` takes a GPU only where it pays.

    Raises:
        ValueError: another word.
    """
    if asked not in ASKED:
        raise ValueError(f"the device {asked!r} is not known; choose one of {', '.join(ASKED)}")
    if asked == "cpu":
        return _cpu("cpu as asked", cuda_requested=False)
    available = torch.cuda.is_available()
    if asked == "cuda":
        if available:
            return _cuda("cuda as asked", cuda_requested=True)
        return _cpu("cuda requested but not available; falling back to cpu", cuda_requested=True)
    if not available:
        return _cpu("auto: cpu, since there is no usable GPU", cuda_requested=False)
    if work.per_launch >= GPU_PAYS:
        return _cuda(f"auto: cuda, since {work} are enough for a GPU", cuda_requested=False)
    envs = max(1, round(work.num_envs * GPU_PAYS / work.per_launch))
    return _cpu(
        f"auto: cpu, since {work} are faster there (a GPU pays from about {envs} environments on); "
        "runner.device=cuda insists on the GPU",
        cuda_requested=False,
    )


def _cpu(reason: str, *, cuda_requested: bool) -> Chosen:
    name = report(Path.cwd()).cpu or "CPU"
    use = DeviceUse("cpu", name, cuda_requested, reason)
    return Chosen(torch.device("cpu"), use, warning=cuda_requested)


def _cuda(reason: str, *, cuda_requested: bool) -> Chosen:
    """As repeatable as CUDA allows: no TF32, deterministic kernels where there are any."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when the first product is computed
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    use = DeviceUse(
        "cuda",
        torch.cuda.get_device_name(0),
        cuda_requested,
        reason,
        tf32=torch.backends.cuda.matmul.allow_tf32,
        deterministic=torch.are_deterministic_algorithms_enabled(),
    )
    return Chosen(torch.device("cuda", 0), use)
