"""PPO in plain torch, as people write it in one file (after CleanRL's `ppo_continuous_action.py`).

Modules, autograd, `torch.optim.Adam` and tensors that are reserved once; nothing is fused by hand. It does
not normalise observations: on the bench task this loop learns a little faster without.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.distributions import Normal

from tests.bench.goal_navigation import Recent, environment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engines.starter_ppo.config import Config


def _layer(before: int, after: int, gain: float = math.sqrt(2.0)) -> nn.Linear:
    layer = nn.Linear(before, after)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


def _net(widths: Sequence[int], gain: float) -> nn.Sequential:
    *hidden, last = pairwise(widths)
    layers: list[nn.Module] = []
    for before, after in hidden:
        layers += [_layer(before, after), nn.Tanh()]
    return nn.Sequential(*layers, _layer(*last, gain))


class Agent(nn.Module):
    """Separate nets for the mean action and the value, and a deviation for each action."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        observation, action = config.task.observation_size, config.task.action_size
        hidden = config.actor.model.hidden_dims
        self.mean = _net([observation, *hidden, action], 0.01)
        self.critic = _net([observation, *hidden, 1], 1.0)
        self.log_std = nn.Parameter(torch.full((action,), config.actor.model.log_std_init))

    def value(self, observation: Tensor) -> Tensor:
        return self.critic(observation).squeeze(-1)

    def distribution(self, observation: Tensor) -> Normal:
        return Normal(self.mean(observation), self.log_std.exp(), validate_args=False)


class Loop:
    """Rollouts and updates."""

    def __init__(self, config: Config, seed: int, recent: Recent) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        self._config, self._recent = config, recent
        steps, count = config.env.train.rollout_steps, config.env.train.total_num_envs
        self._env = environment(config.task, count, seed)
        self._agent = Agent(config)
        self._adam = torch.optim.Adam(self._agent.parameters(), lr=config.actor.optim.lr, eps=1e-5)
        self._observations = torch.zeros(steps, count, config.task.observation_size)
        self._actions = torch.zeros(steps, count, config.task.action_size)
        self._log_probs, self._rewards = torch.zeros(steps, count), torch.zeros(steps, count)
        self._values, self._dones = torch.zeros(steps, count), torch.zeros(steps, count)
        self._next = torch.from_numpy(self._env.reset())

    def iterate(self) -> None:
        """One rollout and, unless the run is over, one update."""
        self._collect()
        if not self._recent.over:
            self._update(*self._advantages())

    @torch.no_grad()
    def _collect(self) -> None:
        gamma, goal = self._config.algorithm.gamma, self._config.task.reward.goal
        for t in range(len(self._rewards)):
            observation = self._observations[t] = self._next
            distribution = self._agent.distribution(observation)
            action = distribution.sample()
            self._actions[t], self._log_probs[t] = action, distribution.log_prob(action).sum(1)
            self._values[t] = self._agent.value(observation)
            step = self._env.step(action.numpy())
            self._recent.add(step, goal)
            if self._recent.over:
                return
            self._rewards[t] = torch.from_numpy(step.reward)
            if step.truncated.any():
                cut = torch.from_numpy(step.truncated)
                final = torch.from_numpy(step.final_observation)[cut]
                self._rewards[t, cut] += gamma * self._agent.value(final)
            self._dones[t] = torch.from_numpy(step.terminated | step.truncated)
            self._next = torch.from_numpy(step.observation)

    @torch.no_grad()
    def _advantages(self) -> tuple[Tensor, Tensor]:
        algorithm = self._config.algorithm
        following = self._agent.value(self._next)
        advantages, running = torch.zeros_like(self._rewards), torch.zeros_like(following)
        for t in reversed(range(len(self._rewards))):
            alive = 1.0 - self._dones[t]
            delta = self._rewards[t] + algorithm.gamma * following * alive - self._values[t]
            running = advantages[t] = delta + algorithm.gamma * algorithm.gae_lambda * alive * running
            following = self._values[t]
        return advantages, advantages + self._values

    def _update(self, advantages: Tensor, returns: Tensor) -> None:
        config = self._config
        columns = (self._observations, self._actions, self._log_probs, advantages, returns)
        batch = [column.flatten(0, 1) for column in columns]
        for _ in range(config.algorithm.update_epoch):
            for chosen in torch.randperm(config.transitions).split(config.minibatch):
                loss = self._loss(*(column[chosen] for column in batch))
                self._adam.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self._agent.parameters(), config.actor.optim.clip_grad)
                self._adam.step()

    def _loss(self, observation: Tensor, action: Tensor, old: Tensor, advantage: Tensor, target: Tensor) -> Tensor:
        algorithm = self._config.algorithm
        distribution = self._agent.distribution(observation)
        ratio = (distribution.log_prob(action).sum(1) - old).exp()
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        clipped = ratio.clamp(1.0 - algorithm.clip_ratio_low, 1.0 + algorithm.clip_ratio_high)
        policy = -torch.min(ratio * advantage, clipped * advantage).mean()
        value = (self._agent.value(observation) - target).square().mean()
        entropy = distribution.entropy().sum(1).mean()
        return policy + algorithm.value_loss_coef * value - algorithm.entropy_bonus * entropy
