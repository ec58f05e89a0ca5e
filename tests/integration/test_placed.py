"""A placed run on a real head: every rank its own process, and all of it gone at the end."""

from __future__ import annotations

import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rlark.folder import JobFolder, read_json, write_json
from rlark.host import process
from rlark.plan.node import Device, HeadAddress, Lease
from rlark.plan.plan import Plan, RankPlacement, Signal

pytestmark = pytest.mark.integration
TOYS = Path(__file__).parents[1] / "engine_for_tests"
EIGHT = {"actor": [0, 1, 2, 3], "rollout": [4, 5], "env": [6, 7]}
ONE = {"actor": [0], "rollout": [0], "env": [0]}
KILLS = 10
LATEST_S = 1.0
"""From the first iteration, after which the worker tells who runs where: they train, and save all the while."""


@dataclass
class Running:
    """A worker that lives a Job."""

    folder: JobFolder
    process: subprocess.Popen

    @property
    def reports(self) -> list[dict]:
        path = self.folder.reports
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def report(self, kind: str, patience_s: float = 60.0) -> dict:
        """Wait for a report of a type."""
        until = time.monotonic() + patience_s
        while True:
            found = next((report for report in self.reports if report["type"] == kind), None)
            if found is not None:
                return found
            assert time.monotonic() < until, self.reports
            time.sleep(0.02)

    def end(self) -> dict:
        """Wait for the outcome."""
        self.process.wait(90)
        return self.reports[-1]

    def pids(self) -> dict[str, int]:
        """The ranks' processes, by `component-rank`."""
        ranks = self.report("Placed")["data"]["ranks"]
        return {f"{rank['component']}-{rank['rank']}": rank["pid"] for rank in ranks}

    def logs(self) -> str:
        """Everything that was logged, for messages."""
        return "\n".join(path.read_text() for path in sorted(self.folder.logs(1).iterdir()))


@pytest.fixture
def node_id(driver: HeadAddress) -> str:
    """Ray's id of the head's node."""
    import ray

    return str(ray.nodes()[0]["NodeID"])


@pytest.fixture
def start(tmp_path: Path, driver: HeadAddress, node_id: str) -> Iterator[Callable[..., Running]]:
    """Starts a Job of the toy engine: `start("demo", EIGHT, fused=False, toy={...})`."""
    started: list[Running] = []

    def begin(name: str, gpus: dict[str, list[int]], *, fused: bool = False, iterations: int = 6, **config) -> Running:
        folder = JobFolder(tmp_path / name)
        folder.create()
        ranks = {
            component: [RankPlacement(rank=i, gpus=[gpu], local_rank=i) for i, gpu in enumerate(own)]
            for component, own in gpus.items()
        }
        plan = Plan(
            job=name,
            node="box",
            engine="toy",
            command=["{python}", "-m", "toy_engine"],
            config={"algorithm": {"seed": 3}, "runner": {"max_epochs": iterations}, **config},
            placement=ranks,
            fused=fused,
            evidence=True,
            signal=Signal(pattern=r"iter \d+/\d+"),
            grace_s=10,
        )
        devices = [Device(id=str(i), faked=True) for i in range(8)]
        lease = Lease(job=name, attempt=1, key=name, node="box", node_id=node_id, devices=devices, cpus=2, head=driver)
        write_json(folder.plan, plan.to_json())
        write_json(folder.lease, lease.to_json())
        env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(TOYS)}
        command = [sys.executable, "-m", "rlark.worker", str(folder.root)]
        started.append(Running(folder, subprocess.Popen(command, env=env)))
        return started[-1]

    yield begin
    for running in started:
        if running.process.poll() is None:
            running.process.terminate()
            running.process.wait(60)


def all_gone(pids: dict[str, int], patience_s: float = 5.0) -> bool:
    until = time.monotonic() + patience_s
    while any(process.identify(pid) is not None for pid in pids.values()):
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def named_actors() -> set[str]:
    from ray.util import list_named_actors

    return {entry["name"] for entry in list_named_actors(all_namespaces=True) if entry["namespace"] == "rlark"}


def test_eight_ranks_are_eight_processes_with_a_gpu_each_and_are_gone_at_the_end(start):
    job = start("eight", EIGHT, toy={"pace_s": 0.1})
    placed = job.report("Placed")
    names = {f"eight/{component}:{i}" for component, own in EIGHT.items() for i in range(len(own))}
    assert names <= named_actors()
    outcome = job.end()
    assert (outcome["reason"], outcome["data"]["verdict"]["verified"]) == ("Completed", True), job.logs()

    ranks = placed["data"]["ranks"]
    assert [(rank["component"], rank["gpus"]) for rank in ranks] == [
        (c, [gpu]) for c, own in EIGHT.items() for gpu in own
    ]
    assert all(rank["faked"] and rank["visibleDevices"] == str(rank["gpus"][0]) for rank in ranks)
    pids = job.pids()
    assert len(set(pids.values())) == 8
    assert all_gone(pids)
    assert not names & named_actors()
    for rank in ranks:
        told = read_json(job.folder.artifacts / f"rank-{rank['component']}-{rank['rank']}.json")
        env = told["environment"]
        assert told["pid"] == rank["pid"]
        assert (env["CUDA_VISIBLE_DEVICES"], env["VISIBLE_DEVICES"]) == (rank["visibleDevices"],) * 2
        assert (env["RANK"], env["WORLD_SIZE"]) == (str(rank["rank"]), str(len(EIGHT[rank["component"]])))
        assert env["WORKER_NAME"] == f"eight/{rank['component']}:{rank['rank']}"
        assert (env["OMP_NUM_THREADS"], env["MASTER_ADDR"]) == ("1", "127.0.0.1")
        log = (job.folder.logs(1) / rank["log"]).read_text()
        assert f"{rank['component']} rank {rank['rank']} of" in log


