from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rlark.evidence.network import Network


def network(seed: int = 0, *, width: int = 16, **other: str) -> Network:
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return (0.3 * rng.normal(size=shape)).astype(np.float32)

    layers = [(normal(width, 8), normal(width)), (normal(width, width), normal(width)), (normal(2, width), normal(2))]
    return Network(normal(8), np.abs(normal(8)) + 0.1, 10.0, layers, **other)


@pytest.fixture(scope="session")
def make_network() -> Callable[..., Network]:
    """A policy with random parameters: 8 observations, 2 actions."""
    return network
