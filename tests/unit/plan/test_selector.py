"""Selectors, by RLark's own cases."""

from __future__ import annotations

import json

from rlark.plan.selector import matches, parse_selector


def test_the_form_rules_of_selectors(shared):
    cases = json.loads((shared / "cases/job-form.json").read_text(encoding="utf-8"))["node_selector_text"]
    assert len(cases) == 9
    assert [[text, parse_selector(text)] for text, _ in cases] == cases


def test_every_key_and_any_of_its_values(shared):
    given = json.loads((shared / "cases/job-form.json").read_text(encoding="utf-8"))["match_node_selector"]
    assert len(given["cases"]) == 9
    assert [[selector, matches(selector, given["labels"])] for selector, _ in given["cases"]] == given["cases"]


def test_spaces_and_blank_keys_do_not_count():
    assert matches({" zone ": " a , b "}, {"zone": "b"})
    assert matches({" ": "x"}, {})
    assert not matches({"zone": ""}, {"zone": "b"})


def test_a_key_that_is_named_twice_has_all_its_values():
    assert parse_selector("zone=a,team=nav,zone=b") == {"zone": "a,b", "team": "nav"}
    assert parse_selector("x,zone=a") == {"zone": "a"}
