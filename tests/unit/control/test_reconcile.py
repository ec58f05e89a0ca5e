"""From what is seen to what must have happened."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from rlark.cluster.base import Handle, Observation
from rlark.control.phases import transition
from rlark.control.reconcile import FORCE_MARGIN_S, STOP_MARGIN_S, reconcile
from rlark.control.record import Event, JobRecord, Kind, Wanted
from rlark.plan.node import Lease
from rlark.spec.report import Report
from rlark.spec.status import JobStatus, Phase

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
STAMP = "2026-01-01T11:59:59.000Z"


def running(**more) -> JobRecord:
    return JobRecord(
        uid="u",
        name="demo",
        status=JobStatus(phase=Phase.RUNNING, attempt=2),
        lease=Lease(job="demo", attempt=2, key="k", node="n"),
        handle=Handle("demo", 2, "h", "/jobs/demo"),
        **more,
    )


def report(n: int, type_: str, *, attempt: int = 2, status: bool = True, reason: str = "", **data) -> Report:
    return Report(n, attempt, STAMP, type_, status, reason, f"about {type_}", data)


def outcome(n: int = 9, *, status: bool = True, reason: str = "", verified=None, gate=None, **data) -> Report:
    verdict = {"verified": verified, "checks": [], "qualityGatePassed": gate}
    return report(n, "Outcome", status=status, reason=reason, verdict=verdict, **data)


def kinds(events: list[Event]) -> list[str]:
    return [event.kind.value for event in events]


def test_reports_become_conditions_in_their_order_and_time():
    seen = Observation(True, (report(1, "Prepared"), report(2, "SignalSeen", status=False, reason="Stalled")))
    events = reconcile(running(), seen, NOW)
    assert [(event.reason, event.type) for event in events] == [("Prepared", "Normal"), ("Stalled", "Warning")]
    assert events[0].time == NOW - timedelta(seconds=1)
    record = running()
    for seq, event in enumerate(events, start=1):
        record = transition(record, event.model_copy(update={"seq": seq}))
    assert [(c.type.value, c.status) for c in record.status.conditions] == [
        ("Prepared", "True"),
        ("SignalSeen", "False"),
    ]


def test_what_was_seen_before_and_what_other_attempts_wrote_is_left_out():
    seen = Observation(True, (report(3, "Prepared"), report(5, "Started", attempt=1), report(6, "Started")))
    assert [event.data["n"] for event in reconcile(running(reports=3), seen, NOW)] == [6]


def test_placed_brings_the_ranks():
    ranks = [{"component": "actor", "rank": 0, "pid": 12, "gpus": [0], "visibleDevices": "3"}]
    events = reconcile(running(), Observation(True, (report(1, "Placed", ranks=ranks),)), NOW)
    record = transition(running(), events[0])
    assert record.status.ranks[0].visible_devices == "3"


@pytest.mark.parametrize(
    ("last", "phase", "reason"),
    [
        (outcome(verified=True, exitCode=0), "succeeded", "Completed"),
        (outcome(status=False, reason="RunFailed", exitCode=3), "failed", "RunFailed"),
        (outcome(status=False, reason="Stopped", exitCode=143), "failed", "Terminated"),  # nobody asked
        (outcome(status=False, reason="DeadlineExceeded"), "failed", "DeadlineExceeded"),
        (outcome(status=False, reason="GateFailed", exitCode=0, gate=False), "failed", "GateFailed"),
        (outcome(status=False), "failed", "RunFailed"),
    ],
)
def test_the_outcome_ends_the_attempt(last, phase, reason):
    events = reconcile(running(), Observation(False, (last,)), NOW)
    assert kinds(events) == [phase]
    assert events[0].reason == reason
    assert events[0].data["exitCode"] == last.data.get("exitCode")
    assert events[0].data["n"] == 9


def test_a_stop_that_was_asked_for_is_a_stop():
    last = outcome(status=False, reason="Stopped", exitCode=143)
    assert kinds(reconcile(running(stop_asked_at=NOW), Observation(False, (last,)), NOW)) == ["stopped"]


def test_survivors_of_an_outcome_are_named():
    events = reconcile(running(), Observation(True, (outcome(survivors=["pid 7 (sleep)"]),)), NOW)
    assert kinds(events) == ["noted", "succeeded"]
    assert "pid 7 (sleep)" in events[0].message


def test_nothing_counts_behind_the_outcome():
    seen = Observation(False, (outcome(4, exitCode=0), report(5, "Started")))
    assert kinds(reconcile(running(), seen, NOW)) == ["succeeded"]


def test_a_worker_that_is_gone_without_a_word_is_lost():
    (event,) = reconcile(running(), Observation(False, reason="killed by the OOM killer"), NOW)
    assert event.kind is Kind.FAILED
    assert event.reason == "WorkerLost"
    assert "killed by the OOM killer" in event.message


def test_after_a_stop_a_silent_end_is_a_stop():
    (event,) = reconcile(running(stop_asked_at=NOW), Observation(False), NOW)
    assert event.kind is Kind.STOPPED


def test_a_stop_has_a_deadline_and_then_an_end():
    record = running(stop_asked_at=NOW, wanted=Wanted(grace_s=10))
    alive = Observation(True)
    due = NOW + timedelta(seconds=10 + STOP_MARGIN_S)
    assert reconcile(record, alive, due - timedelta(seconds=1)) == []
    assert kinds(reconcile(record, alive, due)) == ["stop-forced"]
    forced = record.model_copy(update={"stop_forced_at": due})
    assert reconcile(forced, alive, due + timedelta(seconds=1)) == []
    (event,) = reconcile(forced, alive, due + timedelta(seconds=FORCE_MARGIN_S))
    assert (event.kind, event.reason) == (Kind.STOPPED, "StopForced")


def test_a_retry_follows_a_failure_while_there_are_any_left():
    record = running(wanted=Wanted(backoff_limit=1))
    lost = Observation(False)
    assert kinds(reconcile(record, lost, NOW)) == ["failed", "requeued"]
    assert kinds(reconcile(record.model_copy(update={"failures": 1}), lost, NOW)) == ["failed"]
    assert kinds(reconcile(record.model_copy(update={"deleting": True}), lost, NOW)) == ["failed"]


def test_a_restart_follows_any_end():
    record = running(again=True, stop_asked_at=NOW)
    seen = Observation(False, (outcome(exitCode=0),))
    assert kinds(reconcile(record, seen, NOW)) == ["succeeded", "requeued"]


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.RUNNING])
def test_only_a_running_job_is_reconciled(phase):
    record = running().model_copy(update={"status": JobStatus(phase=phase)})
    assert reconcile(record, Observation(False, (outcome(),)), NOW) == []


@pytest.mark.parametrize("time", ["", "yesterday", "2026-01-01T11:00:00"])
def test_a_time_that_cannot_be_read_is_now(time):
    odd = Report(1, 2, time, "Prepared")
    assert reconcile(running(), Observation(True, (odd,)), NOW)[0].time == NOW


def test_odd_data_of_a_worker_does_no_harm():
    odd = (report(1, "Placed", ranks="none"), report(2, "Placed", ranks=[3, {"rank": "x"}]))
    strange = report(3, "Outcome", exitCode="three", survivors="nobody", verdict={"checks": 7})
    events = reconcile(running(), Observation(False, (*odd, strange)), NOW)
    assert kinds(events) == ["reported", "reported", "succeeded"]
    assert events[-1].data["exitCode"] is None
    record = running()
    for event in events:
        record = transition(record, event)
    assert record.status.ranks == []
    assert record.status.verified is None
