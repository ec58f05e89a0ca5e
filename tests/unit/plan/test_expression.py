"""The grammar of a placement, and the carets under what is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlark.plan.expression import MAX_PROCESSES, blocks, parse, relations, show


def faults(text, total=8):
    parts, found = parse(text)
    return found + relations(parts, total, "GPU", whole=not found)


def marked(text, total=8):
    """code -> the characters that its caret stands under."""
    return {fault.code: text[fault.start : fault.end] for fault in faults(text, total)}


@pytest.mark.parametrize(
    ("text", "total", "expected"),
    [
        ("all", 2, [(0,), (1,)]),
        (" ALL ", 2, [(0,), (1,)]),
        ("3", 8, [(3,)]),
        ("0-7:0", 8, [tuple(range(8))]),
        ("0-3:0-1,4-7", 8, [(0, 1), (2, 3), (4,), (5,), (6,), (7,)]),
        ("0:0-1, 1:2-4", 2, [(0,), (0,), (1,), (1,), (1,)]),
        ("all:0-3", 2, [(0,), (0,), (1,), (1,)]),
        ("007", 8, [(7,)]),
        ("0 - 1 : 0 - 3", 2, [(0,), (0,), (1,), (1,)]),
        ("0-1\n", 2, [(0,), (1,)]),
    ],
)
def test_each_process_gets_its_block(text, total, expected):
    assert faults(text, total) == []
    assert blocks(parse(text)[0], total) == expected


@pytest.mark.parametrize(
    ("text", "code", "under"),
    [
        ("", "RL101", ""),
        (" , ", "RL101", " , "),
        ("0, 0:0:0", "RL102", "0:0:0"),
        ("0-3: all", "RL103", "all"),
        (f"0:0-{MAX_PROCESSES}", "RL104", f"0-{MAX_PROCESSES}"),
        (":0-3", "RL105", ":"),
        ("0-3:", "RL105", ""),
        ("0, -1", "RL106", "-1"),
        ("0x3", "RL106", "0x3"),
        ("1_0", "RL106", "1_0"),
        ("0;1", "RL106", "0;1"),
        ("[0]", "RL106", "[0]"),
        ("1.5", "RL106", "1.5"),
        ("0-1-2", "RL106", "0-1-2"),
        ("0:a", "RL106", "a"),
        ("9999999999", "RL106", "9999999999"),
        ("٣", "RL106", "٣"),
        ("1, 3-0", "RL107", "3-0"),
        ("0-1,1-2", "RL108", "1-2"),
        ("all,0", "RL108", "0"),
        ("2-3,0-1", "RL109", "0-1"),
        ("0-1:0-3,2-3:5-6", "RL110", "5-6"),
        ("0-1:0-1,2-3:0-1", "RL110", "0-1"),
        ("0-2:0-1", "RL111", "0-2:0-1"),
        ("0-3:4-7", "RL130", "4-7"),
    ],
)
def test_a_mistake_is_named_and_underlined(text, code, under):
    assert marked(text)[code] == under
    assert all(fault.hint and fault.what and fault.expected for fault in faults(text))


def test_only_process_numbers_that_start_elsewhere_are_a_warning():
    assert [fault.warning for fault in faults("0-3:4-7")] == [True]
    assert [fault.warning for fault in faults("0-1:1-2,2:4")] == [True, False]


def test_all_mistakes_of_an_expression_come_at_once():
    assert set(marked("x, 3-0, 1:2:3, 0:all")) == {"RL106", "RL107", "RL102", "RL103"}


def test_a_part_that_cannot_be_read_does_not_blame_the_numbers_after_it():
    assert set(marked("0:0-1, x, 4:9")) == {"RL106"}


def test_counts_that_fit_are_the_nearest_ones():
    (fault,) = faults("0-5:0-3")
    assert fault.expected == "3 or 6 processes"
    (fault,) = faults("0-2:0-6")
    assert fault.expected == "6 or 9 processes"


def test_a_comma_inside_process_numbers_is_explained():
    (fault,) = faults("0-1:0,1")
    assert "a comma starts a new part" in fault.hint


def test_without_a_known_total_all_is_not_counted():
    assert faults("all:0-2", None) == []
    assert set(marked("all, 3-2", None)) == {"RL107"}


def test_the_caret_stands_under_the_part():
    assert show("0-1,4:0-3", 4, 5) == "    0-1,4:0-3\n        ^"


def test_a_long_expression_is_cut_around_the_caret():
    text = ",".join(map(str, range(200))) + ",x"
    line, carets = show(text, len(text) - 1, len(text)).split("\n")
    assert len(line) == 76
    assert line[carets.index("^")] == "x"


def test_what_cannot_be_printed_does_not_reach_the_terminal():
    assert show("0\x1b[2J", 0, 1).splitlines()[0] == "    0 [2J"


@st.composite
def expressions(draw):
    """Valid expressions with the number of resources they need."""
    at, process, parts = 0, 0, []
    for _ in range(draw(st.integers(1, 4))):
        first = at + draw(st.integers(0, 2))
        size = draw(st.integers(1, 6))
        last, at = first + size - 1, first + size
        share = draw(st.sampled_from([d for d in range(1, 13) if size % d == 0 or d % size == 0]))
        explicit = draw(st.booleans())
        count = share if explicit else size
        resources = f"{first}-{last}" if size > 1 else f"{first}"
        parts.append(f"{resources}:{process}-{process + count - 1}" if explicit else resources)
        process += count
    return ",".join(parts), at, process


@given(expressions())
def test_every_valid_expression_gives_each_process_a_consecutive_block(drawn):
    text, total, processes = drawn
    parts, found = parse(text)
    assert found + relations(parts, total, "GPU") == []
    given_blocks = blocks(parts, total)
    assert len(given_blocks) == processes
    for block in given_blocks:
        assert block == tuple(range(block[0], block[0] + len(block)))
    used = {number for block in given_blocks for number in block}
    assert used == {number for part in parts for number in range(part.resources.first, part.resources.last + 1)}
    assert [block[0] for block in given_blocks] == sorted(block[0] for block in given_blocks)


@given(st.text(alphabet="0123456789,-: alx_.", max_size=20))
def test_no_text_is_read_in_silence(text):
    parts, found = parse(text)
    found += relations(parts, 16, "GPU", whole=not found)
    assert parts or found
    for fault in found:
        assert 0 <= fault.start <= fault.end <= len(text) + 1
        assert "^" in show(text, fault.start, fault.end)
