"""Jobs under real Ray heads of their own, by the worker alone: no platform is there."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rlark.cluster.on_ray import remains
from rlark.folder import Home, JobFolder, read_json, write_json
from rlark.host import process, sandbox
from rlark.plan.node import Device, Lease
from rlark.plan.plan import Plan, RankPlacement, Signal

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(bool(sandbox.unavailable()), reason="bubblewrap does not work here: apt install bubblewrap"),
]
TOYS = Path(__file__).parents[1] / "engine_for_tests"
LOOK = """
import os, sys, time, ray
from pathlib import Path

ray.init(log_to_driver=True)

@ray.remote(num_gpus=2)
def look():
    print("a word of a task", flush=True)
    return os.environ["CUDA_VISIBLE_DEVICES"], os.environ["PREPARED"]

print("task", *ray.get(look.remote()))
print("nodes", len(ray.nodes()), "cpus", ray.cluster_resources()["CPU"], "gpus", ray.cluster_resources()["GPU"])
(Path(sys.argv[1]) / "one-is-up").touch()
while not (Path(sys.argv[1]) / "two-has-stopped").exists():
    time.sleep(0.1)
print("again", *ray.get(look.remote()))
sys.exit(3)
"""


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
            assert time.monotonic() < until, self.everything()
            assert self.process.poll() is None, self.everything()
            time.sleep(0.05)

    def end(self) -> dict:
        """Wait for the outcome."""
        self.process.wait(90)
        return self.reports[-1]

    def log(self) -> list[str]:
        """Standard output without its stamps."""
        return [line[25:] for line in (self.folder.logs(1) / "stdout.log").read_text().splitlines()]

    @property
    def temp_dir(self) -> Path:
        """The private folder around that of Ray's sockets."""
        found = re.search(r"--temp-dir=(\S+)", (self.folder.scripts / "head.sh").read_text())
        assert found is not None
        return Path(found[1]).parent

    def everything(self) -> str:
        """For messages."""
        logs = [path.read_text() for path in sorted(self.folder.logs(1).glob("*.log"))]
        return "\n".join([*map(str, self.reports), *logs])


@pytest.fixture
def start(state: Path) -> Iterator[Callable[..., Running]]:
    """Starts the worker of a Job with a head of its own: `start("one", run="ray status")`."""
    started: list[Running] = []
    home = Home(state / "own")
    home.create()

    def begin(name: str, devices: list[str], **plan: object) -> Running:
        folder = home.job(name)
        folder.create()
        given = {"job": name, "node": "box", "head": "job", "sandbox": "bubblewrap", "grace_s": 5.0} | plan
        write_json(folder.plan, Plan.model_validate(given).to_json())
        leased = [Device(id=one, faked=True) for one in devices]
        write_json(folder.lease, Lease(job=name, attempt=1, key="k", node="box", cpus=1.5, devices=leased).to_json())
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        env = {"PATH": path, "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": str(TOYS)}
        worker = subprocess.Popen([sys.executable, "-m", "rlark.worker", str(folder.root)], env=env)
        started.append(Running(folder, worker))
        return started[-1]

    yield begin
    for running in started:
        if running.process.poll() is None:
            running.process.terminate()
            running.process.wait(30)
        process.end(remains.head_processes(running.folder), 0)
        remains.forget_head(running.folder)


def test_two_jobs_at_once_do_not_see_each_other(start, tmp_path: Path):
    one = start(
        "one",
        ["GPU-7c1e", "GPU-90ab"],
        prepare="export PREPARED=yes; cd /tmp",
        run=f"cat > look.$$.py <<'END'\n{LOOK}\nEND\ntrap 'rm look.$$.py' EXIT\npython look.$$.py {tmp_path}",
    )
    waits = f"while [ ! -e {tmp_path}/one-is-up ]; do sleep 0.1; done"
    seen = "ps -e -o comm= | grep -c '^raylet' ; ray status | grep -o '0.0/.* GPU' || true"
    two = start("two", ["0"], run=f"{waits}\n{seen}\nray stop\ntouch {tmp_path}/two-has-stopped\nps -e -o comm= > left")
    outcome = two.end()
    assert outcome["reason"] == "Completed", two.everything()
    assert {"1", "0.0/1.0 GPU"} <= set(two.log())
    assert two.log()[-1] == "Stopping Ray cluster..."
    assert "raylet" not in (two.folder.work / "left").read_text().split()

    outcome = one.end()
    assert (outcome["reason"], outcome["data"]["exitCode"]) == ("RunFailed", 3), one.everything()
    assert outcome["data"]["survivors"] == []
    lines = one.log()
    (task,) = [line for line in lines if line.startswith("task ")]
    assert (set(task.split()[1].split(",")), task.split()[2]) == ({"GPU-7c1e", "GPU-90ab"}, "yes")
    assert "nodes 1 cpus 2.0 gpus 2.0" in lines
    assert [line for line in lines if line.startswith("again ")]
    assert [line for line in lines if line.endswith("a word of a task")]
    assert "  GPUs GPU-7c1e (faked), GPU-90ab (faked)" in lines
    assert (one.folder.logs(1) / "ray" / "raylet.out").stat().st_size
    assert not any(running.temp_dir.exists() for running in (one, two))


def test_an_engine_is_placed_on_a_head_of_its_own(start):
    placement = {"actor": [0], "rollout": [0, 1], "env": [1]}
    engine = start(
        "engine",
        ["4", "5"],
        prepare="export PREPARED=yes",
        engine="toy",
        command=["{python}", "-m", "toy_engine"],
        config={"runner": {"max_epochs": 10_000, "save_interval": 10_000}, "toy": {"pace_s": 0.02}},
        placement={
            name: [RankPlacement(rank=rank, gpus=[gpu], local_rank=rank) for rank, gpu in enumerate(gpus)]
            for name, gpus in placement.items()
        },
        evidence=True,
        signal=Signal(pattern=r"iter \d+/\d+"),
    )
    engine.report("SignalSeen")
    ranks = engine.report("Placed")["data"]["ranks"]
    assert {process.command(rank["pid"]).split("(")[0].strip() for rank in ranks} == {"ray::RankProcess.serve"}
    assert len({rank["pid"] for rank in ranks}) == 4
    inner = {rank["pid"] for rank in (read_json(engine.folder.ranks) or {})["ranks"]}
    assert not inner & {rank["pid"] for rank in ranks}
    engine.process.send_signal(signal.SIGTERM)
    outcome = engine.end()
    assert (outcome["reason"], outcome["data"]["exitCode"]) == ("Stopped", 143), engine.everything()
    assert list(engine.folder.checkpoints.glob("global_step_*"))
    assert not [rank for rank in ranks if process.identify(rank["pid"])]


def test_what_a_killed_worker_leaves_is_found(start):
    running = start("killed", [], sandbox="none", run="sleep 60")
    running.report("Started")
    running.process.kill()
    running.process.wait(5)
    left = remains.head_processes(running.folder)
    assert {"gcs_server", "raylet"} <= {process.name(one.pid) for one in left}
    assert process.end(left, 1.0) == []
    assert running.temp_dir.exists()
    remains.forget_head(running.folder)
    assert not running.temp_dir.exists()
