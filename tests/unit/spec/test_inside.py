"""Where a line of a script stands in the Job's text."""

from __future__ import annotations

import json

import pytest

from rlark.spec import load
from rlark.spec.finding import Finding

HEAD = """\
apiVersion: rlinf.io/v1alpha1
kind: Job
metadata: {name: demo}
spec:
  tasks:
    - name: worker
      head: true
"""
PLACE = "spec.tasks[0].runScript"


def shown(text: str, line: int, column: int) -> tuple[int, int]:
    placed = load(text).place(Finding(code="RL301", path=PLACE, message="m", inside=(line, column)))
    return placed.line, placed.column


@pytest.mark.parametrize("head", ["|", "|-", "|+", "| # the run"])
def test_a_literal_block(head):
    text = f"{HEAD}      runScript: {head}\n        first\n\n          third\n        last\n"
    assert shown(text, 1, 1) == (9, 9)
    assert shown(text, 2, 1) == (10, 1)
    assert shown(text, 3, 3) == (11, 11)
    assert shown(text, 4, 2) == (12, 10)


def test_an_indentation_that_is_stated_and_other_line_ends():
    assert shown(f"{HEAD}      runScript: |2\n          first\n        last\n", 1, 3) == (9, 11)
    crlf = f"{HEAD}      runScript: |\n        first\n        last\n".replace("\n", "\r\n")
    assert shown(crlf, 2, 1) == (10, 9)


@pytest.mark.parametrize("written", [">\n        first\n        last\n", '"first\\nlast"\n', "first\n"])
def test_what_has_no_lines_of_its_own_is_shown_as_a_whole(written):
    text = f"{HEAD}      runScript: {written}"
    assert shown(text, 2, 1) == load(text).positions.of(PLACE)


def test_a_line_that_is_not_there_and_a_job_in_json():
    text = f"{HEAD}      runScript: |\n        first\n"
    assert shown(text, 9, 1) == load(text).positions.of(PLACE)
    assert shown(json.dumps({"spec": {"tasks": [{"runScript": "a\nb"}]}}), 2, 1)[0] == 1
    assert shown(HEAD, 1, 1) == load(HEAD).positions.of(PLACE)
