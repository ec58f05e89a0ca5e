"""SAC (Haarnoja et al. 2018): from transitions to a policy that is rewarded for staying random."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from engines.ppo.adam import Adam
from engines.ppo.device import Chosen
from engines.ppo.normaliser import Normaliser, Scaling
from engines.starter_ppo.sac_nets import SacShape, gaussian, initial, layers_of, sample, values
from engines.starter_ppo.sac_replay import Replay, Transitions
from rlark.runtime.component import DeviceUse, FloatArray, Metrics, State

ADAM_EPSILON = 1e-8


@dataclass(frozen=True)
class SacSettings:
    """How to learn.

    Attributes:
        gamma: discount of one control step.
        tau: share of the critics that goes into the target critics at every update.
        policy_lr: Adam's learning rate.
        critic_lr: the same of the critics.
        alpha_lr: the same of the temperature's logarithm.
        initial_alpha: the temperature at the start.
        target_entropy: nats that the temperature keeps the policy at.
        batch: transitions of one update.
        normalise_observations: by running mean and deviation.
    """

    gamma: float
    tau: float
    policy_lr: float
    critic_lr: float
    alpha_lr: float
    initial_alpha: float
    target_entropy: float
    batch: int
    normalise_observations: bool


class SacWeights(NamedTuple):
    """A snapshot of the policy, to act with.

    Attributes:
        flat: float32 parameters of the policy.
        scaling: the observations' normaliser, fixed until the next snapshot.
    """

    flat: FloatArray
    scaling: Scaling


class Batch(NamedTuple):
    """Transitions as the nets take them: normalised, on the device, float32.

    Attributes:
        observation: [B, O].
        action: [B, A].
        reward: [B].
        following: [B, O].
        alive: [B], 0 where the episode ended by itself and 1 elsewhere.
    """

    observation: Tensor
    action: Tensor
    reward: Tensor
    following: Tensor
    alive: Tensor


def targets(batch: Batch, future: Tensor, log_prob: Tensor, alpha: Tensor, gamma: float) -> Tensor:
    """What the critics [B] should say: the reward and, where the episode goes on, the soft value of what follows.

    Args:
        batch: its rewards, and which episodes ended by themselves; one that was cut off has its future.
        future: [2, B] of the target critics, of the following observation and a fresh action.
        log_prob: [B] of that action.
        alpha: the temperature.
        gamma: discount of one control step.
    """
    return batch.reward + gamma * batch.alive * (future.min(dim=0).values - alpha * log_prob)


class SacLearner:
    """The policy as it learns."""

    def __init__(self, shape: SacShape, settings: SacSettings, seed: int, chosen: Chosen, log: logging.Logger) -> None:
        """Start with a fresh policy.

        Args:
            shape: of the nets.
            settings: how to learn.
            seed: of the initial weights, of the batches and of the noise.
            chosen: where to compute.
            log: for what goes wrong.
        """
        chosen.tell(log)
        self._settings, self._use, self._device = settings, chosen.use, chosen.device
        generator = torch.Generator().manual_seed(seed)
        self._rng = np.random.Generator(np.random.PCG64(seed))
        policy, critic = initial(shape.policy_sizes(), generator), initial(shape.critic_sizes(), generator)
        self._shape, self._action = shape, shape.action
        self._policy, self._critic = (flat.to(chosen.device).requires_grad_() for flat in (policy, critic))
        self._target = self._critic.detach().clone()
        self._log_alpha = torch.tensor([math.log(settings.initial_alpha)], device=chosen.device, requires_grad=True)
        trained = (self._policy, self._critic, self._log_alpha)
        self._adams = [Adam(flat.detach(), epsilon=ADAM_EPSILON) for flat in trained]
        self._normaliser = Normaliser(shape.observation, enabled=settings.normalise_observations)
        self._scaling = self._normaliser.snapshot()
        self._updates = 0

    @property
    def alpha(self) -> float:
        """The temperature."""
        return math.exp(float(self._log_alpha.detach()))

    def look(self, observation: FloatArray) -> None:
        """Let the normaliser see new observations [..., O]."""
        self._normaliser.update(observation)
        self._scaling = self._normaliser.snapshot()

    def learn(self, replay: Replay, count: int) -> Metrics:
        """Do `count` updates from random batches.

        Raises:
            FloatingPointError: what was learned is not finite any more.
        """
        found = [self._update(self._batch(replay.draw(self._rng, self._settings.batch))) for _ in range(count)]
        means = np.mean(found, axis=0)
        if not np.isfinite(means).all():
            raise FloatingPointError(
                "a loss of SAC is NaN or infinite; the environment or the policy diverged: lower actor.optim.lr and "
                "algorithm.critic_lr, or look at the rewards of the last iteration"
            )
        names = ("criticLoss", "policyLoss", "alphaLoss", "entropy", "qMean")
        return dict(zip(names, means.tolist(), strict=True))

    def _batch(self, drawn: Transitions) -> Batch:
        seen, following = (self._scaling.apply(values) for values in (drawn.observation, drawn.following))
        alive = (~drawn.terminated).astype(np.float32)
        arrays = (seen, drawn.action, drawn.reward, following, alive)
        return Batch(*(torch.from_numpy(array).to(self._device) for array in arrays))

    def _noise(self, count: int) -> Tensor:
        noise = self._rng.standard_normal((count, self._action), dtype=np.float32)
        return torch.from_numpy(noise).to(self._device)

    def _update(self, batch: Batch) -> tuple[float, ...]:
        settings = self._settings
        critic_loss, q_mean = self._learn_values(batch)
        policy_loss, log_prob = self._learn_policy(batch)
        alpha_loss = -(self._log_alpha * (log_prob + settings.target_entropy)).mean()
        self._step(2, alpha_loss, self._log_alpha, settings.alpha_lr)
        self._target.lerp_(self._critic.detach(), settings.tau)
        self._updates += 1
        return critic_loss, policy_loss, float(alpha_loss.detach()), -float(log_prob.mean()), q_mean

    def _learn_values(self, batch: Batch) -> tuple[float, float]:
        settings, sizes = self._settings, self._shape.critic_sizes()
        with torch.no_grad():
            policy = layers_of(self._shape.policy_sizes(), self._policy)
            action, log_prob = sample(*gaussian(policy, batch.following), self._noise(len(batch.reward)))
            future = values(layers_of(sizes, self._target), batch.following, action)
            wanted = targets(batch, future, log_prob, self._log_alpha.exp(), settings.gamma)
        found = values(layers_of(sizes, self._critic), batch.observation, batch.action)
        loss = (found - wanted).square().mean(dim=1).sum()
        self._step(1, loss, self._critic, settings.critic_lr)
        return float(loss.detach()), float(found.detach().mean())

    def _learn_policy(self, batch: Batch) -> tuple[float, Tensor]:
        policy = layers_of(self._shape.policy_sizes(), self._policy)
        action, log_prob = sample(*gaussian(policy, batch.observation), self._noise(len(batch.reward)))
        critics = layers_of(self._shape.critic_sizes(), self._critic.detach())
        value = values(critics, batch.observation, action).min(dim=0).values
        loss = (self._log_alpha.detach().exp() * log_prob - value).mean()
        self._step(0, loss, self._policy, self._settings.policy_lr)
        return float(loss.detach()), log_prob.detach()

    def _step(self, which: int, loss: Tensor, flat: Tensor, lr: float) -> None:
        (gradient,) = torch.autograd.grad(loss, flat)
        with torch.no_grad():
            self._adams[which].step(gradient, lr)

    def device(self) -> DeviceUse:
        """What it computes on."""
        return self._use

    def weights(self) -> SacWeights:
        """A snapshot to act with."""
        return SacWeights(self._policy.detach().cpu().numpy().copy(), self._scaling)

    def state(self) -> State:
        """Everything needed to continue exactly here."""
        flats = {"flat": self._policy, "critic": self._critic, "target": self._target, "log_alpha": self._log_alpha}
        return {
            **{name: flat.detach().cpu().numpy().copy() for name, flat in flats.items()},
            "scaling_mean": self._scaling.mean,
            "scaling_std": self._scaling.std,
            "adams": [adam.state() for adam in self._adams],
            "normaliser": self._normaliser.state(),
            "rng": self._rng.bit_generator.state,
            "updates": self._updates,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from there.

        Raises:
            ValueError: the state belongs to other nets or to another algorithm.
        """
        if "critic" not in state or np.shape(state["flat"]) != self._policy.shape:
            raise ValueError(
                f"the checkpoint is not one of SAC with {len(self._policy)} parameters in its policy: resume with the "
                "same algorithm.type, the same actor.model and the same task"
            )
        with torch.no_grad():
            flats = {"flat": self._policy, "critic": self._critic, "target": self._target, "log_alpha": self._log_alpha}
            for name, flat in flats.items():
                flat.copy_(torch.as_tensor(np.array(state[name])))
        for adam, saved in zip(self._adams, state["adams"], strict=True):
            adam.restore(saved)
        self._normaliser.restore(state["normaliser"])
        self._scaling = self._normaliser.snapshot()
        self._rng.bit_generator.state = state["rng"]
        self._updates = int(state["updates"])
