from __future__ import annotations

from rlark.spec.nearest import did_you_mean


def test_the_word_that_was_meant():
    assert did_you_mean("Replica", ["replicas", "image"]) == "replicas"
    assert did_you_mean("zzz", ["replicas"]) is None
