"""The store: whole or refused, replayable, readable by others."""

from __future__ import annotations

import json
import sqlite3

import pytest

from rlark.control.ledger import Key, Ledger, Texts
from rlark.control.phases import IllegalTransition, replay
from rlark.control.queue import Turn
from rlark.control.reader import LedgerReader, page_token
from rlark.control.record import Event, JobRecord, Kind
from rlark.errors import ClusterError, ConflictError, NotFound, UsageError
from rlark.folder import Home
from rlark.plan.plan import Plan
from rlark.testing import FakeClock, a_node

CLOCK = FakeClock()


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home")


@pytest.fixture
def ledger(home):
    made = Ledger(home)
    yield made
    made.close()


def event(kind: Kind, **data) -> Event:
    return Event(kind=kind, time=CLOCK.now(), reason=kind.value.title(), data=data)


def texts(name: str = "demo", **labels) -> Texts:
    body = {"apiVersion": "v", "kind": "Job", "metadata": {"name": name, "labels": labels}, "spec": {"tasks": []}}
    return Texts(f"name: {name}\n", body, Plan(job=name, node="node-0"))


def accepted(name: str = "demo") -> Event:
    return event(Kind.ACCEPTED, uid=f"u-{name}", name=name, wanted={"digest": "d"})


def add(ledger: Ledger, name: str, **labels) -> JobRecord:
    return ledger.write(JobRecord(), [accepted(name)], texts=texts(name, **labels))


def test_a_job_is_read_back_by_another_reader(ledger, home):
    record = add(ledger, "demo", team="nav")
    reader = LedgerReader(home)
    assert reader.record("demo") == record
    assert reader.job("demo")["metadata"]["labels"] == {"team": "nav"}
    assert reader.texts("demo") == texts("demo", team="nav")
    assert reader.seq("demo") == record.seq
    assert reader.seq("nothing") == 0
    assert replay(reader.history("u-demo")) == record
    with pytest.raises(NotFound, match="nothing"):
        reader.job("nothing")
    reader.close()


def test_an_illegal_event_leaves_nothing_behind(ledger):
    record = add(ledger, "demo")
    with pytest.raises(IllegalTransition):
        ledger.write(record, [event(Kind.NOTED), event(Kind.SUCCEEDED)])
    assert ledger.record("demo") == record
    assert [e.kind for e in ledger.history("u-demo")] == [Kind.ACCEPTED]


def test_a_stale_record_is_not_written_over_a_newer_one(ledger):
    old = add(ledger, "demo")
    ledger.write(old, [event(Kind.NOTED)])
    with pytest.raises(ConflictError, match="another controller"):
        ledger.write(old, [event(Kind.NOTED)])


def test_a_name_is_taken_once(ledger):
    add(ledger, "demo")
    with pytest.raises(ConflictError):
        add(ledger, "demo")


def test_numbers_are_never_used_again(ledger):
    record = add(ledger, "demo")
    ledger.delete(record, CLOCK.now())
    tombstone = ledger.last()
    assert add(ledger, "demo").seq > tombstone > record.seq


def test_a_deleted_job_is_told_as_gone(ledger):
    record = add(ledger, "demo")
    (change,) = ledger.changes(0)
    assert change.job["metadata"]["name"] == "demo"
    ledger.delete(record, CLOCK.now())
    (change,) = ledger.changes(change.seq)
    assert (change.name, change.job) == ("demo", None)
    assert ledger.submitted("k") is None


def test_keys_go_with_their_job(ledger):
    record = ledger.write(JobRecord(), [accepted()], texts=texts(), key=Key("k", "r"))
    assert ledger.submitted("k") == ("demo", "r")
    ledger.delete(record, CLOCK.now())
    assert ledger.submitted("k") is None


def test_pages_of_jobs_newest_first(ledger):
    for number in range(7):
        add(ledger, f"job-{number}", parity=str(number % 2))
    first, token = ledger.jobs(limit=3)
    second, token = ledger.jobs(limit=3, before=token)
    third, end = ledger.jobs(limit=3, before=token)
    names = [job["metadata"]["name"] for job in [*first, *second, *third]]
    assert names == [f"job-{number}" for number in reversed(range(7))]
    assert end is None
    odd, _ = ledger.jobs(labels=lambda labels: labels["parity"] == "1")
    assert [job["metadata"]["name"] for job in odd] == ["job-5", "job-3", "job-1"]
    assert ledger.jobs(phases=["Running"]) == ([], None)
    assert ledger.phases() == {"Pending": 7}


