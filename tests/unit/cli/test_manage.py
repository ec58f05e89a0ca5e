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
    assert (stopped.code, stopped.out, stopped.err) == (0, "", "demo: stopped\n")
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
    assert "demo: stopped" in result.err
    assert result.err.count("stopped") == 1


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


def test_what_has_nothing_to_do_is_told_as_it_is(rlark: Any, demo: Any) -> None:
    assert rlark("start", "demo").err == "demo: runs already\n"
    demo.worker().finish(0)
    demo.tick()
    assert rlark("stop", "demo").err == "demo: has ended already: Succeeded\n"
    assert phase(rlark) == "Succeeded"


def test_a_job_that_waits_is_not_started_twice(rlark: Any, platform: Any) -> None:
    platform.cluster.busy = "GPU 0 is used outside rlark"
    rlark("submit", "-d", platform.write_job(gpu=1))
    assert rlark("start", "demo").err == "demo: waits for its turn already; see rlark queue\n"
    assert rlark("restart", "demo").err == "demo: waits for its turn already; see rlark queue\n"
    assert rlark("stop", "demo").err == "demo: stopped\n"
    assert phase(rlark) == "Stopped"


def test_a_job_that_is_stopping_starts_again_when_it_has(rlark: Any, demo: Any) -> None:
    demo.worker().obeys = False
    assert rlark("stop", "demo").err == "demo: stopping\n"
    assert rlark("start", "demo").err == "demo: starts again when it has stopped\n"
    demo.worker().finish(143, reason="Stopped")
    demo.tick()
    demo.tick()
    status = rlark("get", "demo", "-o", "json").json["status"]
    assert (status["phase"], status["attempt"]) == ("Running", 2)
