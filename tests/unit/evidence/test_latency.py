from __future__ import annotations

import numpy as np
import pytest

from rlark.evidence.latency import control_latency_ms


def test_the_median_of_32_decisions_after_a_warm_up(monkeypatch):
    now, seen = [0.0], []

    def policy(observation: np.ndarray) -> None:
        seen.append(observation)
        slow = len(seen) == 1 or len(seen) > 30  # the warm-up, and three in the end
        now[0] += 5.0 if slow else 0.002

    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    assert control_latency_ms(policy, 8) == pytest.approx(2.0)
    assert len(seen) == 33
    assert {(one.shape, one.dtype) for one in seen} == {((1, 8), np.dtype(np.float32))}
