from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rlark.sdk.display import Narrator, card, duration, metrics_text, status_text, story_rows, summary, took
from rlark.sdk.findings import Findings
from rlark.sdk.follow import StreamEvent
from rlark.spec.finding import Finding


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0s"), (9.14, "9.1s"), (65, "1m 05s"), (3600, "1h 00m"), (11_000, "3h 03m"), (356_400, "4d 03h")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_took_needs_a_start_and_counts_on_while_it_runs() -> None:
    now = datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
    start = "2026-01-01T00:00:00.000Z"
    assert took({}) == ""
    assert took({"startedAt": start}) == ""
    assert took({"startedAt": start}, now) == "1m 00s"
    assert took({"startedAt": start, "finishedAt": "2026-01-01T00:00:05.500Z"}, now) == "5.5s"


def test_metrics_text_shows_the_few_that_matter() -> None:
    metrics = {"iteration": 3, "time": "x", "kl": 0.01, "entropy": None, "recentSuccess": 0.25, "meanReward": -1.23456}
    assert metrics_text(metrics, most=2) == "meanReward -1.235  recentSuccess 0.25"
    assert metrics_text(metrics) == "meanReward -1.235  recentSuccess 0.25  kl 0.01"


def test_status_text_says_why() -> None:
    assert status_text({}) == "Pending"
    queue = {"position": 2, "reason": "GPU 0 leased by job x"}
    assert status_text({"phase": "Pending", "queue": queue}) == "Pending: number 2 in the queue (GPU 0 leased by job x)"
    conditions = [{"type": "Validated", "status": "True"}, {"type": "Placed", "status": "True"}]
    conditions.append({"type": "SignalSeen", "status": "Unknown"})
    assert status_text({"phase": "Running", "conditions": conditions}) == "Running: Placed"
    assert status_text({"phase": "Failed", "reason": "RunFailed", "conditions": conditions}) == "Failed: RunFailed"


def test_the_summary_has_what_is_known() -> None:
    rows = dict(summary({"metadata": {"name": "demo"}, "status": {"phase": "Running", "attempt": 2}}))
    assert rows == {"job": "demo", "phase": "Running", "verified": "-", "quality gate": "-", "attempt": "2"}
    done = {"phase": "Succeeded", "verified": False, "qualityGatePassed": True, "exitCode": 0, "reason": "Completed"}
    rows = dict(summary({"metadata": {"name": "demo"}, "status": done}))
    assert (rows["verified"], rows["quality gate"], rows["exit code"], rows["reason"]) == (
        "no",
        "passed",
        "0",
        "Completed",
    )


def test_the_narrator_separates_talk_from_the_log() -> None:
    said: list[str] = []
    logged: list[str] = []
    narrator = Narrator(said.append, logged.append)
    for event in (
        StreamEvent("status", {"phase": "Pending"}),
        StreamEvent("status", {"phase": "Pending"}),
        StreamEvent("log", {"line": "hello", "component": None}),
        StreamEvent("log", {"line": "rank talk", "component": "env"}),
        StreamEvent("metrics", {"iteration": 1}),
        StreamEvent("event", {"type": "Normal", "reason": "Leased", "message": "box"}),
        StreamEvent("event", {"type": "Warning", "reason": "Stalled", "message": "no signal"}),
        StreamEvent("status", {"phase": "Running"}),
    ):
        narrator.show(event)
    assert said == ["Pending", "Warning: Stalled: no signal", "Running"]
    assert logged == ["hello"]


def test_a_curious_narrator_tells_every_event() -> None:
    said: list[str] = []
    narrator = Narrator(said.append, said.append, verbose=True)
    narrator.show(StreamEvent("event", {"type": "Normal", "reason": "Leased", "message": "box"}))
    assert said == ["Normal: Leased: box"]


def test_what_is_said_twice_in_a_row_is_told_once() -> None:
    said: list[str] = []
    narrator = Narrator(said.append, said.append)
    for _ in range(2):
        narrator.show(StreamEvent("event", {"type": "Warning", "reason": "PrepareFailed", "message": "line 2"}))
    assert said == ["Warning: PrepareFailed: line 2"]


def test_a_step_of_which_nothing_can_be_said_does_not_stand_in_the_story() -> None:
    record = {"metadata": {"name": "demo"}, "spec": {"tasks": [{"runScript": "true"}]}, "status": {"phase": "Pending"}}
    labels = [label for label, _ in story_rows(record)]
    assert labels[:3] == ["   accepted", "-> validated", "   its turn in the queue"]
    assert "   components placed" not in labels


def test_the_card_of_a_job_that_ended_names_the_step_that_is_missing() -> None:
    status = {"phase": "Failed", "reason": "CannotPlace", "message": "9 < 10 GPUs"}
    record = {"metadata": {"name": "demo"}, "spec": {"tasks": [{"runScript": "true"}]}, "status": status}
    html = card(record)
    assert "missing first" in html
    assert "9 &lt; 10 GPUs" in html
    assert "missing first" not in card(record | {"status": {"phase": "Running"}})


def test_findings_in_text_and_html() -> None:
    wrong = Finding(code="RL021", path="spec", line=3, column=2, file="job.yaml", message="a < b", hint="write 1")
    mild = Finding(code="RL250", severity="warning", message="an image")
    findings = Findings([wrong, mild])
    assert (findings.ok, findings.exit_code, len(findings)) == (False, 3, 2)
    assert findings[0] is wrong
    assert findings[1:].ok
    assert repr(findings).splitlines()[0] == "job.yaml:3:2: error RL021 spec: a < b (write 1)"
    html = findings._repr_html_()
    assert "a &lt; b" in html
    assert "job.yaml:3:2" in html
    drawn = Finding(code="RL119", message="out of range\n    0-3 <\n    ^^^")
    assert "out of range<pre>    0-3 &lt;\n    ^^^</pre>" in Findings([drawn])._repr_html_()


def test_no_findings_are_good_news() -> None:
    assert not Findings()
    assert Findings().ok
    assert "can run" in repr(Findings())
    assert "can run" in Findings()._repr_html_()
