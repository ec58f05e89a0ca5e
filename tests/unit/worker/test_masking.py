"""What counts as a secret's form, and that a line is never cut within one."""

from __future__ import annotations

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlark.redactor import Redactor, forms
from rlark.worker.capture import LONGEST, Splitter
from rlark.worker.outcome import Outcome

text = st.text(st.characters(blacklist_categories=("Cs", "Cc")), min_size=4, max_size=40).filter(
    lambda value: len(value.strip()) >= 4
)


@settings(max_examples=150, deadline=None)
@given(text, st.binary(max_size=5), st.binary(max_size=5))
def test_no_encoding_of_a_secret_gets_through(value, before, after):
    mask = Redactor(forms(value))
    for shown in (value, json.dumps(value)[1:-1], repr(value)[1:-1], quote(value), quote(value, ""), quote_plus(value)):
        assert mask(f"<{shown}>") == "<***>"
    encoded = base64.b64encode(value.encode()).decode()
    for shown in (encoded, value.encode().hex(), value.encode().hex().upper()):
        assert mask(f"<{shown}>") == "<***>"
    within = base64.b64encode(before + value.encode() + after).decode()
    if len(value.encode()) >= 9:
        assert encoded[2:-4] not in mask(within)
        assert "***" in mask(within)


def test_of_several_lines_each_is_hidden_and_wrapped_base64_too():
    value = "first line\n  second line\n" + "third" * 40 + "\nab"
    mask = Redactor(forms(value))
    assert mask("- second line -") == "- *** -"
    assert mask("ab") == "ab"  # too short: hiding it would eat the log
    wrapped = base64.encodebytes(value.encode()).decode()
    assert set(mask(wrapped).split()) == {"***"}


def test_a_json_value_is_masked_in_its_texts():
    mask = Redactor(["secret"])
    value = {"secret": ["a secret", {"n": 1, "t": ("secret",)}, None, True]}
    assert mask.tree(value) == {"secret": ["a ***", {"n": 1, "t": ("***",)}, None, True]}
    assert bool(mask)
    assert not Redactor(["abc"])


@pytest.mark.parametrize("at", [LONGEST - 12, LONGEST - 5, LONGEST - 1, LONGEST, LONGEST + 3])
@pytest.mark.parametrize("chunk", [1 << 16, 1000])
def test_a_long_line_is_cut_beside_a_secret(at, chunk):
    secret = "0123456789ab"
    data = b"x" * at + secret.encode() + b"y" * 2 * LONGEST + b"\n"
    splitter = Splitter(Redactor([secret]))
    lines = [line for i in range(0, len(data), chunk) for line in splitter.feed(data[i : i + chunk])]
    lines += splitter.finish()
    assert "".join(lines).encode() + b"\n" == data
    assert [line.count(secret) for line in lines if secret in line] == [1]
    assert len(lines) >= 3
    assert all(len(line) <= 2 * LONGEST + len(secret) for line in lines)


def test_secrets_that_overlap_are_both_left_whole():
    mask = Redactor(["abcdef", "efghij"])
    data = b"x" * 100 + b"abcdefghij" + b"y" * 100
    for at in range(95, 115):
        cut = mask.place_to_cut(data, at)
        assert cut <= at
        for secret in (b"abcdef", b"efghij"):
            assert (data[:cut] + b"|" + data[cut:]).count(secret) == data.count(secret)


def test_an_outcome_is_told_without_secrets():
    outcome = Outcome(False, "RunFailed", "no secret", 1, cause={"message": "a secret"}, survivors=("7 (x secret)",))
    told = outcome.masked(Redactor(["secret"]))
    assert (told.message, told.cause, told.survivors) == ("no ***", {"message": "a ***"}, ("7 (x ***)",))
    assert told.exit_code == 1
