"""Components on leased GPUs: what each rank sees, what the map shows, and that all of it is given back."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from rlark.runtime import checkpoint
from rlark.runtime.replay import difference
from tests.acceptance.user import ROOT, User, toy_job

pytestmark = pytest.mark.acceptance
WRITE = Callable[[str, str], Path]
EIGHT = {"actor": "0-3", "rollout": "4-5", "env": "6-7"}
SPREAD = {"actor": "0-1", "rollout": 2, "env": "3:0-3"}


def navigation_job(name: str, placement: dict[str, object], iterations: int = 12, resume: Path | None = None) -> str:
    """A short Job of starter-ppo, as YAML."""
    job = yaml.safe_load(toy_job(name, placement))
    task = str(ROOT / "configs/tasks/originbot-goal-navigation.yaml")
    job["spec"]["tasks"][0]["ray"]["config"]["inline"] = {
        "cluster": {"num_nodes": 1, "component_placement": placement},
        "runner": {"engine": "starter-ppo", "max_epochs": iterations, "resume_dir": resume and str(resume)},
        "algorithm": {"seed": 5, "target_kl": 0.02},
        "env": {
            "train": {"task": task, "total_num_envs": 16, "rollout_steps": 32},
            "eval": {"probe_episodes": 4},
        },
        "actor": {"global_batch_size": 128, "optim": {"lr_scheduler": "adaptive"}},
    }
    return yaml.safe_dump(job, sort_keys=False)


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


def test_actors_on_two_gpus_learn_together_and_do_it_again(eight_gpus: User, write: WRITE) -> None:
    saved, curves = [], []
    for name in ("together-1", "together-2"):
        eight_gpus.rlark("submit", write(name, navigation_job(name, SPREAD)))
        status, folder = eight_gpus.status(name), eight_gpus.home / "jobs" / name
        assert (status["phase"], status["verified"], status["fused"]) == ("Succeeded", True, False)
        ranks = {(rank["component"], rank["rank"]): rank["visibleDevices"] for rank in status["ranks"]}
        wanted = [("actor", 0), ("actor", 1), *(("env", rank) for rank in range(4)), ("rollout", 0)]
        assert sorted(ranks) == wanted
        assert ranks["actor", 0] != ranks["actor", 1]
        assert len({rank["pid"] for rank in status["ranks"]}) == 7
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert [row["envSteps"] for row in rows] == [512 * done for done in range(1, 13)]
        assert all(math.isfinite(row[key]) for row in rows for key in ("gradNorm", "approxKl", "explainedVariance"))
        assert max(row["firstRatioError"] for row in rows) < 1e-5
        assert not (folder / "logs/attempt-1/.actors").exists()
        saved.append((folder / "checkpoints/global_step_12/actor.pkl").read_bytes())
        curves.append([[row["meanReward"], row["gradNorm"], row["learningRate"]] for row in rows])
    assert saved[0] == saved[1]
    assert curves[0] == curves[1]


def test_an_actor_that_is_killed_is_the_cause_and_its_team_mate_is_not(eight_gpus: User, write: WRITE) -> None:
    eight_gpus.rlark("submit", "-d", write("bereaved", navigation_job("bereaved", SPREAD, iterations=100_000)))
    eight_gpus.until("bereaved", lambda status: "iter 1/" in eight_gpus.rlark("logs", "bereaved"))
    status = eight_gpus.until("bereaved", lambda status: len(status["ranks"]) == 7)
    (second,) = (rank for rank in status["ranks"] if (rank["component"], rank["rank"]) == ("actor", 1))
    os.kill(second["pid"], signal.SIGKILL)
    status = eight_gpus.ended("bereaved")
    assert status["phase"] == "Failed"
    assert "actor rank 1: ProcessDied" in status["message"]


def test_a_batch_that_two_actors_cannot_share_is_refused_before_the_start(eight_gpus: User, write: WRITE) -> None:
    odd = navigation_job("odd", {"actor": "0-2", "rollout": 3, "env": "4:0-3"}).replace("num_envs: 16", "num_envs: 12")
    said = eight_gpus.rlark("submit", write("odd", odd), code=3)
    assert "RL177" in said
    assert "3 Actor ranks" in said


def test_what_two_actors_saved_one_goes_on_from_and_the_other_way_round(eight_gpus: User, write: WRITE) -> None:
    source: Path | None = None
    for name, actors, done in (("pair", "0-1", 4), ("single", "0", 6), ("pair-again", "0-1", 8)):
        text = navigation_job(name, {**SPREAD, "actor": actors}, done, source)
        eight_gpus.rlark("submit", write(name, text))
        assert eight_gpus.status(name)["verified"] is True
        folder = eight_gpus.home / "jobs" / name
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert [row["iteration"] for row in rows] == list(range(1, done + 1))
        assert max(row["firstRatioError"] for row in rows) < 1e-5  # it acts with what it learns from: all was restored
        source = folder / "checkpoints"


@pytest.mark.parametrize(
    ("name", "placement", "stages"),
    [
        ("as-one", {"actor,rollout,env": 0}, 1),
        ("one-each", {"actor": 0, "rollout": 1, "env": 2}, 1),
        ("many-each", {"actor": 0, "rollout": "1-2", "env": "3:0-3"}, 2),
        ("two-actors", SPREAD, 2),
    ],
)
def test_a_run_that_goes_on_is_the_run_that_never_stopped(
    eight_gpus: User, write: WRITE, name: str, placement: dict[str, object], stages: int
) -> None:
    inline = "spec.tasks[0].ray.config.inline"
    set_stages = ("--set", f"{inline}.rollout.pipeline_stage_num={stages}")
    job = write(name, navigation_job(name, placement, 8))
    eight_gpus.rlark("submit", job, *set_stages)
    eight_gpus.rlark("submit", job, *set_stages, "--name", f"{name}-on", "--resume", f"{name}@5")
    ends = [eight_gpus.home / "jobs" / one / "checkpoints/global_step_8" for one in (name, f"{name}-on")]
    assert ends[0].joinpath("actor.pkl").read_bytes() == ends[1].joinpath("actor.pkl").read_bytes()
    assert difference(*(checkpoint.load(end)[0] for end in ends)) == ""
    assert "gave the same numbers again" in eight_gpus.rlark("resume", f"{name}@5", "--verify", "3")
    report = json.loads((eight_gpus.home / f"jobs/{name}-replay/artifacts/replay.json").read_text())
    assert report["checkpointsCompared"] == [6, 7, 8]


@pytest.mark.timeout(1200)
def test_the_main_job_passes_its_gate_on_two_actors_and_four_environments(eight_gpus: User, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    (tmp_path / "job_specs").mkdir()
    job, config = tmp_path / "job_specs/job.yaml", tmp_path / "configs/originbot_ppo.yaml"
    shutil.copy(ROOT / "job_specs/originbot-goalnav.yaml", job)
    text, together = config.read_text(), "actor,rollout,env: 0"
    assert text.count(together) == 1
    config.write_text(text.replace(together, "\n    ".join(f'{name}: "{value}"' for name, value in SPREAD.items())))
    eight_gpus.rlark("submit", job, "--name", "spread")
    status = eight_gpus.status("spread")
    assert (status["verified"], status["qualityGatePassed"], status["fused"]) == (True, True, False)
    assert len(status["ranks"]) == 7
    report = json.loads((eight_gpus.home / "jobs/spread/artifacts/eval-report.json").read_text())
    assert report["trained"]["nominal"]["successRate"] >= 0.95
