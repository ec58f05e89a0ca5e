from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlark.folder import write_json
from rlark.sdk import local
from rlark.sdk.follow import StreamEvent
from rlark.sdk.job import Job
from rlark.testing import FakeWorker

NODES = """\
nodes:
  - {name: box, cpus: 8, memory: 16Gi, shm: 4Gi, gpus: 2}
"""


def good_life(worker: FakeWorker) -> None:
    worker.begin()
    worker.log("Executing run script...")
    worker.log("iter 1/2")
    for iteration in (1, 2):
        worker.iterate(iteration, 2, meanReward=iteration / 2)
    worker.report("SignalSeen")
    artifacts = worker.folder.artifacts
    (artifacts / "policy.onnx").write_bytes(b"weights")
    from rlark.evidence.manifest import write_manifest

    write_manifest(artifacts)
    worker.finish(verified=True, gate=False)


def bad_life(worker: FakeWorker) -> None:
    worker.begin()
    worker.log("a fault", stream="stderr")
    worker.finish(3, message="rollout 0: ValueError: a fault")


@pytest.fixture
def lives(platform: Any) -> Any:
    platform.cluster.script = good_life
    with platform.ticking():
        yield platform


def test_a_job_is_followed_to_its_end(rlark: Any, lives: Any) -> None:
    result = rlark("submit", lives.write_job())
    assert result.code == 0, result.err
    lines = result.out.splitlines()
    assert lines[:2] == ["Executing run script...", "iter 1/2"]
    rows = dict(line.split("\t") for line in lines[2:])
    assert (rows["phase"], rows["verified"], rows["quality gate"], rows["exit code"]) == (
        "Succeeded",
        "yes",
        "failed",
        "0",
    )
    assert f"demo: submitted to {lives.address}" in result.err
    assert rows["artifacts"] == "policy.onnx; to get them: rlark artifacts demo pull"
    assert rows["logs"] == f"{lives.home.root}/jobs/demo/logs/attempt-1; to read them: rlark logs demo"
    assert "rlark events demo" in result.err


def test_a_failed_job(rlark: Any, lives: Any) -> None:
    lives.cluster.script = bad_life
    result = rlark("submit", lives.write_job())
    assert result.code == 100
    assert "a fault" in result.out
    assert dict(line.split("\t") for line in result.out.splitlines()[1:])["phase"] == "Failed"
    assert rlark("submit", lives.write_job("other"), "--exit-code", "job").code == 3


