"""starter-ppo beside stable-baselines3 on the bench task, the same environment, nets and minibatches."""

from __future__ import annotations

import sys

from tests.bench import peers
from tests.bench.table import Table

SB3 = ("stable-baselines3==2.9.2",)
MODULE = "tests.bench.goal_navigation"


def measure(table: Table, repetitions: int) -> None:
    """Interleave the sides, one seed after another, each run in a process of its own on one thread."""
    sides = {"rlark": sys.executable, "sb3": peers.environment("sb3", SB3)}
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for seed in range(1, repetitions + 1):
        for side, python in sides.items():
            runs[side].append(peers.run(python, MODULE, side, seed))

    def each(side: str, value: str) -> list[float]:
        return [run[value] for run in runs[side]]

    def speed(side: str) -> list[float]:
        return [run["steps"] / run["seconds"] for run in runs[side]]

    def ratio(mine: list[float], theirs: list[float]) -> list[float]:
        return [a / b for a, b in zip(mine, theirs, strict=True)]

    table.add("wall_vs_sb3", ratio(each("rlark", "seconds"), each("sb3", "seconds")), "<= 0.55")
    table.add("steps_vs_sb3", ratio(speed("rlark"), speed("sb3")), ">= 2.0")
    for side in sides:
        table.add(f"{side}_seconds", each(side, "seconds"), note="to 90 % of the last 200 episodes")
        table.add(f"{side}_steps_per_s", speed(side))
        per_cpu = [run["steps"] / run["cpu_seconds"] for run in runs[side]]
        table.add(f"{side}_steps_per_cpu_s", per_cpu, note="steps per CPU second")
    table.notes.append("one thread each; ratios are taken seed by seed; stable-baselines3 2.9.2")
