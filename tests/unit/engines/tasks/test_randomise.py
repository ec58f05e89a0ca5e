from __future__ import annotations

import numpy as np
import pytest

from engines.tasks.randomise import WIDTH, draw, fixed, training_ranges
from rlark.spec.dynamics import DomainRandomization, Envelope

UNIFORM = np.random.default_rng(0).random((WIDTH, 20_000))


def test_draws_stay_in_their_ranges_and_fill_them(pack):
    ranges = training_ranges(pack.domain_randomization)
    drawn = draw(ranges, UNIFORM)
    for name in Envelope._fields:
        low, high, values = getattr(ranges.low, name), getattr(ranges.high, name), getattr(drawn, name)
        assert low <= values.min() <= low + 0.01 * (high - low)
        assert high - 0.01 * (high - low) <= values.max() <= high


def test_latency_is_whole_and_each_step_equally_likely(pack):
    latency = draw(training_ranges(pack.domain_randomization), UNIFORM).action_latency_steps
    steps, counts = np.unique(latency, return_counts=True)
    assert list(steps) == [0, 1, 2]
    np.testing.assert_allclose(counts / len(latency), 1 / 3, atol=0.02)


def test_the_greatest_uniform_number_stays_in_range(pack):
    ranges = training_ranges(pack.domain_randomization)
    drawn = draw(ranges, np.full((WIDTH, 1), np.nextafter(1.0, 0.0)))
    assert drawn.action_latency_steps[0] == 2


def test_a_fixed_envelope_is_always_the_same(pack):
    envelope = pack.domain_randomization.eval_envelopes.hard
    drawn = draw(fixed(envelope), UNIFORM[:, :5])
    for name in Envelope._fields:
        assert (getattr(drawn, name) == getattr(envelope, name)).all()


def test_six_values_mean_no_dropout_and_no_slip(make_pack):
    short = make_pack().domain_randomization.model_dump(mode="json", by_alias=True)
    short["evalEnvelopes"] = {"nominal": [1, 0.1, 0, 0, 0, 1], "hard": [1, 0.1, 0, 0, 0, 1]}
    nominal = DomainRandomization.model_validate(short).eval_envelopes.nominal
    assert (nominal.odom_dropout_prob, nominal.slip_scale) == (0.0, 1.0)


def test_a_fraction_of_a_step_is_refused(make_pack):
    with pytest.raises(ValueError, match="whole"):
        make_pack(ranges={"actionLatencySteps": [0, 1.5]})
