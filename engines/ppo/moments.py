"""Means and variances of parts, merged into those of the whole (Chan, Golub and LeVeque 1979)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlark.runtime.component import Doubles, Team


class Moments(NamedTuple):
    """Of one part.

    Attributes:
        number: how many values.
        mean: [k].
        square: [k], sum of squared differences from the mean.
    """

    number: float
    mean: Doubles
    square: Doubles

    @classmethod
    def of(cls, values: NDArray[np.floating]) -> Moments:
        """Those of values [n, k], in float64."""
        exact = values.astype(np.float64)
        mean = exact.mean(axis=0)
        return cls(float(len(exact)), mean, np.square(exact - mean).sum(axis=0))

    def merged(self, other: Moments) -> Moments:
        """Those of both parts."""
        total, delta = self.number + other.number, other.mean - self.mean
        square = self.square + (other.square + np.square(delta) * (self.number * other.number / total))
        return Moments(total, self.mean + delta * (other.number / total), square)

    def over(self, team: Team) -> Moments:
        """Those of the parts of all ranks, merged in the order of their numbers: the same on each."""
        if team.size == 1:
            return self
        size = len(self.mean)
        rows = team.gather(np.concatenate(([self.number], self.mean, self.square)))
        parts = [Moments(float(row[0]), row[1 : 1 + size], row[1 + size :]) for row in rows]
        merged = parts[0]
        for part in parts[1:]:
            merged = merged.merged(part)
        return merged
