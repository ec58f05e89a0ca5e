"""One training run of the bench task, of one side, in a process of its own.

    python -m tests.bench.goal_navigation SIDE SEED [STEPS]

Prints `{seconds, cpu_seconds, steps, reached}`: no import, no set-up of the environment, no export, no
evaluation. A run ends once 90 % of the last 200 finished episodes succeeded, or after STEPS control steps
where these are given. Every side learns in the same `engines.tasks` environment, with the nets, epochs and
minibatches of configs/originbot_ppo_bench.yaml, on one thread; only `sb3_default` keeps
stable-baselines3's own settings.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from engines.starter_ppo.config import Config
from engines.tasks.training import GoalNavigation
from rlark.spec.config import compose
from rlark.spec.job import ConfigSource

if TYPE_CHECKING:
    from rlark.runtime.component import Step
    from rlark.spec.task_pack import TaskPack

CONFIG = Path(__file__).parents[2] / "configs/originbot_ppo_bench.yaml"
RECENT, SUCCESS = 200, 0.9
MOST_STEPS = 3_000_000
Figures = dict[str, float]


class Clock:
    """Wall and CPU seconds of a piece of work."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def read(self, steps: int, *, reached: bool = True) -> Figures:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"seconds": wall, "cpu_seconds": cpu, "steps": steps, "reached": float(reached)}


class Recent:
    """Whether the run is over: enough of the recent episodes succeeded, or enough steps were done."""

    def __init__(self, steps: int | None) -> None:
        """Look out for success, or only count so many control steps."""
        self._most, self._by_success = steps or MOST_STEPS, steps is None
        self._outcomes: deque[bool] = deque(maxlen=RECENT)
        self.steps = 0

    def add(self, step: Step, goal_reward: float) -> None:
        """Count one control step of all robots; a reward of half the goal's says that a robot arrived."""
        self.steps += len(step.reward)
        for robot in np.flatnonzero(step.terminated | step.truncated):
            self._outcomes.append(bool(step.terminated[robot] and step.reward[robot] > 0.5 * goal_reward))

    @property
    def reached(self) -> bool:
        """Whether enough of the recent episodes succeeded."""
        return len(self._outcomes) == RECENT and sum(self._outcomes) >= SUCCESS * RECENT

    @property
    def over(self) -> bool:
        """Whether the run may end."""
        return self.steps >= self._most or (self._by_success and self.reached)


def effective() -> dict[str, Any]:
    """The bench configuration, composed."""
    composed = compose(ConfigSource(path=str(CONFIG)), CONFIG.parent)
    if composed.effective is None:
        raise RuntimeError("\n".join(map(str, composed.findings)))
    return copy.deepcopy(composed.effective)


def environment(pack: TaskPack, count: int, seed: int, rank: int = 0) -> GoalNavigation:
    """The environment that every side learns in, with the random stream that our own engine would give it."""
    return GoalNavigation(pack, count, np.random.SeedSequence([seed, 2, rank]))


def rlark(seed: int, steps: int | None) -> Figures:
    """The engine as a Job runs it: fused, with its metrics, curves and checkpoints."""
    from tests.bench.fused_run import FusedRun

    with FusedRun(effective(), seed) as run:
        clock = Clock()
        reached = run.until(RECENT, SUCCESS, MOST_STEPS) if steps is None else run.for_steps(steps)
        return clock.read(run.steps, reached=reached)


def stable_baselines3(seed: int, steps: int | None) -> Figures:
    """stable-baselines3's PPO over the same vectorised environment."""
    from tests.bench import sb3

    config, recent = Config.model_validate(effective()), Recent(steps)
    model = sb3.learner(sb3.Robots(config, seed, recent), seed, config)
    clock = Clock()
    model.learn(MOST_STEPS, callback=sb3.until(recent))
    return clock.read(recent.steps, reached=recent.reached)


def stable_baselines3_default(seed: int, steps: int | None) -> Figures:
    """stable-baselines3's PPO with its defaults: whole iterations of 8 environments of one robot."""
    from tests.bench import sb3

    config, recent = Config.model_validate(effective()), Recent(steps)
    model = sb3.default_learner(config, seed, recent)
    clock = Clock()
    # a callback that stops at the last step would leave the last update out
    model.learn(steps or MOST_STEPS, callback=None if steps else sb3.until(recent))
    return clock.read(recent.steps, reached=recent.reached)


def rsl_rl(seed: int, steps: int | None) -> Figures:
    """rsl_rl's PPO and runner, over the same environment on torch tensors."""
    from tests.bench import rsl_rl

    config, recent = Config.model_validate(effective()), Recent(steps)
    runner = rsl_rl.runner(config, seed, recent)
    clock = Clock()
    rsl_rl.learn(runner, recent)
    return clock.read(recent.steps, reached=recent.reached)


def plain_torch(seed: int, steps: int | None) -> Figures:
    """A plain loop in torch, one file, as people write it."""
    from tests.bench import plain_torch

    config, recent = Config.model_validate(effective()), Recent(steps)
    loop = plain_torch.Loop(config, seed, recent)
    clock = Clock()
    while not recent.over:
        loop.iterate()
    return clock.read(recent.steps, reached=recent.reached)


SIDES: dict[str, Callable[[int, int | None], Figures]] = {
    "rlark": rlark,
    "sb3": stable_baselines3,
    "sb3_default": stable_baselines3_default,
    "rsl_rl": rsl_rl,
    "plain_torch": plain_torch,
}

if __name__ == "__main__":
    side, seed, *rest = sys.argv[1:]
    print(json.dumps(SIDES[side](int(seed), int(rest[0]) if rest else None)))
