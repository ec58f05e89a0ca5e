from __future__ import annotations

import pytest

from rlark.errors import PlacementError, SpecError
from rlark.spec.finding import Finding, exit_code, refusal

PLACE = {"file": "job.yaml", "line": 7, "column": 16, "path": "spec.x"}
WRONG = Finding(code="RL021", message="wrong", hint="mend it", **PLACE)
ELSEWHERE = Finding(code="RL210", message="too small", curable=True)
WARNING = Finding(code="RL044", message="no effect", severity="warning")


def test_a_line_that_editors_read():
    assert str(WRONG) == "job.yaml:7:16: error RL021 spec.x: wrong (mend it)"
    assert str(WARNING) == "warning RL044: no effect"


def test_a_picture_stands_below_the_line_and_the_hint_in_it():
    drawn = Finding(code="RL119", message="0-3 is out of range\n    0-3\n    ^^^", hint="write 0", **PLACE)
    assert str(drawn) == "job.yaml:7:16: error RL119 spec.x: 0-3 is out of range (write 0)\n    0-3\n    ^^^"


def test_the_form_of_the_contract():
    words = "code severity path file line column message expected actual hint"
    assert list(ELSEWHERE.to_json()) == words.split()


@pytest.mark.parametrize(
    ("findings", "code"),
    [([], 0), ([WARNING], 0), ([ELSEWHERE, WARNING], 4), ([WRONG], 3), ([ELSEWHERE, WRONG], 3)],
)
def test_the_one_table_of_exit_codes(findings, code):
    assert exit_code(findings) == code


def test_a_refusal_carries_everything_and_says_how_it_ends():
    refused = refusal([WRONG, ELSEWHERE, WARNING])
    assert isinstance(refused, SpecError)
    assert refused.message == "the Job has 2 errors; nothing was started"
    assert refused.findings == (WRONG, ELSEWHERE, WARNING)
    assert str(refused).splitlines() == [refused.message, str(WRONG), str(ELSEWHERE), str(WARNING)]
    assert isinstance(refusal([ELSEWHERE]), PlacementError)
    told = Finding.model_validate(ELSEWHERE.to_json())  # as it comes from another process
    assert isinstance(refusal([told], 4), PlacementError)
    assert isinstance(refusal([told], 3), SpecError)


def test_what_a_terminal_would_act_upon_is_told_and_not_done():
    told = Finding(code="RL022", message="kind is \x1b[31m\rJob\n  \x9b1m", hint="a\tb", actual="\x07")
    assert (told.message, told.hint, told.actual) == ("kind is \\x1b[31m\\rJob\\n  \\x9b1m", "a\\tb", "\\x07")


def test_a_finding_stands_on_one_line_but_for_a_picture():
    picture = "\n    0-3\n      ^"
    told = Finding(code="RL056", message=f"the volume a\nb\u2028c: {picture}{picture}", hint="remove a\nb")
    assert str(told).split("\n") == [
        "error RL056: the volume a\\nb\\u2028c: \\n    0-3\\n      ^ (remove a\\nb)",
        *("    0-3", "      ^"),
    ]
