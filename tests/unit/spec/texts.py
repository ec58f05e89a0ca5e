"""Texts and values that readers of YAML take for something else, for property tests."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

LIKE_OTHER_TYPES = [
    "y",
    "n",
    "yes",
    "NO",
    "on",
    "Off",
    "true",
    "False",
    "null",
    "~",
    "010",
    "08",
    "1:30",
    "0x1f",
    "0b1",
    "1_0",
    "0o7",
    "1e5",
    "1.5",
    ".5",
    "5.",
    "+1",
    "-1",
    ".inf",
    ".nan",
    "2024-01-01",
    "2024-01-01T00:00:00Z",
    "4Gi",
    "2h",
    "0-3",
    "0-3:0-1",
    "<<",
    "=",
    "-",
    "?",
    ":",
    "#",
    "!",
    "&",
    "*",
    "|",
    ">",
    "%",
    "@",
    "`",
    "'",
    '"',
    "---",
    "...",
    "{}",
    "[]",
    "a:",
    "b",
    "#c",
]
LINES = st.text(
    st.sampled_from(list(" \t\n#-:'\"|>%@`{}[]&*!,?ab0~\r\x85\u2028\ufeffä训\U0001f600\x07\\=<.")), max_size=12
)
TEXTS = LINES | st.text(max_size=8).filter(lambda text: "\0" not in text) | st.sampled_from(LIKE_OTHER_TYPES)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
FINITE = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)


def same(left: Any, right: Any) -> bool:
    """Equal in value, type and order."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    return left == right or (isinstance(left, float) and math.isnan(left) and math.isnan(right))
