"""Reading `rlark get` and `rlark events` tells what happened, why, where, and where to look; and the curves show."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest
import yaml

from rlark.host.process import command, descendants
from tests.acceptance.user import User

pytestmark = pytest.mark.acceptance
WRITE = Callable[[str, str], Path]
OUTPUT = {"outputs": [{"path": "policy.bin", "minBytes": 3}]}
MAKES_IT = "echo weights > $RLARK_JOB_DIR/artifacts/policy.bin"


def script_job(name: str, run: str, *, expect: dict[str, Any] | None = None, **task: str) -> str:
    """A Job of one run script under the platform's own head."""
    ray = {"replicas": 1, "head": "platform", "resources": {"cpu": 1, "gpu": 0}}
    worker = {"name": "worker", "head": True, "agentType": "Ray", "ray": ray, "runScript": run, **task}
    if expect:
        worker["expect"] = expect
    job = {"apiVersion": "rlinf.io/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": {"tasks": [worker]}}
    return yaml.safe_dump(job, sort_keys=False)


def events(user: User, name: str) -> list[tuple[str, str, str]]:
    """What `rlark events` tells: type, reason, message; that it is in order is checked."""
    _, *rows = [line.split("\t") for line in user.rlark("events", name).splitlines()]
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    return [(kind, reason, message) for _, _, kind, reason, message in rows]


def points_at(user: User, name: str) -> tuple[str, str]:
    """Where `rlark get` points, and the command it names; what programs are told is the same."""
    rows = dict(line.split("\t", 1) for line in user.rlark("get", name).splitlines())
    [label] = [label for label in rows if label.startswith("-> ")]
    assert user.status(name)["pointsAt"]["step"] == label[3:]
    return label[3:], rows["look at"]


def test_a_run_that_proves_itself_is_told_step_by_step(machine: User, write: WRITE) -> None:
    expect = {"firstSignal": {"pattern": "iter 1/", "within": "5m"}, **OUTPUT}
    job = script_job("proven", f"echo iter 1/1\n{MAKES_IT}\n", expect=expect, prepareScript="export WORD=moon\n")
    machine.rlark("submit", write("proven", job))
    told = events(machine, "proven")
    assert [reason for _, reason, _ in told] == [
        "Accepted",
        "Leased",
        *("Launched", "WorkerStarted"),
        "Prepared",
        "RayReady",
        "Started",
        "SignalSeen",
        "Verified",
        "Completed",
        "Released",
    ]
    assert {kind for kind, _, _ in told} == {"Normal"}
    assert all(message for _, _, message in told)
    status = machine.status("proven")
    assert (status["phase"], status["verified"], status["pointsAt"]) == ("Succeeded", True, None)
    assert "-> " not in machine.rlark("get", "proven")
    times = [item["lastTransitionTime"] for item in status["conditions"] if item["type"] != "Leased"]
    assert times == sorted(times)


