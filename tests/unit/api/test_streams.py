"""Logs, curves and the follow stream, from the files of a Job that lives."""

from __future__ import annotations

import json

import pytest

from rlark.api import follow as follow_module
from rlark.api import streams
from rlark.api.follow import Cursor, JobFollower
from rlark.api.logs import RUN_STARTS, Wanted
from rlark.errors import UsageError
from rlark.folder import append_line
from rlark.testing import job_text

from .conftest import JOBS, events_of, problem


def start(api, **more):
    api.controller.submit(job_text(**more))
    return api.cluster.worker("demo")


def follower(api, **more) -> JobFollower:
    return JobFollower(api.reader, api.folder(), **more)


def drain(source: JobFollower, most: int = 50):
    told = []
    for _ in range(most):
        told += source.poll()
        if source.done:
            break
    return told


def lines(messages) -> list[str]:
    return [m.data["line"] for m in messages if m.event == "log"]


# ---- reading


def test_logs_as_text_and_as_records(api):
    worker = start(api)
    worker.log("hello")
    worker.log("oh no", stream="stderr")
    answer = api.get(f"{JOBS}/demo/logs")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text == "hello\noh no\n"
    records = api.get(f"{JOBS}/demo/logs?format=records").json()["items"]
    assert [record["stream"] for record in records] == ["stdout", "stderr"]
    assert records[0]["time"] == "2026-01-01T00:00:00.000Z"
    assert api.get(f"{JOBS}/demo/logs?format=records&stream=actor-0").json() == {"items": []}
    ndjson = api.get(f"{JOBS}/demo/logs", headers={"Accept": "application/x-ndjson"}).text.splitlines()
    assert [json.loads(line)["line"] for line in ndjson] == ["hello", "oh no"]
    assert api.get(f"{JOBS}/demo/logs?tail=1").text == "oh no\n"


def test_a_long_log_comes_whole_and_in_pieces(api):
    worker = start(api)
    folder = api.folder().logs(1)
    worker.log("first")
    with (folder / "stdout.log").open("a") as file:
        file.writelines(f"2026-01-01T00:00:00.000Z line {i}\n" for i in range(20_000))
    told = api.get(f"{JOBS}/demo/logs").text.splitlines()
    assert told == ["first", *(f"line {i}" for i in range(20_000))]
    assert len(list(streams._pieces(f"{line}\n" for line in told))) == 4


def test_logs_of_each_attempt(api):
    start(api).log("first try")
    api.controller.restart("demo")
    api.tick()
    api.cluster.worker("demo").log("second try")
    assert api.get(f"{JOBS}/demo/logs").text == "second try\n"
    assert api.get(f"{JOBS}/demo/logs?attempt=1").text == "first try\n"
    problem(api.get(f"{JOBS}/demo/logs?attempt=3"), 404, "not_found")
    problem(api.get(f"{JOBS}/demo/logs?attempt=0"), 400, "usage")
    problem(api.get(f"{JOBS}/demo/logs?since=whenever"), 400, "usage")
    problem(api.get(f"{JOBS}/demo/logs?follow=1&attempt=3"), 404, "not_found")


def test_logs_of_a_job_that_never_ran(api):
    api.controller.submit(job_text(stopped=True))
    assert api.get(f"{JOBS}/demo/logs").text == ""
    told = events_of(api.get(f"{JOBS}/demo/logs?follow=1").text)
    assert [event for event, _, _ in told] == ["end"]


def test_curves_are_columns(api):
    worker = start(api)
    worker.iterate(1, 3, meanReward=0.5)
    worker.iterate(2, 3, meanReward=0.75, recentSuccess=None)
    append_line(api.folder().metrics, {"iteration": 3, "iterations": 3, "late": 1})
    with api.folder().metrics.open("a") as file:
        file.write('not json\n[1]\n{"iteration": 4')
    body = api.get(f"{JOBS}/demo/metrics").json()
    assert body["count"] == 3
    assert body["metrics"]["iteration"] == [1, 2, 3]
    assert body["metrics"]["meanReward"] == [0.5, 0.75, None]
    assert body["metrics"]["late"] == [None, None, 1]
    assert body["metrics"]["recentSuccess"] == [None, None, None]


