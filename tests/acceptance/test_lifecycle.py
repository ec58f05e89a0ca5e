"""What a user does with a Job besides running it: stop, start, restart, clone, replace, delete."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlark.host.process import identify
from tests.acceptance.user import User, toy_job

pytestmark = pytest.mark.acceptance
Write = Callable[[str, str], Path]
UNTIL_TOLD = "trap 'echo saved; exit 0' TERM\necho \"attempt $RLARK_ATTEMPT\"\nsleep 300 & wait\n"
"""A run that goes on until it is told to end, and then ends well."""


def script_job(name: str, run: str, *, prepare: str = "", cpu: float = 0.5, mounts: object = (), **spec: object) -> str:
    """A Job of one run script on the platform's head, as YAML."""
    ray = {"replicas": 1, "head": "platform", "resources": {"cpu": cpu}, "mounts": list(mounts)}  # type: ignore[call-overload]
    task = {"name": "worker", "head": True, "ray": ray, "prepareScript": prepare, "runScript": run}
    job = {
        "apiVersion": "rlinf.io/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "labels": {"suite": "lifecycle"}},
        "spec": {"tasks": [task], "terminationGrace": "2s", **spec},
    }
    return yaml.safe_dump(job, sort_keys=False)


@pytest.fixture
def submit(machine: User, write: Write) -> Iterator[Callable[..., str]]:
    """Submit a Job and do not follow it; whatever a test submits is deleted at its end."""
    names = []

    def go(name: str, text: str, *options: str, code: int = 0) -> str:
        names.append(name)
        return machine.rlark("submit", "-d", write(name, text), *options, code=code)

    yield go
    machine.rlark("delete", "-y", *names, code=None)


def started(machine: User, name: str, attempt: int = 1) -> dict[str, Any]:
    """Wait until an attempt's run goes."""

    def goes(status: dict[str, Any]) -> bool:
        seen = {condition["type"]: condition["status"] for condition in status["conditions"]}
        return status["attempt"] == attempt and status["phase"] == "Running" and seen.get("Started") == "True"

    status = machine.until(name, goes)
    until_printed(machine, name, f"attempt {attempt}")
    return status


def until_printed(machine: User, name: str, line: str) -> None:
    machine.until(name, lambda _: line in machine.rlark("logs", name).splitlines())


def reasons(machine: User, name: str) -> list[str]:
    return [event["reason"] for event in machine.json("events", name)["items"]]


def spec_of(machine: User, name: str) -> dict[str, Any]:
    return {**machine.json("get", name)["spec"], "stopped": None}


def run_of(machine: User, name: str) -> int:
    """The process id of a Job's run."""
    [said] = [
        e["message"] for e in machine.json("events", name)["items"] if e["message"].startswith("the run is process")
    ][-1:]
    return int(said.split()[-1])


def test_stop_start_and_restart(machine: User, submit: Callable[..., str]) -> None:
    submit("moving", script_job("moving", UNTIL_TOLD))
    started(machine, "moving")
    run = run_of(machine, "moving")
    machine.rlark("stop", "moving")
    machine.rlark("wait", "moving", code=103)
    status = machine.status("moving")
    assert (status["phase"], status["reason"], status["exitCode"]) == ("Stopped", "Stopped", 0)
    assert identify(run) is None
    machine.rlark("start", "moving")
    started(machine, "moving", attempt=2)
    assert "runs already" in machine.rlark("start", "moving", code=None)
    machine.rlark("restart", "moving")
    started(machine, "moving", attempt=3)
    logs = [machine.rlark("logs", "moving", "--attempt", str(number)).splitlines() for number in (1, 2, 3)]
    assert [f"attempt {number}" in log for number, log in enumerate(logs, 1)] == [True] * 3
    assert ["saved" in log for log in logs] == [True, True, False]
    told = reasons(machine, "moving")
    assert [told.count(reason) for reason in ("StopRequested", "RestartRequested", "Stopped")] == [1, 1, 2]


