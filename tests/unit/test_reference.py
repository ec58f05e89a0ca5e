from __future__ import annotations

import pytest

from rlark.reference import slug, valid_reference


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("artifact://a", True),
        ("artifact://starter/m/1.0.0/policy.onnx", True),
        ("artifact://" + "/".join("abcdefghi"), True),
        ("artifact://" + "/".join("abcdefghij"), False),
        ("http://x", False),
        ("artifact://", False),
        ("artifact:///x", False),
        ("artifact://a/../b", False),
        ("artifact://a b", False),
        ("artifact://a\n", False),
        ("artifact://" + "a" * 64, True),
        ("artifact://" + "a" * 65, False),
        ("artifact://a/" + "b" * 120, True),
        ("artifact://a/" + "b" * 121, False),
        (None, False),
    ],
)
def test_references(text, valid):
    assert valid_reference(text) is valid


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("starter-ppo-balance", "starter-ppo-balance"),
        ("1.0.0", "1.0.0"),
        ("My Model (new)", "My-Model-new-"),
        ("../..", "unnamed"),
        ("$(touch /tmp/pwn)", "touch-tmp-pwn-"),
        ("鸭", "unnamed"),
        ("m" * 60, "m" * 48),
    ],
)
def test_any_name_becomes_a_part_of_a_reference(name, part):
    assert slug(name) == part
    assert valid_reference(f"artifact://starter/{slug(name)}")
