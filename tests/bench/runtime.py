"""What the exchange between ranks costs, and their start, beside RLinf's."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlark.host.ports import free_ports
from rlark.host.process import become_subreaper, descendants, end_tree
from tests.bench import goal_navigation, hop, placed_run
from tests.bench.table import Table
from tests.bench.workers import Ready, Weights

ROOT = Path(__file__).parents[2]
RLINF = ROOT / ".venv-rlinf/bin/python"
BIN = Path(sys.executable).parent
STARTER = "engines.starter_ppo.components:PROGRAM"
TURNS = "tests.bench.turns:PROGRAM"
HOPS, PUBLICATIONS, ITERATIONS = 100, 40, 12


@contextmanager
def ray_head(programs: Path) -> Iterator[str]:
    """A Ray head with Ray's defaults, of the environment whose programs lie there: its address."""
    gcs, dashboard = free_ports(2)
    before = set(descendants(os.getpid()))
    with tempfile.TemporaryDirectory(prefix="rb-", ignore_cleanup_errors=True) as temp:
        command = [
            programs / "ray",
            "start",
            "--head",
            f"--port={gcs}",
            f"--dashboard-port={dashboard}",
            "--num-cpus=8",
        ]
        subprocess.run([*command, f"--temp-dir={temp}", "--disable-usage-stats"], check=True, capture_output=True)
        try:
            yield f"127.0.0.1:{gcs}"
        finally:
            for process in set(descendants(os.getpid())) - before:
                end_tree(process, 2)


def rlinf() -> dict[str, float]:
    """RLinf's figures, on a head of its own."""
    with ray_head(RLINF.parent) as address:
        env = os.environ | {"RAY_ADDRESS": address, "PYTHONPATH": str(ROOT)}
        command = [RLINF, "-m", "tests.bench.rlinf_side", str(HOPS)]
        done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, cwd=ROOT, timeout=300)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(f"RLinf ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    found: dict[str, float] = json.loads(lines[-1])
    return found


def launch(loaded: str) -> float:
    """Seconds from two groups of two ranks to their first answers, on a Ray head like RLinf's."""
    with ray_head(BIN) as address:
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "tests.bench.launch", address, loaded]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=env, cwd=ROOT, timeout=300)
    return float(done.stdout.splitlines()[-1])


def weights() -> list[float]:
    """Milliseconds of each publication of 10 MB to two ranks."""
    from rlark.runtime.cluster import Cluster

    with Cluster.local(actor=1, rollout=2) as cluster:
        actor = Weights.create_group().launch(cluster, name="actor")
        rollouts = Weights.create_group().launch(cluster, name="rollout")
        taken = rollouts.take(PUBLICATIONS)
        (times,) = actor.give(10, PUBLICATIONS, 2).wait()
        assert set(taken.wait()) == {PUBLICATIONS}
    found: list[float] = times
    return found


def local_launch() -> float:
    """The same start as plain processes."""
    from rlark.runtime.cluster import Cluster

    with Cluster.local(a=2, b=2) as cluster:
        began = time.perf_counter()
        calls = [Ready.create_group(torch=True).launch(cluster, name=name).where() for name in ("a", "b")]
        for call in calls:
            call.wait()
        return time.perf_counter() - began


def starter() -> dict[str, Any]:
    """The bench task with 256 environments."""
    raw = goal_navigation.effective()
    raw["env"]["train"]["total_num_envs"] = 256
    raw["actor"].pop("global_batch_size", None)  # a quarter of the rollout, as in the bench task
    return raw


def placed_vs_fused() -> float:
    """Steps per second of one rank each, against one process."""
    config = starter()
    alone = placed_run.seconds(placed_run.fused(STARTER, config), ITERATIONS)
    with placed_run.placed(STARTER, config) as trainer:
        return alone / placed_run.seconds(trainer, ITERATIONS)


def pipeline_gain() -> float:
    """Steps per second with two stages, against one."""
    taken = []
    for stages in (1, 2):
        with placed_run.placed(TURNS, {"rollout": {"pipeline_stage_num": stages}}) as trainer:
            taken.append(placed_run.seconds(trainer, 4))
    return taken[0] / taken[1]


def measure(table: Table, repetitions: int) -> None:
    """Interleave the sides; ratios are taken pair by pair."""
    subprocess.run(["bash", ROOT / "scripts/rlinf-environment"], check=True)
    become_subreaper()
    os.environ["OMP_NUM_THREADS"] = "1"
    rows: list[dict[str, float]] = []
    for _ in range(repetitions):
        small, large, theirs = hop.round_trips(1024), hop.round_trips(8192), rlinf()
        rows.append(
            {
                "hop_ms_1024x42": statistics.median(small),
                "hop_ms_8192x42": statistics.median(large),
                "rlinf_hop_ms_1024x42": theirs["hop_ms"],
                "hop_vs_rlinf": statistics.median(small) / theirs["hop_ms"],
                "launch_s": (ours := launch("nothing")),
                "launch_torch_s": launch("torch"),
                "rlinf_launch_s": theirs["launch_s"],
                "launch_vs_rlinf": ours / theirs["launch_s"],
                "local_launch_s": local_launch(),
                "weights_10mb_ms": statistics.median(weights()),
                "placed_vs_fused": placed_vs_fused(),
                "pipeline_gain_2ms_env": pipeline_gain(),
            }
        )
    reach = {
        "hop_vs_rlinf": "<= 0.1",
        "hop_ms_1024x42": "<= 1",
        "hop_ms_8192x42": "<= 2",
        "launch_vs_rlinf": "<= 0.25",
        "weights_10mb_ms": "<= 15",
        "placed_vs_fused": ">= 0.5",
        "pipeline_gain_2ms_env": "> 1",
        "launch_s": "",
        "launch_torch_s": "",
        "local_launch_s": "",
        "rlinf_hop_ms_1024x42": "",
        "rlinf_launch_s": "",
    }
    notes = {
        "hop_vs_rlinf": "against put and get over two of RLinf's channels",
        "launch_vs_rlinf": "RLinf loads torch in every worker, we only where an engine does",
        "launch_s": "two groups of two ranks until their first calls return, on a Ray head",
        "launch_torch_s": "the same with torch loaded by each",
        "local_launch_s": "with torch, as plain processes without Ray",
        "weights_10mb_ms": "to two ranks, until both have them",
        "placed_vs_fused": "starter-ppo, 256 environments, one rank each on one thread",
        "pipeline_gain_2ms_env": "two stages against one, where environments and policy take 2 ms each",
    }
    for name, wanted in reach.items():
        table.add(name, [row[name] for row in rows], wanted, notes.get(name, ""))
    table.notes.append("sides in turn; RLinf 0.3.0 in an environment of its own, on a Ray head with Ray's defaults")
