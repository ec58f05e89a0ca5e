"""A script's simple commands."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from rlark.plan.script import commands


def told(script: str) -> list[list[str]]:
    return [[word.text for word in command.words] for command in commands(script)]


def test_what_parts_commands():
    assert told("a b;c&&d||e|f&g\nh") == [["a", "b"], ["c"], ["d"], ["e"], ["f"], ["g"], ["h"]]
    assert told("a \\\n b # c ; d\ne") == [["a", "b"], ["e"]]


def test_quotes_and_expansions_hold_a_word_together():
    assert told("a 'b; c' \"d $(e; f) ${g}\" $(h; i (j)) `k l` m\\ n") == [
        ["a", "b; c", "d $(e; f) ${g}", "$(h; i (j))", "`k l`", "m n"]
    ]


def test_redirections_are_no_arguments():
    (command,) = commands("a b > c 2>> d < e 2>&1 <<< f")
    assert [word.text for word in command.words] == ["a", "b"]
    assert [(word.redirect, word.text) for word in command.files] == [
        (">", "c"),
        ("2>>", "d"),
        ("<", "e"),
        ("2>&", "1"),
        ("<<<", "f"),
    ]


def test_here_documents_are_skipped():
    assert told("a <<E; b <<'F G'\n1\nE\n2\nF G\nc\nd <<-X\n\tx\n\tX\ne") == [["a"], ["b"], ["c"], ["d"], ["e"]]


def test_how_deep_a_command_stands():
    assert [(command.words[0].text, command.depth) for command in commands("a; (b; (c)); d )) e")] == [
        ("a", 0),
        ("b", 1),
        ("c", 2),
        ("d", 0),
        ("e", 0),
    ]


@given(st.text(alphabet="ab'\"`\\$(){}<>&|;# \n-=E", max_size=40))
def test_any_text_is_read_to_its_end(script):
    for command in commands(script):
        assert all(word.line >= 1 and word.column >= 1 for word in [*command.words, *command.files])


def test_words_are_where_they_stand_in_a_long_script_too():
    start = time.process_time()
    (*_, last) = commands("echo a b\n" * 40_000 + "  true c")
    assert [(word.text, word.line, word.column) for word in last.words] == [("true", 40_001, 3), ("c", 40_001, 8)]
    assert time.process_time() - start < 10
