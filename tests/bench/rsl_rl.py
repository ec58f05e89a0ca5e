"""rsl_rl over the environment that our engine trains in, on torch tensors that share its memory."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

from tests.bench.goal_navigation import Recent, environment

if TYPE_CHECKING:
    import numpy as np

    from engines.starter_ppo.config import Config


class Over(Exception):
    """The run is over; rsl_rl's runner knows no other end than a number of iterations."""


class Robots(VecEnv):
    """The same vectorised environment, in rsl_rl's words."""

    def __init__(self, config: Config, seed: int, recent: Recent) -> None:
        self.num_envs, self.num_actions = config.env.train.total_num_envs, config.task.action_size
        self.max_episode_length = config.task.termination.timeout_steps
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.device, self.cfg = "cpu", {}
        self._env, self._recent = environment(config.task, self.num_envs, seed), recent
        self._goal = config.task.reward.goal
        self._seen = self._tensors(self._env.reset())

    def _tensors(self, observation: np.ndarray) -> TensorDict:
        return TensorDict({"policy": torch.from_numpy(observation)}, batch_size=[self.num_envs])

    def get_observations(self) -> TensorDict:
        return self._seen

    def step(self, actions: torch.Tensor) -> tuple[TensorDict, torch.Tensor, torch.Tensor, dict[str, Any]]:
        step = self._env.step(actions.numpy())
        self._recent.add(step, self._goal)
        if self._recent.over:
            raise Over
        self._seen = self._tensors(step.observation)
        truncated = torch.from_numpy(step.truncated)
        done = torch.from_numpy(step.terminated) | truncated
        return self._seen, torch.from_numpy(step.reward), done, {"time_outs": truncated}


def runner(config: Config, seed: int, recent: Recent) -> OnPolicyRunner:
    """PPO on one thread, with our nets, epochs and minibatches; no logger, as its documentation offers."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model, algorithm, optim = config.actor.model, config.algorithm, config.actor.optim
    net = {"class_name": "MLPModel", "hidden_dims": list(model.hidden_dims), "activation": "tanh"}
    noise = {"class_name": "GaussianDistribution", "init_std": _std(model.log_std_init), "std_type": "log"}
    settings: dict[str, Any] = {
        "num_steps_per_env": config.env.train.rollout_steps,
        "save_interval": 1_000_000,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**net, "obs_normalization": model.normalize_observations, "distribution_cfg": noise},
        "critic": {**net, "obs_normalization": model.normalize_observations},
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": algorithm.update_epoch,
            "num_mini_batches": config.transitions // config.minibatch,
            "clip_param": algorithm.clip_ratio_high,
            "gamma": algorithm.gamma,
            "lam": algorithm.gae_lambda,
            "value_loss_coef": algorithm.value_loss_coef,
            "entropy_coef": algorithm.entropy_bonus,
            "learning_rate": optim.lr,
            "max_grad_norm": optim.clip_grad,
            "schedule": "fixed",
            "normalize_advantage_per_mini_batch": algorithm.normalize_advantages,
        },
    }
    with _quiet():
        return OnPolicyRunner(Robots(config, seed, recent), settings, log_dir=None, device="cpu")


def _std(log_std: float) -> float:
    return float(torch.tensor(log_std).exp())


def learn(runner: OnPolicyRunner, recent: Recent) -> None:
    """Iterate until the run is over."""
    with _quiet(), contextlib.suppress(Over):
        while not recent.over:
            runner.learn(100)


@contextlib.contextmanager
def _quiet() -> Any:
    """What it prints is not what the caller reads."""
    with Path(os.devnull).open("w") as nothing, contextlib.redirect_stdout(nothing):
        yield
