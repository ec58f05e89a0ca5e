from __future__ import annotations

import json
from typing import Any

import pytest

from rlark.sdk.job import Job, LogRecord


@pytest.fixture
def ran(rlark: Any, platform: Any) -> Any:
    """A Job that has said something and failed."""
    assert rlark("submit", "-d", platform.write_job()).code == 0
    worker = platform.worker()
    worker.log("Executing run script...")
    platform.clock.advance(100)
    worker.log("hello")
    worker.log("a warning", stream="stderr")
    worker.log("rank talk", stream="env-0")
    worker.finish(3)
    platform.tick()
    return platform


def test_all_of_it(rlark: Any, ran: Any) -> None:
    result = rlark("logs", "demo")
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "Executing run script..."
    assert sorted(lines[1:]) == ["a warning", "hello", "rank talk"]


def test_parts_of_it(rlark: Any, ran: Any) -> None:
    assert rlark("logs", "demo", "--stream", "stdout", "-n", 1).out == "hello\n"
    assert rlark("logs", "demo", "--component", "env").out == "[env-0] rank talk\n"
    assert rlark("logs", "demo", "--since", "2026-01-01T00:01:00Z", "--stream", "stdout").out == "hello\n"
    assert rlark("logs", "demo", "-n", 1, "--stream", "stdout", "--timestamps").out.endswith("Z hello\n")
    records = [json.loads(line) for line in rlark("logs", "demo", "-o", "json", "--component", "env").out.splitlines()]
    assert [(record["stream"], record["rank"], record["line"]) for record in records] == [("env-0", 0, "rank talk")]


def test_what_cannot_be_asked(rlark: Any, ran: Any) -> None:
    assert rlark("logs", "demo", "--attempt", 2).code == 102
    assert rlark("logs", "demo", "--since", "yesterday").code == 2
    assert rlark("logs", "demo", "-n", "-1").code == 2


def test_following_ends_with_the_jobs_outcome(rlark: Any, ran: Any) -> None:
    result = rlark("logs", "-f", "demo", "--stream", "stdout")
    assert (result.code, result.out) == (100, "Executing run script...\nhello\n")


def test_ctrl_c_says_how_to_come_back(rlark: Any, ran: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> Any:
        yield LogRecord("first")
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "logs", interrupted)
    result = rlark("logs", "-f", "demo")
    assert (result.code, result.out) == (130, "first\n")
    assert "rlark logs -f demo" in result.err
