"""Everything that can be killed is killed once; a Job always ends in the truth."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rlark.host.process import ProcessId, alive, command, descendants
from tests.acceptance.user import User, toy_job

pytestmark = pytest.mark.acceptance
WRITE = Callable[[str, str], Path]
ONE = {"actor,rollout,env": 0}
APART = {"actor": 0, "rollout": 0, "env": "0:0-1"}


def slow(name: str, placement: dict[str, object], **more: object) -> str:
    """A Job that runs until somebody ends it."""
    return toy_job(name, placement, pace_s=0.1, iterations=2000, fuse="auto", **more)


def running(user: User, write: WRITE, name: str, placement: dict[str, object], **more: object) -> None:
    """Submit a slow Job and wait until it has learned something."""
    user.rlark("submit", "-d", write(name, slow(name, placement, **more)))
    user.until(name, lambda status: status["phase"] == "Running" and status["progress"] is not None)


def processes(user: User, *words: str) -> list[ProcessId]:
    """The suite's own processes whose command names the state directory or the Job, and every word."""
    return [p for p in descendants(os.getpid()) if all(word in command(p.pid) for word in words)]


def kill(found: list[ProcessId]) -> None:
    """SIGKILL, and wait until they are gone."""
    assert found, "nothing to kill was found"
    for process in found:
        os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while any(alive(process) for process in found):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_killed_worker_fails_its_job(machine: User, write: WRITE) -> None:
    running(machine, write, "orphan", ONE)
    kill(processes(machine, "rlark.worker", "jobs/orphan"))
    status = machine.ended("orphan")
    assert (status["phase"], status["reason"]) == ("Failed", "WorkerLost")
    assert processes(machine, "toy_engine") == []


def test_a_killed_component_is_the_named_cause(machine: User, write: WRITE) -> None:
    running(machine, write, "limb", APART)
    rank = next(r for r in machine.status("limb")["ranks"] if (r["component"], r["rank"]) == ("env", 1))
    os.kill(rank["pid"], signal.SIGKILL)
    status = machine.ended("limb")
    assert status["phase"] == "Failed"
    assert "env" in status["message"]
    assert "1" in status["message"]


def test_an_exception_in_a_component_is_the_named_cause(machine: User, write: WRITE) -> None:
    fault = {"component": "rollout", "rank": 0, "iteration": 3, "how": "raise"}
    job = toy_job("broken", APART, fault=fault)
    said = machine.rlark("submit", write("broken", job), code=100)
    status = machine.status("broken")
    assert (status["phase"], status["reason"], status["exitCode"]) == ("Failed", "RunFailed", 1)
    assert "a fault of the test" in said
    assert "rollout" in status["message"]


def test_the_run_outlives_controller_and_replica_and_proxy(machine: User, write: WRITE) -> None:
    running(machine, write, "steady", ONE)
    for title in ("ray::Controller", "ray::ServeReplica", "ray::ProxyActor"):
        kill(processes(machine, title))
        machine.until("steady", lambda status: status["phase"] == "Running") if title != "ray::ProxyActor" else None
    deadline = time.monotonic() + 60
    while "steady" not in machine.rlark("jobs", "-o", "name", code=None):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert machine.status("steady")["attempt"] == 1
    machine.rlark("stop", "steady")
    assert machine.ended("steady")["phase"] == "Stopped"


def test_the_dashboard_comes_back(machine: User, write: WRITE) -> None:
    running(machine, write, "unseen", ONE)
    kill(processes(machine, "dashboard/dashboard.py"))
    machine.rlark("stop", "unseen")
    assert machine.ended("unseen")["phase"] == "Stopped"


def test_ctrl_c_while_following_leaves_the_job_running(machine: User, write: WRITE) -> None:
    file = write("followed", slow("followed", ONE))
    follower = machine.start("submit", file)
    machine.until("followed", lambda status: status["progress"] is not None)
    follower.send_signal(signal.SIGINT)
    said = "".join(follower.communicate(timeout=30))
    assert follower.returncode == 130
    assert "rlark logs -f followed" in said
    assert machine.status("followed")["phase"] == "Running"
    machine.rlark("stop", "followed")
    machine.rlark("wait", "followed", code=103)


def test_stop_leaves_nothing_and_start_is_a_new_attempt(machine: User, write: WRITE) -> None:
    running(machine, write, "again", APART)
    machine.rlark("stop", "again")
    machine.ended("again")
    assert processes(machine, "again") == []
    machine.rlark("start", "again")
    status = machine.until("again", lambda status: status["attempt"] == 2 and status["phase"] == "Running")
    assert status["attempt"] == 2
    machine.rlark("delete", "-y", "again")
    deadline = time.monotonic() + 60
    while "there is no job" not in machine.rlark("get", "again", code=None):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    assert not (machine.home / "jobs/again").exists()


def test_a_supervisor_killed_leaves_a_head_that_down_still_ends(nobody: User, write: WRITE) -> None:
    nobody.up("--num-cpus", "2", "--num-gpus", "0")
    before = descendants(os.getpid())
    kill(processes(nobody, "rlark.host.head", str(nobody.home)))
    nobody.rlark("submit", write("still", toy_job("still", ONE, iterations=2)))
    nobody.down()
    mine = [p for p in before if str(nobody.home) in command(p.pid)]
    assert mine == []


def test_a_job_of_a_killed_head_never_stands_as_running(nobody: User, write: WRITE) -> None:
    nobody.up("--num-cpus", "2", "--num-gpus", "0")
    running(nobody, write, "lost", ONE)
    kill(processes(nobody, "raylet/raylet", str(nobody.home)) or processes(nobody, "raylet/raylet"))
    nobody.up("--num-cpus", "2", "--num-gpus", "0")
    status = nobody.ended("lost")
    assert status["phase"] == "Failed"
    assert status["reason"] in {"Terminated", "WorkerLost"}  # whether the worker had time for a last word
    nobody.rlark("submit", write("after", toy_job("after", ONE, iterations=2)))


def test_a_held_port_is_named_with_its_holder(nobody: User) -> None:
    holder = subprocess.Popen([sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(nobody.port)])
    try:
        time.sleep(1)
        said = nobody.rlark("up", "--port", str(nobody.port), code=5)
        assert str(nobody.port) in said
        assert str(holder.pid) in said
    finally:
        holder.kill()
        holder.wait()


def test_without_a_platform_the_commands_say_how_to_start_one(nobody: User) -> None:
    assert "rlark up" in nobody.rlark("jobs", code=5)