def test_a_run_that_fails_is_tried_again_and_every_attempt_keeps_its_log(
    machine: User, submit: Callable[..., str]
) -> None:
    run = 'echo "attempt $RLARK_ATTEMPT"\n[ "$RLARK_ATTEMPT" = 3 ] || exit $((10 + RLARK_ATTEMPT))\n'
    prepare = 'echo "prepared for $RLARK_ATTEMPT"\n'
    job = script_job("tried", run, prepare=prepare, restartPolicy="OnFailure", backoffLimit=2)
    submit("tried", job)
    status = machine.ended("tried")
    assert (status["phase"], status["attempt"], status["exitCode"]) == ("Succeeded", 3, 0)
    for attempt in (1, 2, 3):
        log = machine.rlark("logs", "tried", "--attempt", str(attempt)).splitlines()
        assert [f"prepared for {attempt}", f"attempt {attempt}"] == [
            line for line in log if line.endswith(f" {attempt}")
        ]
    messages = [event["message"] for event in machine.json("events", "tried")["items"]]
    assert [f"the run exited with code {code}" in " ".join(messages) for code in (11, 12)] == [True, True]
    assert reasons(machine, "tried").count("Retried") == 2
    assert "no attempt 4" in machine.rlark("logs", "tried", "--attempt", "4", code=102)


def test_tries_come_to_an_end(machine: User, submit: Callable[..., str]) -> None:
    submit("hopeless", script_job("hopeless", "exit 7\n", restartPolicy="OnFailure", backoffLimit=1))
    machine.rlark("wait", "hopeless", code=100)
    status = machine.status("hopeless")
    assert (status["phase"], status["reason"], status["attempt"], status["exitCode"]) == ("Failed", "RunFailed", 2, 7)


def test_an_attempt_that_takes_too_long_is_ended_though_it_does_not_listen(
    machine: User, submit: Callable[..., str]
) -> None:
    run = "trap '' TERM\necho \"attempt 1\"\nwhile :; do sleep 0.1; done\n"
    submit("slow", script_job("slow", run, activeDeadline="1s", terminationGrace="500ms"))
    status = machine.ended("slow")
    assert (status["phase"], status["reason"], status["exitCode"]) == ("Failed", "DeadlineExceeded", -9)
    assert "activeDeadline" in status["message"]


def test_a_job_that_is_accepted_stopped_waits_for_its_start(machine: User, submit: Callable[..., str]) -> None:
    submit("later", script_job("later", "echo now\n", stopped=True))
    status = machine.status("later")
    assert (status["phase"], status["attempt"]) == ("Stopped", 0)
    machine.rlark("start", "later")
    assert machine.ended("later")["phase"] == "Succeeded"
    assert machine.json("get", "later")["spec"]["stopped"] is False


def test_one_that_waits_is_stopped_at_once(machine: User, submit: Callable[..., str]) -> None:
    submit("holder", script_job("holder", UNTIL_TOLD, cpu=3.5))
    submit("waiter", script_job("waiter", "true\n", cpu=1))
    machine.until("waiter", lambda status: (status["queue"] or {}).get("position") == 1)
    assert "holder" in machine.status("waiter")["queue"]["reason"]
    assert "waits for its turn" in machine.rlark("restart", "waiter", code=None)
    machine.rlark("stop", "waiter")
    status = machine.status("waiter")
    assert (status["phase"], status["attempt"], status["message"]) == ("Stopped", 0, "stopped before it started")


