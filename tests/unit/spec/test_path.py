from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlark.spec.path import child, join, steps, within

KEYS = st.lists(st.text(min_size=1, max_size=8) | st.integers(0, 99), max_size=5)


@given(KEYS)
def test_steps_undo_join(keys):
    assert steps(join("", keys)) == keys


def test_child():
    assert child("", "spec") == "spec"
    assert child("spec.tasks", 0) == "spec.tasks[0]"
    assert child("metadata.labels", "rlark.io/x") == 'metadata.labels["rlark.io/x"]'


@pytest.mark.parametrize(
    ("path", "parent", "inside"),
    [
        ("a.b", "a", True),
        ("a", "a", True),
        ("a[0].b", "a", True),
        ("ab", "a", False),
        ("a", "a.b", False),
        ("a", "", True),
        ('a["x"]', "a", True),
    ],
)
def test_within(path, parent, inside):
    assert within(path, parent) is inside
