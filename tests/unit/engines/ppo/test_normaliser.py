from __future__ import annotations

import numpy as np

from engines.ppo.normaliser import Normaliser, Scaling


def test_merging_batches_gives_the_statistics_of_all():
    rng = np.random.default_rng(0)
    batches = [rng.normal(5, 3, (n, 4, 3)).astype(np.float32) for n in (1, 7, 100)]
    normaliser = Normaliser(3, enabled=True)
    for batch in batches:
        normaliser.update(batch)
    everything = np.concatenate(batches).reshape(-1, 3).astype(np.float64)
    snapshot = normaliser.snapshot()
    np.testing.assert_allclose(snapshot.mean, everything.mean(0), rtol=1e-6)
    np.testing.assert_allclose(snapshot.std, everything.std(0), rtol=1e-6)


def test_counts_beyond_what_float32_can_count():
    normaliser = Normaliser(1, enabled=True)
    normaliser.update(np.zeros((4, 1), np.float32))
    normaliser.restore({**normaliser.state(), "count": 2.0**25})
    normaliser.update(np.ones((1, 1), np.float32))
    assert normaliser.state()["count"] == 2.0**25 + 1


def test_far_from_zero_nothing_is_lost():
    normaliser = Normaliser(1, enabled=True)
    values = (1000 + np.random.default_rng(0).normal(0, 0.1, (1000, 1))).astype(np.float32)
    for part in np.split(values, 10):
        normaliser.update(part)
    np.testing.assert_allclose(normaliser.snapshot().std, values.astype(np.float64).std(0), rtol=1e-5)


def test_is_the_identity_before_the_first_update_and_when_disabled():
    for enabled in (True, False):
        normaliser = Normaliser(2, enabled=enabled)
        if not enabled:
            normaliser.update(np.full((5, 2), 7.0, np.float32))
        np.testing.assert_array_equal(normaliser.snapshot().apply(np.array([[3.0, -4.0]], np.float32)), [[3.0, -4.0]])


def test_a_snapshot_stays_as_it_is():
    normaliser = Normaliser(2, enabled=True)
    normaliser.update(np.ones((5, 2), np.float32))
    snapshot = normaliser.snapshot()
    before = Scaling(snapshot.mean.copy(), snapshot.std.copy())
    normaliser.update(np.full((50, 2), 9.0, np.float32))
    np.testing.assert_array_equal(np.stack(snapshot), np.stack(before))


def test_constant_components_do_not_explode_and_values_are_clamped():
    normaliser = Normaliser(1, enabled=True)
    normaliser.update(np.full((100, 1), -1.0, np.float32))
    scaling = normaliser.snapshot()
    assert scaling.std[0] == np.float32(0.01)
    np.testing.assert_array_equal(scaling.apply(np.array([[-1.0], [5.0], [-5.0]], np.float32)), [[0], [10], [-10]])


def test_writes_where_it_is_told_to():
    out = np.empty((2, 1), np.float32)
    found = Scaling(np.ones(1, np.float32), np.full(1, 2.0, np.float32)).apply(
        np.array([[3.0], [5.0]], np.float32), out=out
    )
    assert found is out
    np.testing.assert_array_equal(out, [[1.0], [2.0]])