def test_what_get_prints_runs_under_another_name(machine: User, submit: Callable[..., str]) -> None:
    submit("first", script_job("first", UNTIL_TOLD, priority=1))
    started(machine, "first")
    while_it_runs = machine.rlark("get", "first", "-o", "yaml")
    machine.rlark("stop", "first")
    machine.ended("first")
    once_stopped = machine.rlark("get", "first", "-o", "yaml")
    try:
        for name, saved in (("second", while_it_runs), ("third", once_stopped)):
            assert machine.rlark("submit", "-d", "--name", name, "-", stdin=saved) == f"{name}\n"
        for name in ("second", "third"):
            started(machine, name)
            assert spec_of(machine, name) == spec_of(machine, "first")
    finally:
        machine.rlark("delete", "-y", "second", "third", code=None)


def test_a_clone_keeps_its_configuration_and_rlarks_own_form(
    machine: User, submit: Callable[..., str], shared: Path
) -> None:
    submit("toy", toy_job("toy", {"actor,rollout,env": "0"}, iterations=2))
    kubernetes = json.loads((shared / "cases/rlark-no-mounts.json").read_text())
    worker = kubernetes["spec"]["tasks"][0]
    worker |= {"nodeSelector": {}, "runScript": 'echo "hi" \\\n  done\n', "ray": {"head": "platform"}}
    worker["kubernetes"]["workload"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    submit("no-mounts", json.dumps(kubernetes))
    clones = {name: f"{name}-again" for name in ("toy", "no-mounts")}
    try:
        for name, clone in clones.items():
            saved = machine.rlark("get", name, "-o", "yaml")
            machine.rlark("submit", "-d", "--name", clone, "-", stdin=saved)
        for name, clone in clones.items():
            assert machine.ended(clone)["phase"] == "Succeeded"
            assert spec_of(machine, clone) == spec_of(machine, name)
        assert spec_of(machine, "no-mounts-again")["tasks"][0]["agentType"] == "Kubernetes"
        assert "hi done" in machine.rlark("logs", "no-mounts-again")
    finally:
        machine.rlark("delete", "-y", *clones.values(), code=None)


def test_a_name_is_taken_until_its_job_is_replaced(machine: User, submit: Callable[..., str]) -> None:
    job = script_job("mine", UNTIL_TOLD)
    submit("mine", job)
    started(machine, "mine")
    uid = machine.json("get", "mine")["metadata"]["uid"]
    submit("mine", job)  # the same again: it is there already
    assert machine.json("get", "mine")["metadata"]["uid"] == uid
    assert "rlark submit --replace" in submit("mine", job, "--set", "spec.priority=1", code=7)
    assert "rlark stop mine" in submit("mine", job, "--set", "spec.priority=1", "--replace", code=7)
    machine.rlark("stop", "mine")
    machine.ended("mine")
    submit("mine", job, "--set", "spec.priority=1", "--replace")
    started(machine, "mine")
    found = machine.json("get", "mine")
    assert (found["spec"]["priority"], found["status"]["attempt"]) == (1, 1)
    assert found["metadata"]["uid"] != uid
    assert "saved" not in machine.rlark("logs", "mine")


def test_delete_ends_a_running_job_and_leaves_what_is_the_hosts(
    machine: User, submit: Callable[..., str], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    data.mkdir()
    mounts = [{"name": "data", "hostPath": str(data), "mountPath": str(data)}]
    submit("gone", script_job("gone", f"echo kept > {data}/kept\n{UNTIL_TOLD}", mounts=mounts))
    started(machine, "gone")
    run, folder = run_of(machine, "gone"), machine.home / "jobs/gone"
    assert folder.is_dir()
    assert "say yes with -y" in machine.rlark("delete", "gone", code=2, stdin="y\n")
    assert machine.rlark("delete", "-y", "-q", "gone") == "gone\n"
    deadline = time.monotonic() + 30
    while "gone" in machine.rlark("jobs", "-q").split():
        assert time.monotonic() < deadline, machine.status("gone")
    machine.rlark("get", "gone", code=102)
    assert not folder.exists()
    assert identify(run) is None
    assert (data / "kept").read_text() == "kept\n"
    assert subprocess.run(["pgrep", "-f", str(folder)], check=False, capture_output=True).stdout == b""