def test_only_what_was_measured_is_told(api):
    start(api)
    line = {"iteration": 1, "iterations": 2, "token": "zYx-secret", "more": {"a": "zYx"}, "all": ["zYx"], "time": "zYx"}
    append_line(api.folder().metrics, line)
    with api.folder().metrics.open("a") as file:
        file.write(
            f'{{"iteration": 2, "iterations": 2, "loss": 1e999, "large": 1{"0" * 400}, "fine": 0.5, "t": "zYx"}}\n'
        )
    curves = api.get(f"{JOBS}/demo/metrics")
    assert curves.json() == {"metrics": {"iteration": [1, 2], "iterations": [2, 2], "fine": [None, 0.5]}, "count": 2}
    told = [m.data for m in follower(api).poll() if m.event == "metrics"]
    assert told == [{"iteration": 1, "iterations": 2}, {"iteration": 2, "iterations": 2, "fine": 0.5}]
    shown = api.get(f"{JOBS}/demo")
    assert shown.json()["status"]["progress"] == {"iteration": 2, "iterations": 2, "metrics": {"fine": 0.5}}
    assert "zYx" not in shown.text


def test_curves_of_an_earlier_attempt_are_not_shown_as_this_ones(api):
    start(api).iterate(8, 8, meanReward=9.0)
    api.clock.advance(5)
    api.controller.restart("demo")
    api.tick()
    assert api.get(f"{JOBS}/demo/metrics").json() == {"metrics": {}, "count": 0}
    assert api.get(f"{JOBS}/demo").json()["status"]["progress"] is None
    assert [m for m in follower(api).poll() if m.event == "metrics"] == []


# ---- following


def test_a_life_is_told_in_order_and_to_its_end(api):
    api.controller.submit(job_text("holder", gpu=2))
    api.controller.submit(job_text("demo", gpu=1))
    source = follower(api)
    told = source.poll()
    assert [m.data["reason"] for m in told if m.event == "event"] == ["Accepted", "Waiting"]
    assert told[-1].event == "status"
    assert told[-1].data["queue"]["position"] == 1
    assert source.poll() == []
    assert source.pause == follow_module.WAITING_PAUSE_S

    api.cluster.worker("holder").finish()
    api.tick()
    worker = api.cluster.worker("demo")
    worker.log("hello")
    worker.iterate(1, 2, meanReward=1.0)
    told = source.poll()
    assert [m.event for m in told if m.event != "event"] == ["status", "metrics", "log"]
    assert next(m for m in told if m.event == "status").data["phase"] == "Running"
    assert source.pause == follow_module.RUNNING_PAUSE_S

    worker.log("goodbye")
    worker.finish(verified=True)
    api.tick()
    told = drain(source)
    assert [m.event for m in told if m.event != "event"] == ["log", "status", "end"]
    assert told[-2].data["progress"]["iteration"] == 1
    assert told[-1].data["phase"] == "Succeeded"
    assert source.done


def test_a_new_line_is_there_at_the_next_poll_and_told_once(api):
    worker = start(api)
    source = follower(api)
    source.poll()
    worker.log("one")
    assert lines(source.poll()) == ["one"]
    assert lines(source.poll()) == []
    worker.log("a rank speaks", stream="env-0")
    assert lines(source.poll()) == ["a rank speaks"]


def test_every_id_is_a_place_to_go_on_from(api):
    worker = start(api)
    worker.log(RUN_STARTS)
    for number in range(5):
        worker.log(f"out {number}")
        worker.log(f"err {number}", stream="stderr")
        worker.log(f"rank {number}", stream="actor-0")
        worker.iterate(number + 1, 5, meanReward=float(number))
    worker.finish(verified=True)
    api.tick()
    whole = drain(follower(api))
    assert len(lines(whole)) == 16
    for place, message in enumerate(whole[:-1]):
        again = drain(follower(api, last_id=message.id))
        rest = [(m.event, m.data) for m in whole[place + 1 :] if m.event != "status"]
        assert [(m.event, m.data) for m in again if m.event != "status"] == rest


