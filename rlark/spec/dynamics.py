"""How a task's dynamics vary: the ranges that training draws from, and the fixed draws of the evaluation."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, Strict

from rlark.model import Written
from rlark.spec.bounds import NotNegativeRange, PositiveRange, PositiveShareRange, Range, ShareRange, ascending


class Envelope(NamedTuple):
    """One fixed draw of the randomised dynamics, in the order of the vectors in a pack.

    What each number means, and its unit, stands at `DomainRandomization`.
    """

    motor_gain: float
    lag_tau_seconds: float
    gyro_noise_std_rad_sec: float
    odom_noise_std_m: float
    angular_bias_rad_sec: float
    action_latency_steps: int
    odom_dropout_prob: float
    slip_scale: float


def _whole_steps(pair: object) -> object:
    """Refuse a fractional latency in words of the field, before pydantic speaks of integers."""
    if isinstance(pair, list | tuple) and any(isinstance(step, float) and not step.is_integer() for step in pair):
        raise ValueError(f"latency is counted in whole control steps, and {list(pair)} has a fraction")
    return pair


def _envelope(values: object) -> object:
    """Read a vector of 8 numbers, or of 6 in the older form (no dropout, no slip)."""
    if isinstance(values, Envelope) or not isinstance(values, list | tuple):
        return values
    if len(values) not in {6, 8}:
        raise ValueError(
            f"an envelope has 8 numbers, or 6 in the older form (no dropout, slip 1); here are {len(values)}"
        )
    full = [*values, 0.0, 1.0] if len(values) == 6 else list(values)
    latency = full[5]
    whole = isinstance(latency, int) and not isinstance(latency, bool)
    if not (whole or (isinstance(latency, float) and latency.is_integer())) or latency < 0:
        raise ValueError(f"number 6 of an envelope is the latency in whole steps, at least 0; here it is {latency!r}")
    full[5] = int(latency)
    return Envelope(*full)


def _possible(envelope: Envelope) -> Envelope:
    checks = (
        (envelope.motor_gain > 0, "number 1, the motor gain, is above 0"),
        (envelope.lag_tau_seconds >= 0, "number 2, the lag in seconds, is at least 0"),
        (envelope.gyro_noise_std_rad_sec >= 0, "number 3, the gyro noise, is at least 0"),
        (envelope.odom_noise_std_m >= 0, "number 4, the odometry noise, is at least 0"),
        (0 <= envelope.odom_dropout_prob <= 1, "number 7, the dropout probability, is between 0 and 1"),
        (0 < envelope.slip_scale <= 1, "number 8, the slip scale, is above 0 and at most 1"),
    )
    wrong = [text for holds, text in checks if not holds]
    if wrong:
        raise ValueError(f"in the envelope {list(envelope)}: {'; '.join(wrong)}")
    return envelope


Steps = Annotated[int, Field(ge=0)]
StepRange = Annotated[tuple[Steps, Steps], Strict(False), BeforeValidator(_whole_steps), AfterValidator(ascending)]
EnvelopeVector = Annotated[Envelope, BeforeValidator(_envelope), AfterValidator(_possible)]


class EvalEnvelopes(Written):
    """The fixed dynamics of the evaluation.

    Attributes:
        nominal: as the robot should be; the quality gate looks at this one.
        hard: as bad as it may become.
    """

    nominal: EnvelopeVector = Field(examples=[[1, 0.1, 0.01, 0.005, 0, 1, 0, 1]])
    hard: EnvelopeVector = Field(examples=[[0.8, 0.25, 0.02, 0.05, 0.05, 2, 0.05, 0.8]])


class DomainRandomization(Written):
    """Ranges of the dynamics, drawn uniformly for each episode.

    Attributes:
        motor_gain: factor on the commanded velocity.
        lag_tau_seconds: time constant of the first-order velocity lag, s.
        gyro_noise_std_rad_sec: standard deviation of the gyro's noise, rad/s.
        odom_noise_std_m: standard deviation of the odometry's noise on x and y, m.
        angular_bias_rad_sec: constant yaw rate the odometry does not see, rad/s.
        action_latency_steps: control steps between a command and its effect.
        odom_dropout_prob: probability that a frame repeats the one before it.
        slip_scale: share of the wheels' speed that moves the robot.
        eval_envelopes: the fixed dynamics of the evaluation.
    """

    motor_gain: PositiveRange = (1.0, 1.0)
    lag_tau_seconds: NotNegativeRange = (0.05, 0.05)
    gyro_noise_std_rad_sec: NotNegativeRange = (0.0, 0.0)
    odom_noise_std_m: NotNegativeRange = (0.0, 0.0)
    angular_bias_rad_sec: Range = (0.0, 0.0)
    action_latency_steps: StepRange = (0, 0)
    odom_dropout_prob: ShareRange = (0.0, 0.0)
    slip_scale: PositiveShareRange = (1.0, 1.0)
    eval_envelopes: EvalEnvelopes
