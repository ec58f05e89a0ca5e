"""Which device computes, and an honest word when it is another than was asked for."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

import torch

from rlark.host.device import report
from rlark.runtime.component import DeviceUse

GPU_ENVIRONMENTS = 2048
"""With fewer environments a GPU waits for its own launches longer than a CPU computes."""


class Chosen(NamedTuple):
    """A device and how it came about.

    Attributes:
        device: for torch.
        use: for the result.
        note: a sentence where the choice may surprise; empty otherwise.
    """

    device: torch.device
    use: DeviceUse
    note: str

    def tell(self, log: logging.Logger) -> None:
        """Log the note: a warning when it is not what was asked for."""
        if self.note:
            log.log(logging.WARNING if self.use.cuda_requested else logging.INFO, self.note)


def choose(asked: str, num_envs: int) -> Chosen:
    """The device for nets of this engine's size.

    Args:
        asked: `auto`, `cuda` or `cpu`.
        num_envs: environments over all ranks.
    """
    available, requested, note = torch.cuda.is_available(), asked == "cuda", ""
    if available and (requested or (asked == "auto" and num_envs >= GPU_ENVIRONMENTS)):
        _deterministic_cuda()
        return Chosen(torch.device("cuda"), DeviceUse("cuda", torch.cuda.get_device_name(0), requested), note)
    if requested:
        note = "cuda requested but not available; falling back to cpu"
    elif asked == "auto" and available:
        note = (
            f"auto: {num_envs} environments are faster on the CPU (a GPU pays from {GPU_ENVIRONMENTS} on); "
            "runner.device=cuda insists"
        )
    return Chosen(torch.device("cpu"), DeviceUse("cpu", report(Path.cwd()).cpu or "CPU", requested), note)


def _deterministic_cuda() -> None:
    """As repeatable as CUDA allows: no TF32, deterministic kernels where there are any."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)
