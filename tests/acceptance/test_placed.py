"""Components on leased GPUs: what each rank sees, what the map shows, and that all of it is given back."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.user import User, toy_job

pytestmark = pytest.mark.acceptance
WRITE = Callable[[str, str], Path]
EIGHT = {"actor": "0-3", "rollout": "4-5", "env": "6-7"}


def test_eight_ranks_on_eight_faked_gpus(eight_gpus: User, write: WRITE) -> None:
    follower = eight_gpus.start("submit", write("eight", toy_job("eight", EIGHT, pace_s=0.2, iterations=20)))
    held = eight_gpus.until("eight", lambda status: status["lease"] is not None)["lease"]["gpus"]
    assert [(gpu["logical"], gpu["faked"], gpu["uuid"]) for gpu in held] == [(i, True, None) for i in range(8)]
    said = "".join(follower.communicate(timeout=120))
    assert "faked" in said
    status = eight_gpus.status("eight")
    assert (status["phase"], status["verified"]) == ("Succeeded", True)

    ranks = {(r["component"], r["rank"]): r for r in status["ranks"]}
    assert len({r["pid"] for r in ranks.values()}) == 8
    expected = [("actor", r, r) for r in range(4)] + [("rollout", r, 4 + r) for r in range(2)]
    expected += [("env", r, 6 + r) for r in range(2)]
    for component, rank, gpu in expected:
        seen = json.loads((eight_gpus.home / f"jobs/eight/artifacts/rank-{component}-{rank}.json").read_text())
        environment = seen["environment"]
        assert ranks[component, rank]["gpus"] == [gpu]
        assert environment["VISIBLE_DEVICES"] == environment["CUDA_VISIBLE_DEVICES"]
        assert environment["VISIBLE_DEVICES"] == ranks[component, rank]["visibleDevices"]
        assert environment["RANK"] == str(rank)
        assert seen["pid"] == ranks[component, rank]["pid"]
    assert len({r["visibleDevices"] for r in ranks.values()}) == 8
    result = json.loads((eight_gpus.home / "jobs/eight/result.json").read_text())
    assert result["cuda"] is False

    eight_gpus.until("eight", lambda status: status["lease"] is None)
    deadline = time.monotonic() + 10
    while (node := eight_gpus.json("nodes", "list")["nodes"][0])["freeGpus"] != 8:
        assert time.monotonic() < deadline, node
    assert (node["gpus"], node["gpusFaked"]) == (8, True)


def test_a_job_waits_for_gpus_and_says_for_whose(eight_gpus: User, write: WRITE) -> None:
    long = toy_job("long", {"actor,rollout,env": 0}, pace_s=0.2, iterations=500)
    eight_gpus.rlark("submit", "-d", write("long", long), "--set", "spec.tasks[0].ray.resources.gpu=6")
    eight_gpus.until("long", lambda status: status["phase"] == "Running")
    short = toy_job("short", {"actor,rollout,env": "0-3"}, iterations=2)
    eight_gpus.rlark("submit", "-d", write("short", short))
    waiting = eight_gpus.until("short", lambda status: status["queue"] is not None)
    assert waiting["phase"] == "Pending"
    assert waiting["queue"]["position"] == 1
    assert "long" in waiting["queue"]["reason"]
    assert eight_gpus.json("queue")["items"][0]["job"] == "short"
    assert "long" in eight_gpus.rlark("queue")
    eight_gpus.rlark("stop", "long")
    assert eight_gpus.ended("short")["phase"] == "Succeeded"
    assert eight_gpus.ended("long")["phase"] == "Stopped"


def test_more_gpus_than_the_node_has_can_never_run(eight_gpus: User, write: WRITE) -> None:
    nine = write("nine", toy_job("nine", {"actor,rollout,env": "0-8"}))
    said = eight_gpus.rlark("submit", nine, code=4)
    assert "0-7" in said
    assert eight_gpus.json("jobs", "-q", code=None) is not None
    assert "nine" not in eight_gpus.rlark("jobs", "-o", "name")


def test_the_components_stand_in_rays_dashboard(eight_gpus: User, write: WRITE) -> None:
    import httpx

    slow = toy_job("seen", {"actor": 0, "rollout": 1, "env": 2}, pace_s=0.2, iterations=500)
    eight_gpus.rlark("submit", "-d", write("seen", slow))
    eight_gpus.until("seen", lambda status: len(status["ranks"]) == 3)
    opened = eight_gpus.json("open", "dashboard", "--no-browser")
    token = Path(opened["tokenPath"]).read_text().strip()
    actors = f"{opened['dashboard']}/api/v0/actors?detail=1&filter_keys=state&filter_predicates=%3D&filter_values=ALIVE"
    answer = httpx.get(actors, headers={"Authorization": f"Bearer {token}"}, timeout=30)
    names = {actor["name"] for actor in answer.json()["data"]["result"]["result"]}
    assert {"seen/actor:0", "seen/rollout:0", "seen/env:0"} <= names
    assert httpx.get(actors, timeout=30).status_code == 401
    eight_gpus.rlark("stop", "seen")
    assert eight_gpus.ended("seen")["phase"] == "Stopped"
