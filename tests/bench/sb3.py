"""stable-baselines3 over the environment that our engine trains in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from tests.bench.goal_navigation import Recent, environment

if TYPE_CHECKING:
    from engines.starter_ppo.config import Config

DEFAULT_ENVIRONMENTS = 8


def _spaces(config: Config) -> tuple[spaces.Box, spaces.Box]:
    seen = spaces.Box(-np.inf, np.inf, (config.task.observation_size,), np.float32)
    return seen, spaces.Box(-1, 1, (config.task.action_size,), np.float32)


class Robots(VecEnv):
    """The same vectorised environment, in stable-baselines3's words."""

    def __init__(self, config: Config, seed: int, recent: Recent) -> None:
        count = config.env.train.total_num_envs
        self._env, self._recent = environment(config.task, count, seed), recent
        self._goal = config.task.reward.goal
        super().__init__(count, *_spaces(config))

    def reset(self) -> Any:
        return self._env.reset()

    def step_async(self, actions: Any) -> None:
        self._actions = actions

    def step_wait(self) -> Any:
        step = self._env.step(self._actions)
        self._recent.add(step, self._goal)
        done = step.terminated | step.truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(done):
            cut = bool(step.truncated[i])
            infos[i] = {"terminal_observation": step.final_observation[i], "TimeLimit.truncated": cut}
        return step.observation, step.reward, done, infos

    def close(self) -> None: ...

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [False] * self.num_envs

    def env_method(self, *_: Any, **__: Any) -> list[Any]:
        return [None] * self.num_envs

    def get_attr(self, *_: Any, **__: Any) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, *_: Any, **__: Any) -> None: ...


class Robot(gymnasium.Env[Any, Any]):
    """One robot of the same environment, as a gymnasium environment."""

    def __init__(self, config: Config, seed: int, rank: int, recent: Recent) -> None:
        self._env, self._recent = environment(config.task, 1, seed, rank), recent
        self._goal = config.task.reward.goal
        self.observation_space, self.action_space = _spaces(config)
        self._observation = self._env.reset()[0]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """The beginning that the environment has drawn by itself when the last episode ended."""
        super().reset(seed=seed, options=options)
        return self._observation, {}

    def step(self, action: Any) -> Any:
        step = self._env.step(action[None])
        self._recent.add(step, self._goal)
        self._observation = step.observation[0]
        ended, cut = bool(step.terminated[0]), bool(step.truncated[0])
        seen = step.final_observation[0] if ended or cut else self._observation
        return seen, float(step.reward[0]), ended, cut, {}


class _Until(BaseCallback):
    def __init__(self, recent: Recent) -> None:
        super().__init__()
        self._recent = recent

    def _on_step(self) -> bool:
        return not self._recent.over


def until(recent: Recent) -> BaseCallback:
    """Stop once the run is over."""
    return _Until(recent)


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
        batch_size=config.minibatch,
        n_epochs=config.algorithm.update_epoch,
        learning_rate=config.actor.optim.lr,
        gamma=config.algorithm.gamma,
        gae_lambda=config.algorithm.gae_lambda,
        clip_range=config.algorithm.clip_ratio_high,
        ent_coef=config.algorithm.entropy_bonus,
        vf_coef=config.algorithm.value_loss_coef,
        max_grad_norm=config.actor.optim.clip_grad,
        policy_kwargs={"net_arch": {"pi": hidden, "vf": hidden}, "log_std_init": config.actor.model.log_std_init},
    )


def default_learner(config: Config, seed: int, recent: Recent) -> PPO:
    """PPO as it comes (2048 steps, minibatches of 64, 10 epochs), over a `DummyVecEnv` of 8."""
    torch.set_num_threads(1)

    def robot(rank: int) -> Robot:
        return Robot(config, seed, rank, recent)

    robots = DummyVecEnv([lambda rank=rank: robot(rank) for rank in range(DEFAULT_ENVIRONMENTS)])  # type: ignore[misc]
    return PPO("MlpPolicy", robots, seed=seed, device="cpu")
