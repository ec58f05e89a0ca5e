"""How sure a rate is: the Wilson score interval."""

from __future__ import annotations

import math

Z_SCORES = {0.90: 1.644854, 0.95: 1.959964, 0.99: 2.575829}
"""Two-sided normal quantiles by confidence level."""


def wilson(successes: int, trials: int, confidence: float = 0.95) -> tuple[float, float] | None:
    """The interval that a rate lies in (Wilson 1927).

    Args:
        successes: how often it happened.
        trials: how often it was tried.
        confidence: 0.90, 0.95 or 0.99.

    Returns:
        The lower and upper bound, or None without a trial.

    Raises:
        ValueError: another confidence, or more successes than trials, or fewer than none.
    """
    if confidence not in Z_SCORES:
        known = ", ".join(f"{level:.2f}" for level in Z_SCORES)
        raise ValueError(f"confidence level {confidence} is not offered; choose one of {known}")
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes in {trials} trials cannot be: successes lie between 0 and the trials")
    if trials == 0:
        return None
    z = Z_SCORES[confidence]
    rate, spread = successes / trials, z * z / trials
    centre = rate + spread / 2.0
    margin = z * math.sqrt(rate * (1.0 - rate) / trials + spread / (4.0 * trials))
    return max(0.0, (centre - margin) / (1.0 + spread)), min(1.0, (centre + margin) / (1.0 + spread))