def test_placed_and_fused_give_the_same_bytes(start):
    jobs = {fused: start(f"same-{'fused' if fused else 'placed'}", ONE, fused=fused) for fused in (True, False)}
    assert {job.end()["reason"] for job in jobs.values()} == {"Completed"}
    fused, placed = (jobs[how].folder for how in (True, False))
    policy = "checkpoints/global_step_6/actor.pkl"
    assert (fused.root / policy).read_bytes() == (placed.root / policy).read_bytes()
    assert (fused.artifacts / "policy.json").read_bytes() == (placed.artifacts / "policy.json").read_bytes()


@pytest.mark.parametrize("component", ["env", "rollout", "actor"])
def test_a_rank_that_is_killed_is_the_cause_and_the_others_are_not(start, component):
    gpus = {"actor": [0], "rollout": [1, 2], "env": [3, 4]}
    job = start(f"kill-{component}", gpus, iterations=10_000, toy={"pace_s": 0.05})
    job.report("SignalSeen")
    pids, last = job.pids(), len(gpus[component]) - 1
    began = time.monotonic()
    os.kill(pids[f"{component}-{last}"], signal.SIGKILL)
    outcome = job.end()
    assert time.monotonic() - began < 10
    assert outcome["reason"] == "RunFailed"
    cause = outcome["data"]["cause"]
    assert (cause["component"], cause["rank"], cause["exception"]) == (component, last, "ProcessDied")
    assert cause["log"] == f"{component}-{last}.log"
    assert any("is process" in line for line in cause["lines"])
    assert all_gone(pids)


def test_kills_at_moments_nobody_chose_are_told_by_the_worker_too(start):
    """The fifty kills of test_chaos.py go without Ray; these go through the worker, Ray and the Job's folder."""
    taken = []
    for number in range(KILLS):
        chance = random.Random(number)
        gpus = {"actor": [0, 1], "rollout": [2, 3], "env": [4, 5]}
        runner, rollout = {"max_epochs": 10**6, "save_interval": 3}, {"pipeline_stage_num": 1 + number % 2}
        job = start(f"chaos-{number}", gpus, runner=runner, rollout=rollout)
        pids = job.pids()
        time.sleep(chance.uniform(0, LATEST_S))
        victim = chance.choice(sorted(pids))
        began = time.monotonic()
        os.kill(pids[victim], signal.SIGKILL)
        outcome = job.end()
        taken.append(time.monotonic() - began)
        assert outcome["reason"] == "RunFailed", (number, outcome)
        cause = outcome["data"]["cause"]
        told = (f"{cause['component']}-{cause['rank']}", cause["exception"], cause["log"])
        assert told == (victim, "ProcessDied", f"{victim}.log"), (number, cause)
        assert all_gone(pids)
        assert not list(job.folder.checkpoints.glob(".*"))
        assert not {name for name in named_actors() if name.startswith(f"{job.folder.root.name}/")}
    print(f"{KILLS} kills; the worker was gone after {statistics.median(taken):.2f} s, {max(taken):.2f} at most")
    assert statistics.median(taken) < 5
    assert max(taken) < 10  # 0.7 on a quiet machine; 5.8 was seen on one where a run took 28 s to start


def test_a_rank_that_raises_is_the_cause(start):
    fault = {"component": "rollout", "rank": 1, "iteration": 3}
    outcome = start("raise", {"actor": [0], "rollout": [1, 2], "env": [3, 4]}, toy={"fault": fault}).end()
    assert outcome["message"].startswith("rollout rank 1: RuntimeError: a fault of the test (log: rollout-1.log)")
    assert outcome["data"]["cause"]["lines"][-1] == "RuntimeError: a fault of the test"


def test_a_stop_takes_a_checkpoint_and_leaves_nothing_behind(start):
    job = start("stop", ONE, iterations=10_000, toy={"pace_s": 0.05})
    job.report("SignalSeen")
    job.process.terminate()
    outcome = job.end()
    assert (outcome["reason"], outcome["data"]["exitCode"], outcome["data"]["survivors"]) == ("Stopped", 143, [])
    assert list(job.folder.checkpoints.glob("global_step_*"))
    assert all_gone(job.pids())


def test_ranks_do_not_outlive_their_driver(start):
    job = start("orphans", ONE, iterations=10_000, toy={"pace_s": 0.05})
    job.report("SignalSeen")
    os.kill(job.report("Started")["data"]["run"]["pid"], signal.SIGKILL)
    outcome = job.end()
    assert (outcome["reason"], outcome["data"]["exitCode"]) == ("RunFailed", -9)
    assert all_gone(job.pids())
