"""How long a policy takes for one decision."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

TIMED_RUNS = 32


def control_latency_ms(policy: Callable[[NDArray[np.float32]], Any], observation_size: int) -> float:
    """Median time of one decision for one observation, ms, after a warm-up.

    Args:
        policy: observations [1, O] to actions; it sees to its own threads.
        observation_size: O.
    """
    observation = np.zeros((1, observation_size), np.float32)
    policy(observation)
    times = []
    for _ in range(TIMED_RUNS):
        began = time.perf_counter()
        policy(observation)
        times.append(time.perf_counter() - began)
    return round(1000.0 * median(times), 3)