def test_as_json_only_the_job_is_on_stdout(rlark: Any, lives: Any) -> None:
    result = rlark("submit", lives.write_job(), "-o", "json")
    assert result.json["status"]["phase"] == "Succeeded"
    quiet = rlark("submit", lives.write_job("other"), "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, "other\n", "")


def test_detached_it_prints_the_name(rlark: Any, platform: Any) -> None:
    result = rlark("submit", "-d", platform.write_job())
    assert (result.code, result.out) == (0, "demo\n")
    assert "rlark logs -f demo" in result.err
    assert rlark("submit", "-d", platform.write_job("other"), "-o", "json").json["metadata"]["name"] == "other"


def test_standard_input_names_labels_and_changes(rlark: Any, platform: Any) -> None:
    text = platform.write_job().read_text()
    options = ["--name", " other ", "-l", "team=nav", "--set", "spec.priority=5"]
    assert rlark("submit", "-d", "-", *options, stdin=text).out == "other\n"
    job = rlark("get", "other", "-o", "json").json
    assert (job["metadata"]["labels"], job["spec"]["priority"]) == ({"team": "nav"}, 5)


def test_the_same_again_is_already_there_and_another_is_a_conflict(rlark: Any, platform: Any) -> None:
    rlark("submit", "-d", platform.write_job())
    again = rlark("submit", "-d", platform.write_job())
    assert (again.code, again.out) == (0, "demo\n")
    assert "already there" in again.err
    other = rlark("submit", "-d", platform.write_job(), "--set", "spec.priority=1")
    assert other.code == 7
    assert "--replace" in other.err
    assert rlark("submit", "-d", platform.write_job(), "--set", "spec.priority=1", "--replace").code == 7
    platform.worker().finish(0)
    platform.tick()
    replaced = rlark("submit", "-d", platform.write_job(), "--set", "spec.priority=1", "--replace")
    assert (replaced.code, "submitted" in replaced.err) == (0, True)


def test_an_ended_job_submitted_again_is_a_new_attempt(rlark: Any, lives: Any) -> None:
    rlark("submit", lives.write_job())
    result = rlark("submit", lives.write_job())
    assert "submitted" in result.err
    assert rlark("get", "demo", "-o", "json").json["status"]["attempt"] == 2


def test_nothing_starts_while_an_error_stands(rlark: Any, home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "boot", lambda *_: pytest.fail("the platform was started"))
    Path("job.yaml").write_text("apiVersion: rlinf.io/v1alpha1\nkind: Jop\nmetadata: {nam: x}\n", encoding="utf-8")
    result = rlark("submit", "job.yaml")
    assert (result.code, result.out) == (3, "")
    assert re.search(r"^job\.yaml:2:7: error RL\d{3} kind: ", result.err, re.M)
    assert re.search(r"^job\.yaml:3:12: error RL\d{3} metadata\.nam: .*did you mean", result.err, re.M)
    assert "nothing was started" in result.err


def test_a_dry_run_stores_nothing(rlark: Any, platform: Any) -> None:
    result = rlark("submit", "--dry-run", platform.write_job())
    assert result.code == 0
    assert result.out.startswith("apiVersion: rlinf.io/v1alpha1\n")
    assert "the platform would take this Job" in result.err
    assert rlark("jobs", "-q").out == ""
    assert rlark("submit", "--dry-run", platform.write_job(), "-o", "json").json["ok"] is True


def test_a_dry_run_without_a_platform_starts_none(rlark: Any, home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "boot", lambda *_: pytest.fail("the platform was started"))
    from rlark.testing import job_text

    Path("job.yaml").write_text(job_text(), encoding="utf-8")
    result = rlark("submit", "--dry-run", "job.yaml")
    assert result.code == 0
    assert "no platform runs" in result.err


def test_the_platform_is_started_when_none_runs(rlark: Any, platform: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    platform.home.platform.unlink()
    asked: list[Any] = []

    def boot(home: Any, verb: str, options: Any, talk: Any) -> dict[str, Any]:
        asked.append((verb, list(options)))
        talk("Starting a Ray head")
        write_json(home.platform, {"address": platform.address})
        return {"address": platform.address}

    monkeypatch.setattr(local, "boot", boot)
    monkeypatch.setenv("RLARK_PORT", "20020")
    result = rlark("submit", "-d", "-v", platform.write_job())
    assert (result.code, result.out) == (0, "demo\n"), result.err
    assert asked == [("up", ["--port", "20020"])]
    assert "starting the platform ..." in result.err
    assert "Starting a Ray head" in result.err
    assert rlark("submit", "-d", platform.write_job("next")).code == 0
    assert len(asked) == 1


def test_a_platform_that_does_not_start(rlark: Any, home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from rlark.testing import job_text

    refusal = '{"code": "unavailable", "message": "The Ray head did not come up: x", "hint": "rlark doctor"}'
    monkeypatch.setattr(local, "boot_command", lambda *_: [sys.executable, "-c", f"print('''{refusal}''')"])
    Path("job.yaml").write_text(job_text(), encoding="utf-8")
    result = rlark("submit", "job.yaml")
    assert result.code == 5
    assert "The Ray head did not come up: x" in result.err


def test_ctrl_c_detaches_and_the_job_goes_on(rlark: Any, platform: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: Job) -> Any:
        yield StreamEvent("log", {"line": "hello"})
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "follow", interrupted)
    result = rlark("submit", platform.write_job())
    assert (result.code, result.out) == (130, "hello\n")
    assert "demo goes on" in result.err
    assert "rlark logs -f demo" in result.err
    assert "rlark stop demo" in result.err
    assert rlark("get", "demo", "-o", "json").json["status"]["phase"] == "Running"


def test_on_a_terminal_there_is_a_bar(rlark: Any, platform: Any) -> None:
    """A real terminal: the other end of a pty sees the bar, the metrics and the table in colour."""
    platform.cluster.script = good_life
    primary, secondary = os.openpty()
    command = [sys.executable, "-m", "rlark.cli.main", "submit", str(platform.write_job())]
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "120"}
    with platform.ticking():
        process = subprocess.Popen(command, stdout=secondary, stderr=secondary, stdin=secondary, env=environment)
        os.close(secondary)
        seen = b""
        try:
            while part := os.read(primary, 65536):
                seen += part
        except OSError:  # the last writer has closed the terminal
            pass
        assert process.wait() == 0, seen.decode()
    os.close(primary)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode())
    assert "2/2" in text
    assert "meanReward 1" in text
    assert "Executing run script..." in text
    assert re.search(r"phase\s+Succeeded", text)
    assert b"\x1b[32mSucceeded" in seen


