"""Going on from a checkpoint, and showing that a run can be repeated."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.user import User, toy_job

pytestmark = pytest.mark.acceptance
WRITE = Callable[[str, str], Path]
TOGETHER = {"actor,rollout,env": 0}
APART = {"actor": 0, "rollout": 0, "env": "0:0-1"}


def iterations(user: User, name: str) -> list[int]:
    return user.json("metrics", name)["metrics"]["iteration"]


def events(user: User, name: str) -> dict[str, str]:
    return {event["reason"]: event["message"] for event in user.json("events", name)["items"]}


@pytest.mark.parametrize("placement", [TOGETHER, APART], ids=["together", "apart"])
def test_a_job_that_was_stopped_goes_on_under_another_name_and_can_be_repeated(
    machine: User, write: WRITE, placement: dict[str, object], request: pytest.FixtureRequest
) -> None:
    name = f"halted-{request.node.callspec.id}"
    text = toy_job(name, placement, pace_s=0.05, iterations=40)
    machine.rlark("submit", "-d", write(name, text))
    machine.until(name, lambda status: (status["progress"] or {}).get("iteration", 0) >= 12)
    machine.rlark("stop", name)
    assert machine.ended(name)["phase"] == "Stopped"
    stopped = max(iterations(machine, name))
    assert stopped < 40

    again = f"{name}-on"
    quick = write(again, toy_job(name, placement, iterations=40))
    machine.rlark("submit", quick, "--name", again, "--resume", name)
    assert machine.status(again)["phase"] == "Succeeded"
    assert iterations(machine, again) == list(range(1, 41))
    log = machine.rlark("logs", again, "--stream", "stderr")
    assert f"continuing after iteration {stopped}" in log

    assert "3 iterations gave the same numbers again" in machine.rlark("resume", again, "--verify", "3")
    report = json.loads((machine.home / f"jobs/{again}-replay/artifacts/replay.json").read_text())
    assert report["equal"] is True


def test_a_replay_that_differs_says_where(machine: User, write: WRITE) -> None:
    machine.rlark("submit", write("altered", toy_job("altered", TOGETHER, iterations=16)))
    metrics = machine.home / "jobs/altered/metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text().splitlines()]
    rows[14]["meanReward"] += 1e-9
    metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = machine.rlark("resume", "altered", "--verify", "2", code=100)
    assert "iteration 15: meanReward was" in said


def test_what_cannot_be_gone_on_from_is_said_before_anything_starts(machine: User, write: WRITE) -> None:
    job = write("chosen", toy_job("chosen", TOGETHER, iterations=16))
    machine.rlark("submit", job)
    said = machine.rlark("submit", job, "--name", "chosen-2", "--resume", "chosen@5", code=102)
    assert "chosen has no checkpoint of iteration 5" in said
    assert "there are 10, 12, 14, 16" in said
    assert "nobody" in machine.rlark("submit", job, "--name", "chosen-2", "--resume", "nobody", code=102)
    said = machine.rlark("submit", job, "--replace", "--resume", "chosen", code=2)
    assert "--replace deletes chosen" in said
    assert "chosen-2" in said
    script = write("scripted", job.read_text().replace("ray:", "runScript: 'true'\n    x-ray:"))
    machine.rlark("submit", script, "--name", "chosen-2", "--resume", "chosen", code=2)
    machine.rlark("submit", job, "--name", "chosen-12", "--resume", "chosen@12")
    assert iterations(machine, "chosen-12") == list(range(1, 17))
    assert "16 were told in all" in machine.rlark("resume", "chosen", "--verify", "9", code=102)


def test_an_iteration_that_outlasts_the_grace_is_killed_and_the_checkpoint_before_it_stays(
    machine: User, write: WRITE
) -> None:
    hangs = {"component": "env", "iteration": 5, "how": "hang"}
    text = toy_job("endless", APART, iterations=8, fault=hangs, terminationGrace="2s")
    machine.rlark("submit", "-d", write("endless", text))
    machine.until("endless", lambda status: (status["progress"] or {}).get("iteration", 0) == 4)
    machine.rlark("stop", "endless")
    status = machine.ended("endless")
    assert status["phase"] == "Stopped"
    assert "it did not end within terminationGrace (2 s), so it was killed" in status["message"]
    assert "`rlark submit --resume endless` goes on after iteration 4" in status["message"]
    machine.rlark("submit", write("endless-on", toy_job("endless-on", APART)), "--resume", "endless")
    assert iterations(machine, "endless-on") == list(range(1, 9))


def test_a_checkpoint_of_another_task_or_size_is_refused(machine: User, write: WRITE) -> None:
    machine.rlark("submit", write("small", toy_job("small", TOGETHER)))
    inline = "spec.tasks[0].ray.config.inline"
    job = write("large", toy_job("large", TOGETHER))
    said = machine.rlark("submit", job, "--resume", "small", "--set", f"{inline}.env.train.total_num_envs=16", code=100)
    assert "the checkpoint holds observations of shape [8, " in said
    walk = write("walk", toy_job("walk", TOGETHER))
    machine.rlark("submit", walk, "--set", f"{inline}.env.train.task=point-walk")
    said = machine.rlark(
        "submit", walk, "--name", "run", "--resume", "walk", "--set", f"{inline}.env.train.task=point-run", code=2
    )
    assert "is of the task point-walk, and this Job trains the task point-run" in said
    assert "run" not in machine.rlark("jobs", "-o", "name").split()


def test_a_job_that_fails_goes_on_by_itself_from_its_last_checkpoint(machine: User, write: WRITE) -> None:
    fault = {"component": "actor", "iteration": 7, "how": "kill"}
    job = toy_job("fragile", APART, iterations=12, fault=fault, restartPolicy="OnFailure", backoffLimit=2)
    machine.rlark("submit", write("fragile", job))
    status = machine.status("fragile")
    assert (status["phase"], status["attempt"], status["verified"]) == ("Succeeded", 2, True)
    assert iterations(machine, "fragile") == list(range(1, 13))
    told = events(machine, "fragile")
    assert told["Resumed"] == "the attempt goes on from the last checkpoint, global_step_6"
    assert "retry 1 of 2" in told["Retried"]
