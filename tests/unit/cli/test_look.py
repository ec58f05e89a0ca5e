from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlark.cli.look import outcome_code
from rlark.sdk.client import Client
from rlark.sdk.follow import StreamEvent
from rlark.spec.yaml import parse


def submit(rlark: Any, platform: Any, name: str = "demo", *options: str, **job: Any) -> None:
    result = rlark("submit", "-d", platform.write_job(name, **job), *options)
    assert result.code == 0, result.err


def end(platform: Any, name: str = "demo", exit_code: int = 0, **outcome: Any) -> None:
    platform.clock.advance(65)
    platform.worker(name).finish(exit_code, **outcome)
    platform.tick()


def test_jobs_in_every_form(rlark: Any, platform: Any) -> None:
    empty = rlark("jobs")
    assert (empty.code, empty.out.count("\n")) == (0, 1)
    assert "rlark submit" in empty.err
    submit(rlark, platform, "a", "-l", "team=nav")
    submit(rlark, platform, "b")
    end(platform, "b", 3)
    table = rlark("jobs").rows
    assert table[0] == ["NAME", "PHASE", "VERIFIED", "GATE", "PROGRESS", "TOOK", "AGE", "REASON"]
    assert [row[:5] for row in table[1:]] == [["b", "Failed", "-", "-", "-"], ["a", "Running", "-", "-", "-"]]
    assert table[1][5] == "1m 05s"
    wide = rlark("jobs", "-o", "wide").rows
    assert wide[0][-5:] == ["ATTEMPT", "EXIT", "NODE", "GPUS", "LABELS"]
    assert wide[2][-1] == "team=nav"
    assert rlark("jobs", "-q").out == "b\na\n"
    assert [job["metadata"]["name"] for job in rlark("jobs", "-o", "json").json["items"]] == ["b", "a"]
    assert len(rlark("jobs", "-o", "yaml").yaml["items"]) == 2


def test_jobs_by_label_and_phase(rlark: Any, platform: Any) -> None:
    submit(rlark, platform, "a", "-l", "team=nav")
    submit(rlark, platform, "b")
    assert rlark("jobs", "-q", "-l", "team=nav").out == "a\n"
    assert rlark("jobs", "-q", "-l", "team=arm").out == ""
    assert rlark("jobs", "-q", "--phase", "running").out == "b\na\n"
    assert rlark("jobs", "-q", "--phase", "Failed").out == ""
    assert rlark("jobs", "-l", "team").code == 2


def test_watching_tells_each_job_and_every_change(rlark: Any, platform: Any) -> None:
    submit(rlark, platform, "a")
    stream = Client({"home": str(platform.home.root)}).watch()
    first = next(stream)
    assert (first.type, first.data["metadata"]["name"], first.data["status"]["phase"]) == ("job", "a", "Running")
    end(platform, "a")
    assert next(event.data for event in stream if event.data["status"]["phase"] != "Running")["metadata"]["name"] == "a"
    rlark("delete", "-y", "a")
    assert next(event for event in stream if event.type == "deleted").data == {"name": "a"}


