from __future__ import annotations

import io
from typing import Any

import pytest


@pytest.fixture
def demo(rlark: Any, platform: Any) -> Any:
    assert rlark("submit", "-d", platform.write_job()).code == 0
    return platform


def phase(rlark: Any, name: str = "demo") -> str:
    return rlark("get", name, "-o", "json").json["status"]["phase"]


def test_stop_start_and_restart(rlark: Any, demo: Any) -> None:
    stopped = rlark("stop", "demo")
    assert (stopped.code, stopped.out, stopped.err) == (0, "", "demo: stopping\n")
    demo.tick()
    assert phase(rlark) == "Stopped"
    assert rlark("start", "demo").err == "demo: started again\n"
    demo.tick()
    status = rlark("get", "demo", "-o", "json").json["status"]
    assert (status["phase"], status["attempt"]) == ("Running", 2)
    assert rlark("restart", "demo", "-o", "name").out == "demo\n"
    demo.tick()
    demo.tick()
    assert rlark("get", "demo", "-o", "json").json["status"]["attempt"] == 3


def test_one_refusal_does_not_keep_the_others_from_it(rlark: Any, demo: Any) -> None:
    result = rlark("stop", "nobody", "demo")
    assert result.code == 102
    assert "nobody" in result.err
    assert "demo: stopping" in result.err
    assert result.err.count("stopping") == 1


def test_quiet_prints_what_was_done(rlark: Any, demo: Any) -> None:
    result = rlark("stop", "-q", "demo")
    assert (result.out, result.err) == ("demo\n", "")


def test_delete_asks_and_takes_no_answer_for_no(rlark: Any, demo: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    result = rlark("delete", "demo", stdin="y\n")
    assert result.code == 2
    assert "-y" in result.err
    assert phase(rlark) == "Running"

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def at_a_terminal(answer: str) -> Any:
        monkeypatch.setattr("io.StringIO", Terminal)
        try:
            return rlark("delete", "demo", stdin=answer)
        finally:
            monkeypatch.setattr("io.StringIO", Terminal.__mro__[1])

    assert at_a_terminal("n\n").code == 130
    assert phase(rlark) == "Running"
    done = at_a_terminal("y\n")
    assert done.code == 0
    demo.tick()
    assert rlark("get", "demo").code == 102


def test_delete_without_asking(rlark: Any, demo: Any) -> None:
    demo.worker().finish(0)
    demo.tick()
    result = rlark("delete", "-y", "demo")
    assert (result.code, result.err) == (0, "demo: deleted\n")
    assert rlark("get", "demo").code == 102
    assert not (demo.home.jobs / "demo").exists()


def test_a_running_job_is_deleted_when_its_processes_are_gone(rlark: Any, demo: Any) -> None:
    demo.worker().obeys = False
    result = rlark("delete", "-y", "demo")
    assert result.code == 0
    assert "demo: deleting; its last processes still end" in result.err