@pytest.mark.parametrize("token", ["x", "-1", "9" * 30, "１"])
def test_a_strange_page_token(token):
    with pytest.raises(UsageError):
        page_token(token)


def test_nodes_and_queue_are_snapshots(ledger):
    ledger.write_nodes([a_node("b", gpus=1), a_node("a")])
    ledger.write_override("b", {"zone": "x"}, unschedulable=True)
    ledger.write_queue([Turn("u1", "one", 1, "", 0), Turn("u2", "two", 2, "waits", 3)])
    assert [node.name for node in ledger.inventory().nodes] == ["a", "b"]
    assert ledger.inventory().node("b").unschedulable
    assert ledger.nodes()[1]["labels"]["zone"] == "x"
    assert ledger.queue() == [
        {"job": "one", "position": 1, "reason": "starts now", "priority": 0},
        {"job": "two", "position": 2, "reason": "waits", "priority": 3},
    ]
    ledger.write_nodes([])
    ledger.write_queue([])
    assert (ledger.nodes(), ledger.queue()) == ([], [])


def test_it_is_kept_in_wal_and_read_only_for_readers(ledger, home):
    with sqlite3.connect(home.ledger) as raw:
        assert raw.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    raw.close()
    reader = LedgerReader(home)
    with pytest.raises(ClusterError, match="readonly"), reader._engine.begin() as connection:
        from sqlalchemy import text

        from rlark.control import tables

        with tables.guarded(reader._url):
            connection.execute(text("DELETE FROM jobs"))
    reader.close()


def test_a_reader_before_the_writer_says_so_and_makes_no_file(home):
    home.create()
    reader = LedgerReader(home)
    with pytest.raises(ClusterError, match="rlark up"):
        reader.jobs()
    assert not home.ledger.exists()
    writer = Ledger(home)
    assert reader.jobs() == ([], None)
    writer.close()
    reader.close()


@pytest.mark.parametrize("damage", ["header", "middle"])
def test_a_damaged_ledger_is_refused_with_a_way_out(home, damage):
    writer = Ledger(home)
    for number in range(40):
        add(writer, f"job-{number}")
    writer.close()
    data = bytearray(home.ledger.read_bytes())
    place = slice(0, 100) if damage == "header" else slice(4096, len(data) - 4096)
    data[place] = b"\xa5" * len(data[place])
    home.ledger.write_bytes(data)
    with pytest.raises(ClusterError, match="damaged") as refused:
        Ledger(home)
    assert str(home.ledger) in str(refused.value)
    assert "events.jsonl" in refused.value.hint


def test_a_store_that_cannot_be_used(home):
    for url in ("nonsense", "nosuchdatabase://x/y"):
        with pytest.raises(UsageError, match="store"):
            Ledger(home, url)
    with pytest.raises(ClusterError, match="opened"):
        Ledger(home, f"sqlite:///{home.root}/no/such/folder/x.sqlite")


def test_another_url_is_used(home, tmp_path):
    other = tmp_path / "elsewhere.sqlite"
    ledger = Ledger(home, f"sqlite:///{other}")
    add(ledger, "demo")
    ledger.close()
    assert other.exists()
    assert not home.ledger.exists()
    reader = LedgerReader(home, f"sqlite:///{other}")
    assert reader.record("demo") is not None
    reader.close()


def test_a_path_with_odd_characters(tmp_path):
    home = Home(tmp_path / "a b?c#d%e")
    ledger = Ledger(home)
    add(ledger, "demo")
    reader = LedgerReader(home)
    assert reader.record("demo") is not None
    reader.close()
    ledger.close()


def test_a_record_of_a_newer_rlark_is_read(ledger, home):
    add(ledger, "demo")
    with sqlite3.connect(home.ledger) as raw:
        (text,) = raw.execute("SELECT record FROM jobs").fetchone()
        raw.execute("UPDATE jobs SET record = ?", (json.dumps({**json.loads(text), "fromTheFuture": 1}),))
    raw.close()
    assert ledger.record("demo").name == "demo"
