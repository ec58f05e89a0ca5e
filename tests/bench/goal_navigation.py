"""One training run of the bench task until 90 % of the last 200 finished episodes succeeded.

    python -m tests.bench.goal_navigation {rlark|sb3} SEED

Prints `{seconds, cpu_seconds, steps}`: no import, no set-up of the environment, no export, no evaluation.
Every side learns in the same `engines.tasks` environment, with the nets, epochs and minibatches of
configs/originbot_ppo_bench.yaml.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rlark.spec.config import compose
from rlark.spec.job import ConfigSource

CONFIG = Path(__file__).parents[2] / "configs/originbot_ppo_bench.yaml"
RECENT, SUCCESS = 200, 0.9
MOST_STEPS = 3_000_000


class Clock:
    """Wall and CPU seconds of a piece of work."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self, steps: int) -> dict[str, float]:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"seconds": wall, "cpu_seconds": cpu, "steps": steps}


def effective() -> dict[str, Any]:
    """The bench configuration, composed."""
    composed = compose(ConfigSource(path=str(CONFIG)), CONFIG.parent)
    if composed.effective is None:
        raise RuntimeError("\n".join(map(str, composed.findings)))
    return copy.deepcopy(composed.effective)


def rlark(seed: int) -> dict[str, float]:
    """The engine as a Job runs it, fused."""
    from engines.starter_ppo.components import PROGRAM
    from rlark.plan.plan import Plan
    from rlark.runtime.trainer import FusedTrainer, Workload

    raw = effective()
    raw["algorithm"]["seed"] = seed
    workload = Workload.of(PROGRAM, Plan(job="bench", node="", config=raw))
    trainer = FusedTrainer(workload, threads=1)
    per_iteration = workload.shape.num_envs * workload.shape.steps
    episodes, steps, clock = 0.0, 0, Clock()
    while steps < MOST_STEPS:
        metrics = trainer.iterate()
        steps += per_iteration
        episodes += metrics["episodes"]
        if episodes >= RECENT and metrics["recentSuccess"] >= SUCCESS:
            break
    return clock.read(steps)


def stable_baselines3(seed: int) -> dict[str, float]:
    """stable-baselines3's PPO over the same vectorised environment."""
    from engines.starter_ppo.config import Config
    from tests.bench.sb3 import Robots, learner

    chosen = Config.model_validate(effective())
    robots = Robots(chosen.task, chosen.env.train.total_num_envs, seed, RECENT)
    model = learner(robots, seed, chosen)
    clock = Clock()
    model.learn(MOST_STEPS, callback=robots.until(SUCCESS))
    return clock.read(model.num_timesteps)


SIDES: dict[str, Callable[[int], dict[str, float]]] = {"rlark": rlark, "sb3": stable_baselines3}

if __name__ == "__main__":
    print(json.dumps(SIDES[sys.argv[1]](int(sys.argv[2]))))