def test_a_silent_run_is_pointed_at_with_its_stacks_and_goes_on(machine: User, write: WRITE, tmp_path: Path) -> None:
    go = tmp_path / "go"
    program = f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.05)\n"
    path = tmp_path / "silent.py"
    path.write_text(program)
    expect = {"firstSignal": {"pattern": "iter 1/", "within": "1s"}, **OUTPUT}
    job = script_job("silent", f"{sys.executable} {path}\necho iter 1/1\n{MAKES_IT}\n", expect=expect)
    machine.rlark("submit", "-d", write("silent", job))
    machine.until("silent", lambda status: (status["pointsAt"] or {}).get("reason") == "Stalled")
    assert points_at(machine, "silent") == ("first signal", "rlark logs silent --stream stderr")
    deadline = time.monotonic() + 30
    while "silent.py" not in machine.rlark("logs", "silent", "--stream", "stderr"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    go.touch()
    status = machine.ended("silent")
    assert (status["phase"], status["verified"], status["exitCode"]) == ("Succeeded", False, 0)
    assert points_at(machine, "silent")[0] == "first signal"
    [warning] = [event for event in events(machine, "silent") if event[0] == "Warning"]
    assert warning[1] == "Stalled"
    assert "no line matched 'iter 1/' within 1 s" in warning[2]


def test_a_prepare_script_that_fails_is_pointed_at_with_its_line(machine: User, write: WRITE) -> None:
    job = script_job("unprepared", "true", expect=OUTPUT, prepareScript="export A=1\nls /nowhere-at-all\n")
    machine.rlark("submit", write("unprepared", job), code=100)
    assert points_at(machine, "unprepared") == ("prepared", "rlark logs unprepared -n 50")
    [(_, reason, message)] = [event for event in events(machine, "unprepared") if event[0] == "Warning"]
    assert reason == "PrepareFailed"
    assert "line 2 with status 2: ls /nowhere-at-all" in message
    assert machine.status("unprepared")["verified"] is False


def test_a_run_without_its_output_is_pointed_at_the_output(machine: User, write: WRITE) -> None:
    machine.rlark("submit", write("empty-handed", script_job("empty-handed", "true", expect=OUTPUT)), code=100)
    assert points_at(machine, "empty-handed") == ("outputs verified", "rlark artifacts empty-handed")
    status = machine.status("empty-handed")
    assert (status["reason"], status["exitCode"], status["verified"]) == ("OutputMissing", 0, False)
    assert "policy.bin" in status["pointsAt"]["message"]


def test_a_run_that_fails_and_one_of_which_nothing_is_expected(machine: User, write: WRITE) -> None:
    machine.rlark("submit", write("fails", script_job("fails", "echo oops >&2; exit 3")), code=100)
    assert points_at(machine, "fails") == ("run completed", "rlark logs fails -n 50")
    assert machine.status("fails")["pointsAt"]["message"] == "the run exited with code 3; its last words: oops"
    machine.rlark("submit", write("carefree", script_job("carefree", "true")))
    status = machine.status("carefree")
    assert (status["phase"], status["verified"], status["pointsAt"]) == ("Succeeded", None, None)


WRITES_CURVES = """
import os
from pathlib import Path
from rlark.host.clock import SystemClock
from rlark.runtime.tensorboard import EventFile

events = EventFile(Path(os.environ["RLARK_TENSORBOARD_DIR"]) / "first", SystemClock())
for step in range(3):
    events.write(step, {"meanReward": float(step)})
events.close()
"""


def fetch(user: User, path: str, *, wanted: Callable[[str], bool] = bool) -> tuple[str, Any]:
    """A page of the API, asked until it is as wanted: TensorBoard reads a folder now and then."""
    address = f"http://127.0.0.1:{user.port}/api/v1/rlinf.io/v1alpha1/jobs/{path}"
    token = (user.home / "token").read_text().strip()
    deadline = time.monotonic() + 60
    while True:
        with urlopen(Request(address, headers={"Authorization": f"Bearer {token}"}), timeout=60) as answer:
            text = answer.read().decode()
            if wanted(text):
                return text, answer
        assert time.monotonic() < deadline, text
        time.sleep(0.5)


def test_the_curves_of_a_run_show_in_its_tensorboard(machine: User, write: WRITE, tmp_path: Path) -> None:
    program, curves = tmp_path / "curves.py", tmp_path / "curves"
    program.write_text(WRITES_CURVES)
    job = script_job("curves", f"{sys.executable} {program}\n", tensorBoardDir=str(curves))
    machine.rlark("submit", write("curves", job))
    assert list(curves.rglob("events.out.tfevents.*"))
    page, answer = fetch(machine, "curves/tensorboard")  # without a slash: TensorBoard moves it under its prefix
    assert "TensorBoard" in page
    assert answer.url.endswith("/jobs/curves/tensorboard/")
    assert "script-src" in answer.headers["Content-Security-Policy"]
    runs, _ = fetch(machine, "curves/tensorboard/data/runs", wanted=lambda text: text != "[]")
    assert json.loads(runs) == ["first"]
    points, _ = fetch(machine, "curves/tensorboard/data/plugin/scalars/scalars?run=first&tag=meanReward")
    assert [value for _, _, value in json.loads(points)] == [0.0, 1.0, 2.0]
    assert len(boards()) == 1
    machine.rlark("delete", "-y", "curves")
    deadline = time.monotonic() + 20
    while boards():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def boards() -> list[str]:
    """TensorBoards of the suite's own that still run."""
    return [shown for one in descendants(os.getpid()) if "tensorboard.main" in (shown := command(one.pid))]
