from __future__ import annotations

import pytest

from rlark.evidence.intervals import wilson


@pytest.mark.parametrize(
    ("successes", "trials", "confidence", "low", "high"),
    [
        (0, 50, 0.95, 0.0, 0.0713),
        (35, 50, 0.95, 0.5625, 0.8090),
        (36, 50, 0.95, 0.5833, 0.8253),
        (42, 50, 0.95, 0.7149, 0.9166),
        (45, 50, 0.95, 0.7864, 0.9565),
        (50, 50, 0.95, 0.9287, 1.0),
        (1, 100, 0.95, 0.0018, 0.0545),
        (6, 6, 0.95, 0.6097, 1.0),
        (35, 50, 0.90, 0.5854, 0.7941),
        (35, 50, 0.99, 0.5180, 0.8352),
    ],
)
def test_agrees_with_published_values(successes, trials, confidence, low, high):
    assert wilson(successes, trials, confidence) == pytest.approx((low, high), abs=1e-4)


def test_no_trial_no_interval():
    assert wilson(0, 0) is None


@pytest.mark.parametrize(("successes", "trials", "confidence"), [(3, 2, 0.95), (-1, 2, 0.95), (1, 2, 0.42)])
def test_refuses_what_cannot_be(successes, trials, confidence):
    with pytest.raises(ValueError, match=r"confidence level|cannot be"):
        wilson(successes, trials, confidence)