def test_resuming_over_http(api):
    worker = start(api)
    worker.log("one")
    worker.log("two")
    worker.finish()
    api.tick()
    told = events_of(api.get(f"{JOBS}/demo/logs?follow=true").text)
    assert [(event, data.get("line")) for event, data, _ in told] == [("log", "one"), ("log", "two"), ("end", None)]
    again = events_of(api.get(f"{JOBS}/demo/logs?follow=true", headers={"Last-Event-ID": told[0][2]}).text)
    assert [data.get("line") for _, data, _ in again] == ["two", None]


@pytest.mark.parametrize(
    "text", ["x", "1", "1.2", "1.2.3;", "1.2.3;a", "1.2.3;a=b", "1.2.3;../x=1", "1" * 30, "-1.0.0"]
)
def test_an_id_that_is_none(text):
    if text == "1.2.3;":
        assert str(Cursor.parse(text)) == "1.2.3"
        return
    with pytest.raises(UsageError):
        Cursor.parse(text)


def test_a_restart_is_followed_into_the_next_attempt(api):
    worker = start(api)
    source = follower(api)
    worker.log("first")
    api.controller.restart("demo")
    api.tick()
    api.cluster.worker("demo").log("second")
    api.cluster.worker("demo").finish()
    api.tick()
    told = drain(source)
    assert [(m.data["attempt"], m.data["line"]) for m in told if m.event == "log"] == [(1, "first"), (2, "second")]
    assert sum(m.event == "end" for m in told) == 1


def test_one_attempt_alone_ends_where_it_ended(api):
    start(api).log("first")
    api.controller.restart("demo")
    api.tick()
    told = drain(follower(api, attempt=1, logs_only=True))
    assert lines(told) == ["first"]
    assert told[-1].event == "end"


def test_tail_while_following(api):
    worker = start(api)
    for number in range(10):
        worker.log(f"{number}")
    source = follower(api, wanted=Wanted(tail=3), logs_only=True)
    assert lines(source.poll()) == ["7", "8", "9"]
    assert lines(source.poll()) == []
    worker.log("10")
    assert lines(source.poll()) == ["10"]
    assert lines(follower(api, wanted=Wanted(tail=0), logs_only=True).poll()) == []


def test_a_flood_comes_in_bounded_batches_and_in_order(api, monkeypatch):
    monkeypatch.setattr(follow_module, "BATCH", 400)
    worker = start(api)
    for number in range(60):
        worker.log(f"out {number:03d}")
        api.clock.advance(0.1)
        worker.log(f"err {number:03d}", stream="stderr")
        api.clock.advance(0.1)
    worker.finish()
    api.tick()
    source = follower(api, logs_only=True)
    first = source.poll()
    assert 0 < len(first) < 40
    told = lines(first + drain(source))
    assert told == [f"{stream} {number:03d}" for number in range(60) for stream in ("out", "err")]


def test_many_metrics_are_all_told_before_the_end(api, monkeypatch):
    monkeypatch.setattr(follow_module, "METRICS_BATCH", 10)
    worker = start(api)
    for number in range(35):
        worker.iterate(number + 1, 35)
    worker.finish()
    api.tick()
    told = drain(follower(api))
    assert [m.data["iteration"] for m in told if m.event == "metrics"] == list(range(1, 36))
    assert told[-1].event == "end"


def test_a_metrics_file_that_was_begun_again_is_read_again(api):
    worker = start(api)
    worker.iterate(1, 9)
    worker.iterate(2, 9)
    source = follower(api)
    source.poll()
    api.folder().metrics.unlink()
    assert source.poll() == []
    worker.iterate(1, 9, again=1.0)
    assert [m.data["iteration"] for m in source.poll() if m.event == "metrics"] == [1]


def test_a_job_that_is_deleted_ends_the_stream(api):
    start(api)
    source = follower(api)
    source.poll()
    api.controller.delete("demo")
    api.tick()
    told = source.poll()
    assert [m.event for m in told] == ["end"]
    assert told[0].data["reason"] == "Deleted"
    start(api)
    other = follower(api)
    other.poll()
    api.controller.delete("demo")
    api.tick()
    start(api)
    assert other.poll()[-1].data["reason"] == "Deleted"