def test_no_color_is_kept_on_a_terminal(rlark: Any, platform: Any) -> None:
    primary, secondary = os.openpty()
    command = [sys.executable, "-m", "rlark.cli.main", "doctor", "--no-color"]
    process = subprocess.Popen(command, stdout=secondary, stderr=secondary, stdin=secondary)
    os.close(secondary)
    seen = b""
    try:
        while part := os.read(primary, 65536):
            seen += part
    except OSError:
        pass
    os.close(primary)
    assert process.wait() == 0
    assert b"versions" in seen
    assert not re.search(rb"\x1b\[3\d", seen)


def test_a_stopped_job_is_accepted_and_said_not_to_be_started(rlark: Any, platform: Any) -> None:
    job = platform.write_job(stopped=True)
    for detach in ([], ["-d"]):
        result = rlark("submit", job, *detach)
        assert (result.code, result.out) == (0, "demo\n")
        assert "not started, because spec.stopped is true; start it: rlark start demo" in result.err
    assert rlark("get", "demo", "-o", "json").json["status"]["phase"] == "Stopped"
    assert platform.cluster.workers == []


@pytest.mark.parametrize("ending", ["stop", "finish", "run on"])
def test_what_get_prints_is_submitted_under_another_name_and_runs(rlark: Any, platform: Any, ending: str) -> None:
    rlark("submit", "-d", platform.write_job(priority=2))
    if ending == "stop":
        rlark("stop", "demo")
    elif ending == "finish":
        platform.worker().finish(0)
    platform.tick()
    saved = rlark("get", "demo", "-o", "yaml").out
    result = rlark("submit", "-d", "--name", "other", "-", stdin=saved)
    assert (result.code, result.out) == (0, "other\n")
    first, second = (rlark("get", name, "-o", "json").json for name in ("demo", "other"))
    assert second["status"]["phase"] == "Running"
    assert second["spec"]["stopped"] is False
    assert {**second["spec"], "stopped": None} == {**first["spec"], "stopped": None}
    assert second["metadata"]["uid"] != first["metadata"]["uid"]


def test_a_saved_job_can_still_be_asked_to_stay_stopped(rlark: Any, platform: Any) -> None:
    rlark("submit", "-d", platform.write_job())
    saved = rlark("get", "demo", "-o", "yaml").out
    rlark("submit", "-d", "--name", "other", "--set", "spec.stopped=true", "-", stdin=saved)
    assert rlark("get", "other", "-o", "json").json["status"]["phase"] == "Stopped"
