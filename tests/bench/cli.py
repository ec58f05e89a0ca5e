"""What the light commands cost: CPU seconds of a fresh process, and the resolver alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from rlark.plan.node import Node
from rlark.plan.placement import resolve
from tests.bench.table import Table

ROOT = Path(__file__).parents[2]
JOB = ROOT / "job_specs/originbot-goalnav.yaml"
RLARK = Path(sys.executable).with_name("rlark")


def cpu_seconds(*arguments: str) -> float:
    """User and system time of one `rlark` call that must succeed."""
    before = os.times()
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {"RLARK_HOME": home}
        subprocess.run([RLARK, *arguments], check=True, capture_output=True, env=environment)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def resolver_ms(ranks: int = 1000) -> float:
    """Milliseconds to place so many ranks."""
    node = Node(name="bench", gpus=8, cpus=2000)
    cluster = {"num_nodes": 1, "component_placement": {"actor": "0-7", "rollout": "0-7", "env": f"0-7:0-{ranks - 17}"}}
    start = time.perf_counter()
    placement, _ = resolve(cluster, node)
    seconds = time.perf_counter() - start
    if placement is None or sum(len(r) for r in placement.ranks.values()) != ranks:
        raise RuntimeError("the placement was not resolved")
    return seconds * 1000


def hundred_jobs(folder: Path) -> list[str]:
    """100 different Job files on one configuration, without scripts."""
    job = yaml.safe_load(JOB.read_text())
    job["spec"]["tasks"][0]["ray"]["config"]["path"] = str((JOB.parent / "../configs/originbot_ppo.yaml").resolve())
    files = []
    for i in range(100):
        job["metadata"]["name"] = f"job-{i}"
        job["metadata"]["labels"] = {"number": str(i)}
        file = folder / f"job-{i}.yaml"
        file.write_text(yaml.safe_dump(job))
        files.append(str(file))
    return files


def measure(table: Table, repetitions: int) -> None:
    """Measure interleaved, after one call that warms the page cache."""
    cpu_seconds("--help")
    samples: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        files = hundred_jobs(Path(folder))
        for _ in range(repetitions):
            for metric, arguments in (
                ("help_cpu_s", ["--help"]),
                ("validate_cpu_s", ["validate", str(JOB)]),
                ("preview_cpu_s", ["preview", str(JOB)]),
                ("validate_100_s", ["validate", *files]),
            ):
                samples.setdefault(metric, []).append(cpu_seconds(*arguments))
            samples.setdefault("resolver_ms_1000_ranks", []).append(resolver_ms())
    reach = {"validate_100_s": "<= 2", "resolver_ms_1000_ranks": "<= 5"}
    for metric, values in samples.items():
        table.add(metric, values, reach.get(metric, "<= 0.5"))
