from __future__ import annotations

from pathlib import Path

import pytest

from rlark.runtime.failure import Cause, RunFailed, last_lines


def test_a_cause_says_where_and_what():
    cause = Cause("rollout", 1, "ValueError", "wrong shape").with_log("rollout-1.log", ["a", "b"])
    assert str(RunFailed(cause)) == "rollout rank 1: ValueError: wrong shape (log: rollout-1.log)"
    assert cause.to_json() == {
        "component": "rollout",
        "rank": 1,
        "exception": "ValueError",
        "message": "wrong shape",
        "log": "rollout-1.log",
        "lines": ["a", "b"],
    }


def test_an_exception_of_this_process_brings_the_end_of_its_traceback():
    with pytest.raises(ValueError) as raised:
        raise ValueError("\n".join(str(number) for number in range(30)))
    cause = Cause.of(raised.value, "", "stderr.log")
    assert str(cause).startswith("ValueError: 0\n1\n")
    assert cause.lines == tuple(str(number) for number in range(10, 30))


def test_the_end_of_a_log(tmp_path: Path):
    path = tmp_path / "env-0.log"
    path.write_bytes(b"".join(b"%d\n" % number for number in range(100_000)) + b"\xff half")
    assert last_lines(path) == [*(str(number) for number in range(99_981, 100_000)), "\ufffd half"]
    assert last_lines(tmp_path / "none.log") == []
