"""Dynamics drawn anew for each episode, uniformly from the ranges of a task pack."""

from __future__ import annotations

from typing import NamedTuple

from engines.tasks.arrays import Array, library
from rlark.spec.dynamics import DomainRandomization, Envelope


class Dynamics(NamedTuple):
    """The dynamics of E episodes, each [E]; units as in `rlark.spec.dynamics.Envelope`."""

    motor_gain: Array
    lag_tau_seconds: Array
    gyro_noise_std_rad_sec: Array
    odom_noise_std_m: Array
    angular_bias_rad_sec: Array
    action_latency_steps: Array
    odom_dropout_prob: Array
    slip_scale: Array


class Ranges(NamedTuple):
    """Least and greatest value of each quantity, in the order of `Envelope`."""

    low: Envelope
    high: Envelope

    @property
    def max_latency(self) -> int:
        """The longest latency in control steps."""
        return self.high.action_latency_steps

    @property
    def drops_frames(self) -> bool:
        """True when a frame can get lost."""
        return self.high.odom_dropout_prob > 0


def training_ranges(randomization: DomainRandomization) -> Ranges:
    """What training draws from."""
    pairs = [getattr(randomization, name) for name in Envelope._fields]
    return Ranges(Envelope(*(low for low, _ in pairs)), Envelope(*(high for _, high in pairs)))


def fixed(envelope: Envelope) -> Ranges:
    """Always the same dynamics, as an evaluation has them."""
    return Ranges(envelope, envelope)


def draw(ranges: Ranges, uniform: Array) -> Dynamics:
    """Dynamics of E episodes from uniform numbers [8, E] in [0, 1).

    The latency is a whole number of control steps, each step of its range equally likely.
    """
    xp = library(uniform)
    low = xp.asarray(ranges.low, dtype=uniform.dtype)[:, None]
    span = xp.asarray(ranges.high, dtype=uniform.dtype)[:, None] - low
    rows = list(low + uniform * span)
    latency = Envelope._fields.index("action_latency_steps")
    steps = span[latency] + 1.0
    rows[latency] = low[latency] + xp.minimum(xp.floor(uniform[latency] * steps), span[latency])
    return Dynamics(*rows)


WIDTH = len(Envelope._fields)
"""Uniform numbers that `draw` takes for one episode."""
