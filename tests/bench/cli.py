"""What the light commands cost: CPU seconds of a fresh process, and the resolver alone.

RLinf's own configurations are measured where the reference cases lie beside the project.
"""

from __future__ import annotations

import json
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
SHARED = ROOT.parent / "shared"
CONFIGURATIONS = SHARED / "data/rlinf-configs"
RLARK = Path(sys.executable).with_name("rlark")

_RLINF = {"EMBODIED_PATH": str(CONFIGURATIONS / "examples/embodiment"), "REPO_PATH": str(CONFIGURATIONS)}
"""What RLinf's configurations read."""


def cpu_seconds(*arguments: str, codes: tuple[int, ...] = (0,)) -> float:
    """User and system time of one `rlark` call that must end with one of these codes."""
    before = os.times()
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {"RLARK_HOME": home} | _RLINF
        done = subprocess.run([RLARK, *arguments], check=False, capture_output=True, text=True, env=environment)
    if done.returncode not in codes or "Traceback" in done.stderr:
        raise RuntimeError(f"rlark {arguments[0]} ended with {done.returncode}: {done.stderr[-500:]}")
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


def rlinf_files(folder: Path) -> dict[str, list[str]]:
    """Arguments of two `validate` calls over RLinf's files, by metric; empty without them."""
    if not SHARED.is_dir():
        return {}
    inventory = folder / "nodes.json"
    inventory.write_text(json.dumps({"nodes": [{"name": "bench", "cpus": 64, "gpus": 8}]}))
    rows = json.loads((SHARED / "cases/rlinf-configs.json").read_text())
    primary = [str(CONFIGURATIONS / row["config"]) for row in rows]
    every = sorted(map(str, CONFIGURATIONS.rglob("*.yaml")))
    check = ["validate", "--inventory", str(inventory)]
    return {f"validate_{len(files)}_rlinf_s": [*check, *files] for files in (primary, every)}


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
        for metric, arguments in rlinf_files(Path(folder)).items():
            samples[metric] = [cpu_seconds(*arguments, codes=(0, 3)) for _ in range(min(3, repetitions))]
    reach = {"validate_100_s": "<= 2", "resolver_ms_1000_ranks": "<= 5", "validate_216_rlinf_s": "<= 60"}
    reach["validate_451_rlinf_s"] = ""
    for metric, values in samples.items():
        table.add(metric, values, reach.get(metric, "<= 0.5"))
