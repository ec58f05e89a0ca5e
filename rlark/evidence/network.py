"""A policy as arrays: what is written to ONNX, and what the file must agree with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class Network:
    """A deterministic policy with its normaliser.

    Attributes:
        mean: [O], subtracted from the observation.
        std: [O], what the difference is divided by.
        clip: the normalised observation is clamped to ± this.
        layers: (weight [out, in], bias [out]) of every layer; the last one is linear.
        hidden: what stands between the layers.
        squash: how the last layer becomes an action in [-1, 1].
    """

    mean: Floats
    std: Floats
    clip: float
    layers: Sequence[tuple[Floats, Floats]]
    hidden: Literal["tanh", "relu"] = "tanh"
    squash: Literal["clip", "tanh"] = "clip"

    def exact(self, observation: Floats) -> Doubles:
        """Actions [B, A] for observations [B, O], computed in float64 from the float32 parameters."""
        seen: Doubles = (observation.astype(np.float64) - self.mean) / self.std
        here = np.clip(seen, -self.clip, self.clip)
        for index, (weight, bias) in enumerate(self.layers):
            if index:
                here = np.tanh(here) if self.hidden == "tanh" else np.maximum(here, 0.0)
            here = here @ weight.T.astype(np.float64) + bias
        return np.tanh(here) if self.squash == "tanh" else np.clip(here, -1.0, 1.0)
