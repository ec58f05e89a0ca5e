"""Running mean and variance of observations, and the snapshot that a whole iteration shares."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engines.ppo.moments import Moments
from rlark.runtime.component import ALONE, Team

CLIP = 10.0
"""Normalised observations are clamped to ±this."""
LEAST_STD = 1e-2
"""A component that hardly varies is not blown up beyond its noise."""


class Scaling(NamedTuple):
    """A fixed normaliser.

    Attributes:
        mean: [O] float32.
        std: [O] float32.
    """

    mean: NDArray[np.float32]
    std: NDArray[np.float32]

    def apply(self, observation: NDArray[np.float32], out: NDArray[np.float32] | None = None) -> NDArray[np.float32]:
        """Normalised observations [..., O], clamped to ±10; written to `out` where given."""
        scaled = np.subtract(observation, self.mean, out=out)
        np.divide(scaled, self.std, out=scaled)
        np.maximum(scaled, -CLIP, out=scaled)
        return np.minimum(scaled, CLIP, out=scaled)


class Normaliser:
    """Mean and variance over all observations so far, merged batch by batch in float64 (Chan et al. 1979)."""

    def __init__(self, size: int, *, enabled: bool, team: Team = ALONE) -> None:
        """Nothing seen yet; a disabled one stays the identity. What the ranks of a team see counts together."""
        self._enabled, self._team = enabled, team
        self._count = 0.0
        self._mean = np.zeros(size)
        self._square = np.zeros(size)

    def update(self, observation: NDArray[np.float32]) -> None:
        """Take in observations [..., O]."""
        if not self._enabled:
            return
        batch = Moments.of(observation.reshape(-1, observation.shape[-1])).over(self._team)
        count, mean, square = batch
        total, delta = self._count + count, mean - self._mean
        self._square += square + np.square(delta) * (self._count * count / total)
        self._mean += delta * (count / total)
        self._count = total

    def snapshot(self) -> Scaling:
        """The normaliser as it stands, fixed; the identity before the first update."""
        if not self._count:
            return Scaling(np.zeros(len(self._mean), np.float32), np.ones(len(self._mean), np.float32))
        std = np.maximum(np.sqrt(self._square / self._count), LEAST_STD)
        return Scaling(self._mean.astype(np.float32), std.astype(np.float32))

    def state(self) -> dict[str, Any]:
        """Everything needed to continue exactly here."""
        return {"count": self._count, "mean": self._mean.copy(), "square": self._square.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from there."""
        self._count = float(state["count"])
        self._mean, self._square = np.array(state["mean"]), np.array(state["square"])
