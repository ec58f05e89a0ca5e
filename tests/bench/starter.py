"""starter-ppo beside its peers on the bench task, the same environment, nets and minibatches."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench import job, peers
from tests.bench.table import Table

MODULE = "tests.bench.goal_navigation"
REQUIREMENTS = {"sb3": ("stable-baselines3==2.9.2",), "rsl_rl": ("rsl-rl-lib==5.5.1",)}
NAMES = {
    "rlark": "rlark",
    "sb3": "stable-baselines3 2.9.2",
    "plain_torch": "plain torch loop",
    "rsl_rl": "rsl_rl 5.5.1",
    "sb3_default": "stable-baselines3 2.9.2, its defaults",
}
DEFAULT_STEPS = 2 * 8 * 2048
"""stable-baselines3's defaults are measured over whole iterations of this many steps; 90 % would take minutes."""
CONTENDED_STEPS = 40 * 64 * 64
STEPS_REACH = {"sb3": 2.0, "sb3_default": 30, "rsl_rl": 2.5, "plain_torch": 1.6}
WALL_REACH = {"sb3": 0.55, "plain_torch": 0.7, "rsl_rl": 0.4}


@dataclass
class Runs:
    """All runs of one side, seed by seed."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    steps: list[float] = field(default_factory=list)
    reached: list[float] = field(default_factory=list)

    def add(self, figures: dict[str, float]) -> None:
        for name, value in figures.items():
            getattr(self, name).append(value)

    @property
    def speed(self) -> list[float]:
        return _ratios(self.steps, self.seconds)

    @property
    def speed_per_cpu(self) -> list[float]:
        return _ratios(self.steps, self.cpu_seconds)


def measure(table: Table, repetitions: int) -> None:
    """Interleave the sides, one seed after another, each run in a process of its own on one thread."""
    pythons = {side: Path(sys.executable) for side in NAMES}
    pythons |= {side: peers.environment(side, wanted) for side, wanted in REQUIREMENTS.items()}
    pythons["sb3_default"] = pythons["sb3"]
    runs = {side: Runs() for side in NAMES}
    contended: list[dict[str, float]] = []
    jobs: list[dict[str, float]] = []
    for seed in range(1, repetitions + 1):
        for side in _turned(list(NAMES), seed):
            steps = (DEFAULT_STEPS,) if side == "sb3_default" else ()
            runs[side].add(peers.run(pythons[side], MODULE, side, seed, *steps))
        contended.append(peers.run(sys.executable, "tests.bench.contended", seed, CONTENDED_STEPS))
        with tempfile.TemporaryDirectory(prefix="rlark-bench-") as home:
            jobs.append(job.live(Path(home), seed))
    _tell_peers(table, runs)
    _tell_contention(table, contended)
    _tell_jobs(table, jobs)
    _tell_sides(table, runs)
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    versions = ", ".join(wanted for each in REQUIREMENTS.values() for wanted in each)
    table.notes.append(
        f"one thread each; ratios are taken seed by seed, sides in turn; peers {versions}; load {load} at the end"
    )


def _turned(sides: list[str], seed: int) -> list[str]:
    """Another side first for every seed."""
    first = seed % len(sides)
    return sides[first:] + sides[:first]


def _ratios(mine: list[float], theirs: list[float]) -> list[float]:
    return [a / b for a, b in zip(mine, theirs, strict=True)]


def _tell_peers(table: Table, runs: dict[str, Runs]) -> None:
    mine = runs["rlark"]
    for side, reach in STEPS_REACH.items():
        table.add(f"steps_vs_{side}", _ratios(mine.speed, runs[side].speed), f">= {reach}")
    for side, reach in WALL_REACH.items():
        late = int(len(runs[side].reached) - sum(runs[side].reached))
        note = f"{late} of {len(runs[side].reached)} runs of the peer did not reach it in time" if late else ""
        table.add(f"wall_vs_{side}", _ratios(mine.seconds, runs[side].seconds), f"<= {reach}", note)
    late = int(len(mine.reached) - sum(mine.reached))
    if late:
        table.notes.append(f"{late} of {len(mine.reached)} runs of rlark did not reach 90 % in time")


def _tell_contention(table: Table, contended: list[dict[str, float]]) -> None:
    table.add("contended_fraction", [found["fraction"] for found in contended], ">= 0.4", "both cores loaded ÷ quiet")


def _tell_jobs(table: Table, jobs: list[dict[str, float]]) -> None:
    notes = {
        "import": "process start to the first iteration: worker, interpreter, torch, environments",
        "compile": "there is nothing to compile",
        "reports": "metrics, curves and checkpoints while training",
        "export": "ONNX, its gate, parity and latency",
        "evaluation": "probing the checkpoints, then three policies in two envelopes",
        "verification": "result, checksums, and the worker's own look at them",
    }
    table.add("job_overhead_s", [found["overhead"] for found in jobs], "<= 12", "process start to verified artifacts")
    table.add("job_training_s", [found["training"] for found in jobs])
    for part, note in notes.items():
        table.add(f"job_{part}_s", [found[part] for found in jobs], note=note)


def _tell_sides(table: Table, runs: dict[str, Runs]) -> None:
    for side, name in NAMES.items():
        if side in {"rlark", *WALL_REACH}:
            table.add(f"{side}_seconds", runs[side].seconds, note=f"{name}: to 90 % of the last 200 episodes")
            table.add(f"{side}_steps", runs[side].steps, note="control steps until then")
        table.add(f"{side}_steps_per_s", runs[side].speed, note=name)
        table.add(f"{side}_steps_per_cpu_s", runs[side].speed_per_cpu, note="per CPU second")
