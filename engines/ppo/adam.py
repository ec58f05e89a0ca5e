"""Adam (Kingma and Ba 2015) on one flat vector."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor


class Adam:
    """Adam's moments for a flat vector of parameters."""

    def __init__(self, flat: Tensor, *, beta1: float = 0.9, beta2: float = 0.999, epsilon: float = 1e-5) -> None:
        """Nothing averaged yet."""
        self._flat = flat
        self._beta1, self._beta2, self._epsilon = beta1, beta2, epsilon
        self._first, self._second = torch.zeros_like(flat), torch.zeros_like(flat)
        self._scratch = torch.empty_like(flat)
        self._steps = 0

    def step(self, gradient: Tensor, lr: float) -> None:
        """One step down the gradient [count]."""
        self._steps += 1
        self._first.lerp_(gradient, 1.0 - self._beta1)
        self._second.mul_(self._beta2).addcmul_(gradient, gradient, value=1.0 - self._beta2)
        torch.sqrt(self._second, out=self._scratch)
        self._scratch.div_(math.sqrt(1.0 - self._beta2**self._steps)).add_(self._epsilon)
        self._flat.addcdiv_(self._first, self._scratch, value=-lr / (1.0 - self._beta1**self._steps))

    @property
    def moments(self) -> tuple[Tensor, Tensor]:
        """Both moments, each as the vector of parameters."""
        return self._first, self._second

    @property
    def scratch(self) -> Tensor:
        """What only means something during a step."""
        return self._scratch

    def state(self) -> dict[str, Any]:
        """Everything needed to continue exactly here."""
        return {
            "steps": self._steps,
            "first": self._first.cpu().numpy().copy(),
            "second": self._second.cpu().numpy().copy(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from there."""
        self._steps = int(state["steps"])
        self._first.copy_(torch.as_tensor(state["first"]))
        self._second.copy_(torch.as_tensor(state["second"]))