def test_what_is_watched_in_every_form(rlark: Any, platform: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    submit(rlark, platform)
    watch = Client.watch

    def one_and_its_end(*arguments: Any, **options: Any) -> Any:
        yield next(watch(*arguments, **options))
        yield StreamEvent("deleted", {"name": "demo"})
        raise KeyboardInterrupt

    monkeypatch.setattr(Client, "watch", one_and_its_end)
    result = rlark("jobs", "-w", "-o", "json")
    assert (result.code, result.out.count("\n")) == (130, 1)
    assert result.json["metadata"]["name"] == "demo"
    assert "demo: deleted" in result.err
    assert rlark("jobs", "-w").rows[0][:2] == ["demo", "Running"]
    assert rlark("jobs", "-w", "-q").out == "demo\n"
    assert rlark("jobs", "-w", "-o", "yaml").yaml["kind"] == "Job"


def test_get_shows_where_a_job_stands(rlark: Any, platform: Any) -> None:
    submit(rlark, platform, gpu=1)
    platform.worker().report("Placed", data={"ranks": [RANK]})
    platform.tick()
    rows = dict(rlark("get", "demo").rows)
    assert (rows["job"], rows["phase"], rows["gpus"], rows["attempt"]) == ("demo", "Running", "0 (faked)", "1")
    assert rows["rank env:1"] == "pid 77, VISIBLE_DEVICES=0 (faked)"
    assert "Leased" in dict(row[:2] for row in rlark("get", "demo", "-o", "wide").rows)
    assert rlark("get", "demo", "-q").out == "demo\n"
    assert rlark("get", "demo", "-o", "json").json["status"]["phase"] == "Running"


RANK = {"component": "env", "rank": 1, "pid": 77, "gpus": [0], "visibleDevices": "0", "faked": True, "log": "env-1.log"}


def test_what_get_prints_as_yaml_is_the_same_job(rlark: Any, platform: Any) -> None:
    submit(rlark, platform, run="echo 1e5\n  on: 010\n", priority=2)
    text = rlark("get", "demo", "-o", "yaml").out
    again = Path("again.yaml")
    again.write_text(text, encoding="utf-8")
    result = rlark("submit", "-d", again)
    assert result.code == 0, result.err
    assert "already there" in result.err
    assert parse(text).data["spec"]["tasks"][0]["runScript"] == "echo 1e5\n  on: 010\n"


def test_an_unknown_job(rlark: Any, platform: Any) -> None:
    for command in ("get", "logs", "events", "metrics", "artifacts", "stop", "start", "restart", "wait"):
        result = rlark(command, "nobody")
        assert (result.code, result.out) == (102, ""), command
        assert "nobody" in result.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["jobs"],
        ["get", "demo"],
        ["logs", "demo"],
        ["queue"],
        ["nodes"],
        ["engines"],
        ["nodes", "cordon", "x"],
        ["stop", "demo"],
        ["artifacts", "demo"],
    ],
)
def test_without_a_platform_every_command_says_how_to_start_one(rlark: Any, arguments: list[str]) -> None:
    result = rlark(*arguments)
    assert result.code == 5
    assert "rlark up" in result.err


def test_an_address_given_by_hand_is_named_where_it_came_from(rlark: Any) -> None:
    result = rlark("jobs", "--address", "http://127.0.0.1:9")
    assert result.code == 5
    assert "it comes from --address" in result.err


def test_the_wrong_token(rlark: Any, platform: Any) -> None:
    result = rlark("jobs", "--token", "wrong")
    assert result.code == 6
    assert "the one from --token" in result.err
    assert rlark("jobs", "--token", "secret").code == 0
    assert rlark("token", "rotate").code == 0
    assert rlark("jobs").code == 0
    assert rlark("jobs", "--token", "secret").code == 6


def test_wait_ends_with_the_worst_outcome(rlark: Any, platform: Any) -> None:
    for name in ("good", "bad", "stopped"):
        submit(rlark, platform, name)
    end(platform, "good")
    end(platform, "bad", 3)
    assert rlark("wait", "good", "bad", "--timeout", 0).code == 100
    rlark("stop", "stopped")
    platform.tick()
    good = rlark("wait", "good", "stopped")
    assert good.code == 103
    assert [row[:2] for row in good.rows[1:]] == [["good", "Succeeded"], ["stopped", "Stopped"]]
    assert rlark("wait", "good", "-q").out == "good\n"


def test_wait_gives_up(rlark: Any, platform: Any) -> None:
    submit(rlark, platform)
    result = rlark("wait", "demo", "--timeout", 0)
    assert result.code == 101
    assert "had not ended after 0 s" in result.err
    assert result.rows[1][:2] == ["demo", "Running"]


@pytest.mark.parametrize(
    ("status", "code", "of_the_run"),
    [
        ({"phase": "Succeeded", "exitCode": 0}, 0, 0),
        ({"phase": "Failed", "exitCode": 3}, 100, 3),
        ({"phase": "Failed", "exitCode": -9}, 100, 137),
        ({"phase": "Failed", "exitCode": None}, 100, 100),
        ({"phase": "Failed", "exitCode": 0}, 100, 100),
        ({"phase": "Stopped", "exitCode": 143}, 103, 143),
        ({"phase": "Running"}, 101, 101),
    ],
)
def test_outcomes_as_exit_codes(status: dict[str, Any], code: int, of_the_run: int) -> None:
    record = {"metadata": {"name": "demo"}, "status": status}
    assert outcome_code(record) == code
    assert outcome_code(record, of_the_run=True) == of_the_run


