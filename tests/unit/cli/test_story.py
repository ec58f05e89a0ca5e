from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlark.testing import job_text

STALLED = "no line matched 'iter 1/' within 300 s; stacks are in stderr.log"
FAILED = "the prepare script failed at line 2 with status 2: ls /nowhere"


def submit(rlark: Any, platform: Any, name: str = "demo") -> None:
    job = json.loads(job_text(name))
    job["spec"]["tasks"][0]["expect"] = {"firstSignal": {"pattern": "iter 1/", "within": "5m"}}
    Path(f"{name}.yaml").write_text(json.dumps(job), encoding="utf-8")
    result = rlark("submit", "-d", f"{name}.yaml")
    assert result.code == 0, result.err


def stalled(platform: Any) -> None:
    platform.worker().report("SignalSeen", status=False, reason="Stalled", message=STALLED)
    platform.tick()


def test_get_points_at_the_earliest_step_whose_result_is_missing(rlark: Any, platform: Any) -> None:
    submit(rlark, platform)
    stalled(platform)
    rows = [row for row in rlark("get", "demo").rows if row[0].startswith(("   ", "-> ", "look"))]
    assert [label for label, _ in rows] == [
        "   accepted",
        "   validated",
        "   its turn in the queue",
        "   leased",
        "   worker started",
        "   prepared",
        "   Ray head started",
        "   run started",
        "-> first signal",
        "   run completed",
        "   outputs verified",
        "look at",
    ]
    told = dict(rows)
    assert told["   prepared"].startswith("202")
    assert told["-> first signal"] == f"Stalled: {STALLED}"
    assert told["   run completed"] == "-"
    assert told["look at"] == "rlark logs demo --stream stderr"


def test_get_tells_programs_where_it_points(rlark: Any, platform: Any) -> None:
    submit(rlark, platform)
    stalled(platform)
    status = rlark("get", "demo", "-o", "json").json["status"]
    assert status["pointsAt"] == {
        "step": "first signal",
        "condition": "SignalSeen",
        "reason": "Stalled",
        "message": STALLED,
        "look": "rlark logs demo --stream stderr",
    }
    assert rlark("jobs", "-o", "json").json["items"][0]["status"]["pointsAt"]["step"] == "first signal"
    platform.worker().report("SignalSeen")
    platform.worker().finish(verified=True)
    platform.tick()
    assert rlark("get", "demo", "-o", "json").json["status"]["pointsAt"] is None
    assert "->" not in rlark("get", "demo").out


def test_what_get_prints_can_be_submitted_again_wherever_it_points(rlark: Any, platform: Any) -> None:
    submit(rlark, platform)
    Path("again.yaml").write_text(rlark("get", "demo", "-o", "yaml").out, encoding="utf-8")
    again = rlark("submit", "-d", "again.yaml")
    assert (again.code, "already there" in again.err) == (0, True)
    clone = rlark("submit", "-d", "--name", "other", "again.yaml")
    assert (clone.code, clone.out) == (0, "other\n")


def test_a_step_that_ends_the_attempt_is_told_once(rlark: Any, platform: Any) -> None:
    submit(rlark, platform)
    worker = platform.worker()
    worker.report("Prepared", status=False, reason="PrepareFailed", message=FAILED)
    worker.finish(None, reason="PrepareFailed", message=FAILED)
    platform.tick()
    rows = rlark("events", "demo").rows
    assert rows[0] == ["TIME", "ATTEMPT", "TYPE", "REASON", "MESSAGE"]
    assert [row[3] for row in rows].count("PrepareFailed") == 1
    assert ["1", "Warning", "PrepareFailed", FAILED] in [row[1:] for row in rows]
    assert [item["reason"] for item in rlark("events", "demo", "-o", "json").json["items"]].count("PrepareFailed") == 2


@pytest.mark.parametrize(("verified", "word"), [(True, "yes"), (False, "no"), (None, "-")])
def test_whether_a_job_is_verified_stands_in_every_list(rlark: Any, platform: Any, verified: Any, word: str) -> None:
    submit(rlark, platform)
    platform.worker().finish(verified=verified)
    platform.tick()
    for form in ("table", "wide"):
        titles, row = rlark("jobs", "-o", form).rows
        assert row[titles.index("VERIFIED")] == word
    assert dict(rlark("get", "demo").rows)["verified"] == word
