"""Label selectors."""

from __future__ import annotations

import pytest

from rlark.api.selector import parse
from rlark.errors import UsageError

LABELS = {"team": "nav", "rlark.io/tier": "gold", "empty": ""}


@pytest.mark.parametrize(
    ("text", "hits"),
    [
        ("", True),
        ("team=nav", True),
        ("team==nav", True),
        ("team=arm", False),
        ("team!=arm", True),
        ("other!=x", True),
        ("team", True),
        ("other", False),
        ("!other", True),
        ("! team", False),
        ("empty=", True),
        ("team in (arm, nav)", True),
        ("team notin (arm,nav)", False),
        ("other notin (x)", True),
        ("rlark.io/tier=gold,team=nav", True),
        (" team = nav , rlark.io/tier in (gold) ", True),
        ("team=nav,other", False),
        ("in=x", False),
    ],
)
def test_what_it_asks(text, hits):
    assert parse(text)(LABELS) is hits


@pytest.mark.parametrize("text", ["=", "a=b=c", "a b", "a in", "a in ()x", "a,,b", "(a)", "a=b;c", "a" * 3000, "é=1"])
def test_what_cannot_be_read(text):
    with pytest.raises(UsageError, match="labelSelector"):
        parse(text)
