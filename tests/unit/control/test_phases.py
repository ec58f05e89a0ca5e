"""The state machine: the table is the only way, and events alone rebuild a record."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from rlark.control.phases import TABLE, IllegalTransition, replay, transition
from rlark.control.record import Event, JobRecord, Kind
from rlark.spec.status import ConditionType, Phase

T0 = datetime(2026, 1, 1, tzinfo=UTC)
LEASE = {
    "job": "demo",
    "attempt": 1,
    "key": "demo-1",
    "node": "node-0",
    "cpus": 2,
    "devices": [{"id": "3", "uuid": "GPU-3"}],
}
HANDLE = {"job": "demo", "attempt": 1, "id": "h", "folder": "/jobs/demo"}
DATA = {
    Kind.ACCEPTED: {"uid": "u1", "name": "demo", "wanted": {"digest": "d1", "node": "node-0"}},
    Kind.UPDATED: {"wanted": {"digest": "d2"}},
    Kind.LEASED: {"lease": LEASE},
    Kind.LAUNCHED: {"handle": HANDLE},
    Kind.REPORTED: {"n": 1, "condition": "Prepared", "status": True},
}


def event(kind: Kind, seq: int = 1, **data: object) -> Event:
    return Event(
        seq=seq,
        kind=kind,
        time=T0 + timedelta(seconds=seq),
        attempt=1,
        reason=kind.value.title(),
        data={**DATA.get(kind, {}), **data},
    )


def after(*kinds: Kind) -> JobRecord:
    return replay(event(kind, seq) for seq, kind in enumerate(kinds, start=1))


def condition(record: JobRecord, kind: ConditionType):
    return next((c for c in record.status.conditions if c.type is kind), None)


A, L, S = Kind.ACCEPTED, Kind.LEASED, Kind.LAUNCHED
PATHS = {
    Phase.PENDING: (A,),
    Phase.RUNNING: (A, L, S),
    Phase.SUCCEEDED: (A, L, S, Kind.SUCCEEDED),
    Phase.FAILED: (A, L, S, Kind.FAILED),
    Phase.STOPPED: (A, L, S, Kind.STOPPED),
}


def test_every_kind_has_a_row():
    assert set(TABLE) == set(Kind)


@pytest.mark.parametrize(("phase", "kind"), list(itertools.product(Phase, Kind)))
def test_the_table_is_the_only_way(phase, kind):
    record = after(*PATHS[phase])
    assert record.status.phase is phase
    if phase in TABLE[kind].phases and (TABLE[kind].guard is None or TABLE[kind].guard.holds(record)):
        assert transition(record, event(kind, 9)).seq == 9
    else:
        with pytest.raises(IllegalTransition, match="demo"):
            transition(record, event(kind, 9))


def test_a_life_from_the_queue_to_the_end():
    record = after(A)
    assert record.status.phase is Phase.PENDING
    assert record.queued_seq == 1
    assert condition(record, ConditionType.VALIDATED).status == "True"
    assert condition(record, ConditionType.QUEUED).status == "True"
    assert record.status.digest == "d1"

    record = transition(record, event(L, 2))
    assert record.launching
    assert record.attempt == 1
    assert condition(record, ConditionType.QUEUED).status == "False"
    assert record.status.lease.gpus[0].id == "3"
    assert record.status.lease.gpus[0].logical == 0

    record = transition(record, event(S, 3))
    assert record.running
    assert not record.launching
    assert record.status.started_at == T0 + timedelta(seconds=3)

    record = transition(record, event(Kind.REPORTED, 4))
    assert condition(record, ConditionType.PREPARED).status == "True"
    assert record.reports == 1

    end = event(Kind.SUCCEEDED, 5, exitCode=0, verified=True, qualityGatePassed=False, n=2)
    record = transition(record, end)
    assert (record.status.exit_code, record.status.verified, record.status.quality_gate_passed) == (0, True, False)
    assert record.active  # the lease is still held

    record = transition(record, event(Kind.RELEASED, 6))
    assert not record.active
    assert record.status.lease is None
    assert condition(record, ConditionType.LEASED).status == "False"


def test_a_condition_keeps_its_time_while_its_truth_stays():
    record = transition(after(A, L, S), event(Kind.REPORTED, 4))
    again = transition(record, event(Kind.REPORTED, 5, n=2))
    assert condition(again, ConditionType.PREPARED).last_transition_time == T0 + timedelta(seconds=4)
    turned = transition(again, event(Kind.REPORTED, 6, n=3, status=False))
    assert condition(turned, ConditionType.PREPARED).last_transition_time == T0 + timedelta(seconds=6)


def test_conditions_stand_in_the_order_of_a_life():
    record = after(A, L, S)
    for seq, kind in enumerate(("Started", "Prepared", "RayReady"), start=4):
        record = transition(record, event(Kind.REPORTED, seq, n=seq, condition=kind))
    assert [c.type.value for c in record.status.conditions] == [
        "Validated",
        "Queued",
        "Leased",
        "Prepared",
        "RayReady",
        "Started",
    ]


def test_stored_as_stopped_does_not_queue():
    record = transition(JobRecord(), event(A, 1, stopped=True))
    assert record.status.phase is Phase.STOPPED
    assert record.stopped
    assert condition(record, ConditionType.QUEUED) is None


def test_a_new_attempt_forgets_the_old_one_but_its_number_and_lease():
    ended = after(A, L, S, Kind.FAILED)
    record = transition(ended, event(Kind.REQUEUED, 5))
    assert record.status.phase is Phase.PENDING
    assert record.attempt == 1
    assert record.lease is not None
    assert record.status.exit_code is None
    assert record.status.finished_at is None
    assert record.queued_seq == 5
    with pytest.raises(IllegalTransition, match="holds a lease already"):
        transition(record, event(L, 6))


def test_retries_are_counted_until_a_person_starts_it_again():
    record = transition(after(A, L, S, Kind.FAILED), event(Kind.REQUEUED, 5, retry=True))
    assert record.failures == 1
    ended = transition(record, event(Kind.STOPPED, 6))
    assert transition(ended, event(Kind.REQUEUED, 7)).failures == 0


def test_a_stop_remembers_its_first_time_and_a_restart_the_wish():
    record = transition(after(A, L, S), event(Kind.STOP_REQUESTED, 4))
    assert record.stop_asked_at == T0 + timedelta(seconds=4)
    assert record.stopped
    again = transition(record, event(Kind.STOP_REQUESTED, 5, again=True))
    assert again.stop_asked_at == T0 + timedelta(seconds=4)
    assert again.again
    assert not again.stopped


def test_a_kill_needs_a_stop_before_it():
    with pytest.raises(IllegalTransition, match="was not asked to stop"):
        transition(after(A, L, S), event(Kind.STOP_FORCED, 4))


def test_nothing_happens_to_a_job_that_does_not_exist():
    with pytest.raises(IllegalTransition):
        transition(JobRecord(), event(Kind.WAITING))
