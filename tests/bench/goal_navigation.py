"""One training run of the bench task until 90 % of the last 200 finished episodes succeeded.

    python -m tests.bench.goal_navigation {rlark|sb3|sb3_default} SEED

Prints `{seconds, cpu_seconds, steps}`: no import, no set-up of the environment, no export, no evaluation.
Every side learns in the same `engines.tasks` environment, with the nets, epochs and minibatches of
configs/originbot_ppo_bench.yaml.
"""

from __future__ import annotations

import copy
import json
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

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


def stable_baselines3(seed: int, *, defaults: bool) -> dict[str, float]:
    """stable-baselines3's PPO over the same vectorised environment."""
    import torch
    from gymnasium import spaces
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import VecEnv

    from engines.starter_ppo.config import Config
    from engines.tasks.training import GoalNavigation

    torch.set_num_threads(1)
    chosen = Config.model_validate(effective())
    pack = chosen.task
    count = 8 if defaults else chosen.env.train.total_num_envs
    recent: deque[bool] = deque(maxlen=RECENT)

    class Robots(VecEnv):
        def __init__(self) -> None:
            self._env = GoalNavigation(pack, count, np.random.SeedSequence([seed, 3, 0]))
            seen = spaces.Box(-np.inf, np.inf, (pack.observation_size,), np.float32)
            super().__init__(count, seen, spaces.Box(-1, 1, (2,), np.float32))

        def reset(self) -> Any:
            return self._env.reset()

        def step_async(self, actions: Any) -> None:
            self._actions = actions

        def step_wait(self) -> Any:
            step = self._env.step(self._actions)
            done = step.terminated | step.truncated
            infos: list[dict[str, Any]] = [{} for _ in range(count)]
            for i in np.flatnonzero(done):
                infos[i] = {
                    "terminal_observation": step.final_observation[i],
                    "TimeLimit.truncated": bool(step.truncated[i]),
                }
                recent.append(bool(step.terminated[i] and step.reward[i] > 0))
            return step.observation, step.reward, done, infos

        def close(self) -> None: ...
        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False] * count

        def env_method(self, *_: Any, **__: Any) -> list[Any]:
            return [None] * count

        def get_attr(self, *_: Any, **__: Any) -> list[Any]:
            return [None] * count

        def set_attr(self, *_: Any, **__: Any) -> None: ...

    class Until(BaseCallback):
        def _on_step(self) -> bool:
            return not (len(recent) == RECENT and sum(recent) >= SUCCESS * RECENT)

    same = {
        "n_steps": chosen.env.train.rollout_steps,
        "batch_size": chosen.actor.global_batch_size,
        "n_epochs": chosen.algorithm.update_epoch,
        "learning_rate": chosen.actor.optim.lr,
        "gamma": chosen.algorithm.gamma,
        "gae_lambda": chosen.algorithm.gae_lambda,
        "clip_range": chosen.algorithm.clip_ratio_high,
        "ent_coef": chosen.algorithm.entropy_bonus,
        "max_grad_norm": chosen.actor.optim.clip_grad,
        "policy_kwargs": {
            "net_arch": {"pi": list(chosen.actor.model.hidden_dims), "vf": list(chosen.actor.model.hidden_dims)},
            "log_std_init": chosen.actor.model.log_std_init,
        },
    }
    model = PPO("MlpPolicy", Robots(), seed=seed, device="cpu", **({} if defaults else same))
    clock = Clock()
    model.learn(MOST_STEPS, callback=Until())
    return clock.read(model.num_timesteps)


SIDES: dict[str, Callable[[int], dict[str, float]]] = {
    "rlark": rlark,
    "sb3": lambda seed: stable_baselines3(seed, defaults=False),
    "sb3_default": lambda seed: stable_baselines3(seed, defaults=True),
}

if __name__ == "__main__":
    print(json.dumps(SIDES[sys.argv[1]](int(sys.argv[2]))))
