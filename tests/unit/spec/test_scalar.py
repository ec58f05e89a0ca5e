"""What YAML 1.1 makes of plain scalars."""

from __future__ import annotations

import copy
import pickle

import pytest
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st

from rlark.spec.scalar import Unquoted, yaml11_surprise


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1:0", 60),
        ("1:30", 90),
        ("-1:30", -90),
        ("12:3:4", 43384),
        ("1:30.5", 90.5),
        ("010", 8),
        ("07", 7),
        ("1_0", 10),
        ("1_000.5", 1000.5),
        ("0x3", 3),
        ("-0x1F", -31),
        ("0b11", 3),
        ("yes", True),
        ("Off", False),
        ("ON", True),
    ],
)
def test_a_surprise_is_told_with_its_value(text, value):
    found = yaml11_surprise(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("text", ["08", "0o17"])
def test_a_number_of_yaml_1_2_only_is_text_to_yaml_1_1(text):
    assert yaml11_surprise(text) == text == yaml.safe_load(text)


@pytest.mark.parametrize(
    "text", ["", "0", "10", "-3", "1.5", "0:0", "0-3", "1:0-1", "1:60", "true", "null", "~", "oFF", "no-one", "0x", "+"]
)
def test_what_both_read_alike_is_no_surprise(text):
    assert yaml11_surprise(text) is None


def test_a_scalar_of_absurd_length_is_left_alone():
    assert yaml11_surprise("0" * 5000) is None


@given(st.from_regex(r"[-+]?[0-9][0-9_:.xobA-F]{0,8}", fullmatch=True))
def test_every_surprise_is_what_a_yaml_1_1_loader_reads(text):
    try:
        read = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, OverflowError):
        assume(False)
    found = yaml11_surprise(text)
    if found is not None:
        assert found == read
    elif isinstance(read, int):
        assert int(text) == read  # read alike by YAML 1.2
    elif isinstance(read, float):
        assert float(text) == read


def test_an_unquoted_scalar_is_its_text_and_remembers_the_other_reading():
    scalar = Unquoted("1:0", 60)
    assert scalar == "1:0"
    assert isinstance(scalar, str)
    for copied in (copy.deepcopy(scalar), pickle.loads(pickle.dumps(scalar))):
        assert (copied, copied.reads_as) == ("1:0", 60)
