"""stable-baselines3 over the environment that our engine trains in."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecEnv

from engines.tasks.training import GoalNavigation

if TYPE_CHECKING:
    from engines.starter_ppo.config import Config
    from rlark.spec.task_pack import TaskPack


class Robots(VecEnv):
    """The same `GoalNavigation`, in stable-baselines3's words."""

    def __init__(self, pack: TaskPack, count: int, seed: int, recent: int) -> None:
        self._env = GoalNavigation(pack, count, np.random.SeedSequence([seed, 3, 0]))
        self._recent: deque[bool] = deque(maxlen=recent)
        seen = spaces.Box(-np.inf, np.inf, (pack.observation_size,), np.float32)
        super().__init__(count, seen, spaces.Box(-1, 1, (2,), np.float32))

    def reset(self) -> Any:
        return self._env.reset()

    def step_async(self, actions: Any) -> None:
        self._actions = actions

    def step_wait(self) -> Any:
        step = self._env.step(self._actions)
        done = step.terminated | step.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(done):
            cut = bool(step.truncated[i])
            infos[i] = {"terminal_observation": step.final_observation[i], "TimeLimit.truncated": cut}
            self._recent.append(bool(step.terminated[i] and step.reward[i] > 0))
        return step.observation, step.reward, done, infos

    def until(self, success: float) -> BaseCallback:
        """Stop once so many of the recent episodes succeeded."""
        recent = self._recent

        class Until(BaseCallback):
            def _on_step(self) -> bool:
                return not (len(recent) == recent.maxlen and sum(recent) >= success * len(recent))

        return Until()

    def close(self) -> None: ...

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs

    def env_method(self, *_: Any, **__: Any) -> list[Any]:
        return [None] * self.num_envs

    def get_attr(self, *_: Any, **__: Any) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, *_: Any, **__: Any) -> None: ...


def learner(robots: Robots, seed: int, config: Config) -> PPO:
    """PPO on one thread, with our nets, epochs and minibatches."""
    torch.set_num_threads(1)
    hidden = list(config.actor.model.hidden_dims)
    return PPO(
        "MlpPolicy",
        robots,
        seed=seed,
        device="cpu",
        n_steps=config.env.train.rollout_steps,
        batch_size=config.actor.global_batch_size,
        n_epochs=config.algorithm.update_epoch,
        learning_rate=config.actor.optim.lr,
        gamma=config.algorithm.gamma,
        gae_lambda=config.algorithm.gae_lambda,
        clip_range=config.algorithm.clip_ratio_high,
        ent_coef=config.algorithm.entropy_bonus,
        max_grad_norm=config.actor.optim.clip_grad,
        policy_kwargs={"net_arch": {"pi": hidden, "vf": hidden}, "log_std_init": config.actor.model.log_std_init},
    )