def test_succeeded_without_what_it_expects_is_no_success_for_a_program(rlark: Any, platform: Any) -> None:
    expected = ("--set", "spec.tasks[0].expect.firstSignal.pattern='iter 1/'")
    for name, options, seen in (("in-time", expected, True), ("late", expected, False), ("unstated", (), False)):
        submit(rlark, platform, name, *options)
        worker = platform.worker(name)
        worker.report("SignalSeen", status=seen, reason="SignalSeen" if seen else "NotSeen", message="as it came")
        worker.finish(0, verified=seen if options else None)
        platform.tick()
    phases = {row[0]: row[1] for row in rlark("jobs").rows[1:]}
    assert phases == dict.fromkeys(("in-time", "late", "unstated"), "Succeeded")
    assert [rlark("wait", name).code for name in ("in-time", "late", "unstated")] == [0, 100, 0]
    assert rlark("logs", "-f", "late").code == 100
    assert rlark("wait", "in-time", "late").code == 100


def test_events(rlark: Any, platform: Any) -> None:
    submit(rlark, platform)
    rows = rlark("events", "demo").rows
    assert rows[0] == ["TIME", "ATTEMPT", "TYPE", "REASON", "MESSAGE"]
    assert [row[3] for row in rows[1:3]] == ["Accepted", "Leased"]
    items = rlark("events", "demo", "-o", "json").json["items"]
    assert [item["seq"] for item in items] == sorted(item["seq"] for item in items)


def test_metrics(rlark: Any, platform: Any) -> None:
    submit(rlark, platform)
    assert "has measured nothing yet" in rlark("metrics", "demo").err
    worker = platform.worker()
    worker.iterate(1, 2, meanReward=0.5, recentSuccess=None)
    worker.iterate(2, 2, meanReward=1.25, recentSuccess=0.125)
    rows = rlark("metrics", "demo").rows
    assert rows[0][:2] == ["iteration", "iterations"]
    named = [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    assert [(row["meanReward"], row["recentSuccess"]) for row in named] == [("0.5", "-"), ("1.25", "0.125")]
    whole = rlark("metrics", "demo", "-o", "json").json
    assert (whole["count"], whole["metrics"]["meanReward"]) == (2, [0.5, 1.25])


def test_the_queue_says_who_waits_for_what(rlark: Any, platform: Any) -> None:
    assert "nothing waits" in rlark("queue").err
    submit(rlark, platform, "first", gpu=2)
    submit(rlark, platform, "second", gpu=1)
    rows = rlark("queue").rows
    assert rows[0] == ["POSITION", "JOB", "PRIORITY", "REASON"]
    assert rows[1][:3] == ["1", "second", "0"]
    assert "first" in rows[1][3]
    assert "first" in rlark("jobs", "--phase", "pending").rows[1][7]
    assert rlark("queue", "-q").out == "second\n"


def test_what_if_a_job_were_submitted(rlark: Any, platform: Any) -> None:
    two = platform.write_job("two", gpu=2)
    assert dict(rlark("queue", "--what-if", two).rows)["starts"] == "at once"
    submit(rlark, platform, "one", gpu=1)
    waits = rlark("queue", "--what-if", two, "-o", "json").json
    assert (waits["startsNow"], waits["position"]) == (False, 1)
    free = "1 of 2 GPUs are free, the others are leased by one (1)"
    assert waits["reason"] == f"the Job would wait in the queue: {free}"
    submit(rlark, platform, "two", gpu=2)
    behind = dict(rlark("queue", "--what-if", platform.write_job("three")).rows)
    assert (behind["starts"], behind["reason"]) == ("waits at position 2", "behind two")
    assert dict(rlark("queue", "--what-if", platform.write_job("urgent", priority=1)).rows)["starts"] == "at once"
    assert rlark("queue", "--what-if", platform.write_job("big", gpu=9)).code == 4
