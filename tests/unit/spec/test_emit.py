from __future__ import annotations

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rlark.spec.emit import emit
from rlark.spec.yaml import parse
from tests.unit.spec.texts import LIKE_OTHER_TYPES, TEXTS, VALUES, same


@settings(max_examples=120, deadline=None)
@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_every_reader_reads_back_what_was_written(value):
    text = emit(value)
    ours = parse(text)
    assert ours.findings == []
    assert same(ours.data, value)
    assert same(yaml.safe_load(text), value)
    assert emit(ours.data) == text


def test_scripts_are_literal_blocks():
    assert emit({"a": "cd x\n  y\n"}) == "a: |\n  cd x\n    y\n"
    assert emit({"a": "one\ntwo"}) == "a: |-\n  one\n  two\n"
    assert emit({"a": "one\n\n\n"}) == "a: |+\n  one\n\n\n"
    assert emit({"a": "  one\ntwo \n"}) == "a: |2\n    one\n  two \n"
    assert emit({"a": ["x\ny\n"]}) == "a:\n  - |\n    x\n    y\n"


def test_texts_that_look_like_something_else_are_quoted():
    for text in LIKE_OTHER_TYPES:
        if text not in {"4Gi", "2h", "a", "b"}:
            assert emit({"k": text}).startswith(("k: '", 'k: "')), text


def test_lists_of_numbers_stay_on_one_line():
    assert emit({"a": [0.8, 1, None, True]}) == "a: [0.8, 1, null, true]\n"
    assert emit({"a": [], "b": {}}) == "a: []\nb: {}\n"
    assert emit({"a": [[1, 2], {"b": [3]}, []]}) == "a:\n  - [1, 2]\n  - b: [3]\n  - []\n"
    assert emit({}) == "{}\n"


def test_numbers_are_read_alike_by_yaml_11_and_12():
    assert emit({"a": 1e-05, "b": 1e16, "c": 0.0003}) == "a: 1.0e-05\nb: 1.0e+16\nc: 0.0003\n"
