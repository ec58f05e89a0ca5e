"""PPO (Schulman et al. 2017): one rollout in, better weights out."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from engines.ppo.adam import Adam
from engines.ppo.device import Chosen
from engines.ppo.gae import advantages
from engines.ppo.normaliser import Normaliser, Scaling
from engines.ppo.policy import NetShape, initial, parts_of
from engines.ppo.update import Fused, Loss, Stats, entropy
from rlark.runtime.component import DeviceUse, FloatArray, Metrics, State
from rlark.runtime.trajectory import Trajectory

KL_STOP = 1.5
"""An update stops early when the divergence passes this many times `target_kl`."""
KL_STEP = 1.5
"""What the adaptive schedule multiplies or divides the learning rate by."""
ADAPTIVE_RANGE = (1e-5, 1e-2)


@dataclass(frozen=True)
class Settings:
    """How to learn.

    Attributes:
        iterations: how many updates there will be, for the schedules.
        gamma: discount of one control step.
        gae_lambda: weight of longer advantage estimates.
        reward_scale: factor on rewards before anything is learned from them.
        epochs: passes over each rollout.
        minibatch: transitions of one optimiser step.
        microbatch: transitions whose gradient is computed at once; divides `minibatch`.
        loss: the loss's weights.
        entropy_final: the entropy bonus goes linearly from the loss's to this.
        lr: Adam's learning rate.
        lr_schedule: constant, linear to `lr_final`, or adaptive to `target_kl`.
        lr_final: share of `lr` left at the end of the linear schedule.
        target_kl: stop an update beyond 1.5 times this divergence; None for never.
        clip_grad: greatest norm of the gradient.
        log_std: the initial one and the range it is kept in.
        normalise_observations: by running mean and deviation.
    """

    iterations: int
    gamma: float
    gae_lambda: float
    reward_scale: float
    epochs: int
    minibatch: int
    microbatch: int
    loss: Loss
    entropy_final: float
    lr: float
    lr_schedule: Literal["constant", "linear", "adaptive"]
    lr_final: float
    target_kl: float | None
    clip_grad: float
    log_std: tuple[float, float, float]
    normalise_observations: bool


class Weights(NamedTuple):
    """A snapshot of the policy, to act with.

    Attributes:
        flat: [count] float32 parameters.
        scaling: the observations' normaliser, fixed until the next snapshot.
    """

    flat: FloatArray
    scaling: Scaling


class Learner:
    """The policy as it learns.

    Everything is computed in torch's inference mode. No graph is recorded without it either, but with it
    torch does not even look for one, and a whole iteration of small operations is about 5 % faster.
    """

    def __init__(self, shape: NetShape, settings: Settings, seed: int, chosen: Chosen, log: logging.Logger) -> None:
        """Start with a fresh policy.

        Args:
            shape: of the nets.
            settings: how to learn.
            seed: of the initial weights and the shuffling.
            chosen: where to compute.
            log: for what goes wrong.
        """
        self._shape, self._settings, self._log, self._use = shape, settings, log, chosen.use
        chosen.tell(log)
        self._generator = torch.Generator().manual_seed(seed)
        with torch.inference_mode():
            self._flat = initial(shape, self._generator, settings.log_std[0]).to(chosen.device)
            self._parts = parts_of(shape, self._flat)
            self._gradient = torch.zeros_like(self._flat)
            self._sum = torch.zeros_like(self._flat)
            self._adam = Adam(self._flat)
            self._fused = Fused(shape, self._flat, self._gradient, settings.microbatch)
        self._normaliser = Normaliser(shape.observation, enabled=settings.normalise_observations)
        self._scaling = self._normaliser.snapshot()
        self._iteration = 0
        self._lr = settings.lr

    def update(self, trajectory: Trajectory) -> Metrics:
        """Learn from one rollout that acted with the last `weights`.

        Raises:
            FloatingPointError: the rollout holds NaN or infinity, or no step of the update was finite.
            ValueError: the rollout does not divide into the minibatches.
        """
        with torch.inference_mode():
            return self._learn(trajectory)

    def _learn(self, trajectory: Trajectory) -> Metrics:
        settings = self._settings
        advantage, target = advantages(trajectory, settings.gamma, settings.gae_lambda, settings.reward_scale)
        packed = self._pack(trajectory, advantage, target)
        progress = self._iteration / max(1, settings.iterations - 1)
        loss = self._loss(min(progress, 1.0))
        if settings.lr_schedule == "linear":
            self._lr = settings.lr * (1.0 + (settings.lr_final - 1.0) * min(progress, 1.0))
        found = self._epochs(packed, loss)
        self._normaliser.update(trajectory.observation)
        self._scaling = self._normaliser.snapshot()
        self._iteration += 1
        spread = float(np.var(target))
        explained = 1.0 - float(np.var(target - trajectory.value)) / spread if spread > 0 else math.nan
        deviation = float(self._parts.log_std.exp().mean())
        return {**found, "entropy": entropy(self._parts), "actionStd": deviation, "explainedVariance": explained}

    def _pack(self, trajectory: Trajectory, advantage: FloatArray, target: FloatArray) -> Tensor:
        shape, total = self._shape, advantage.size
        if total % self._settings.minibatch:
            raise ValueError(
                f"a rollout of {total} transitions (environments times steps) does not divide into minibatches of "
                f"{self._settings.minibatch}: change actor.global_batch_size, total_num_envs or rollout_steps"
            )
        observation, action = shape.observation, shape.action
        packed = np.empty((total, observation + action + 3), np.float32)
        self._scaling.apply(trajectory.observation.reshape(total, observation), out=packed[:, :observation])
        packed[:, observation:-3] = trajectory.action.reshape(total, action)
        packed[:, -3] = trajectory.log_prob.reshape(total)
        packed[:, -2] = advantage.reshape(total)
        packed[:, -1] = target.reshape(total)
        if not np.isfinite(packed).all():
            raise FloatingPointError(
                "the rollout holds NaN or infinity; the environment or the policy diverged: lower actor.optim.lr "
                "or look at the rewards of the last iteration"
            )
        return torch.from_numpy(packed).to(self._flat.device)

    def _loss(self, progress: float) -> Loss:
        loss, last = self._settings.loss, self._settings.entropy_final
        bonus = loss.entropy_bonus + (last - loss.entropy_bonus) * progress
        return Loss(loss.clip_low, loss.clip_high, loss.value_coefficient, bonus, loss.normalize_advantages)

    def _epochs(self, packed: Tensor, loss: Loss) -> Metrics:
        settings, total = self._settings, len(packed)
        stats: list[Stats] = []
        norm, skipped, first_error = 0.0, 0, math.nan
        steps = settings.epochs * (total // settings.minibatch)
        for epoch in range(settings.epochs):
            order = torch.randperm(total, generator=self._generator).to(packed.device)
            for start in range(0, total, settings.minibatch):
                self._minibatch(packed[order[start : start + settings.minibatch]], loss)
                if epoch == start == 0:
                    first_error = self._fused.stats().max_ratio_error
                norm = float(torch.linalg.vector_norm(self._gradient))
                if math.isfinite(norm):
                    self._descend(norm)
                else:
                    skipped += 1
            stats.append(self._fused.stats())
            if settings.target_kl is not None and stats[-1].approx_kl > KL_STOP * settings.target_kl:
                break
        if skipped:
            self._tell_skipped(skipped, steps)
        self._adapt(stats[-1].approx_kl)
        last = stats[-1]
        return {
            "policyLoss": last.policy_loss,
            "valueLoss": last.value_loss,
            "approxKl": last.approx_kl,
            "clipFraction": last.clip_fraction,
            "firstRatioError": first_error,
            "gradNorm": norm,
            "learningRate": self._lr,
            "epochs": float(len(stats)),
            "skippedMinibatches": float(skipped),
        }

    def _minibatch(self, packed: Tensor, loss: Loss) -> None:
        """Write the gradient of one minibatch, in parts where it is too large for one."""
        settings = self._settings
        moments = None
        if loss.normalize_advantages and len(packed) > 1:
            advantage = packed[:, -2]
            deviation, mean = torch.std_mean(advantage)
            moments = (mean, deviation)
        if settings.microbatch == settings.minibatch:
            self._fused(packed, loss, settings.minibatch, moments)
            return
        self._sum.zero_()
        for part in packed.split(settings.microbatch):
            self._fused(part, loss, settings.minibatch, moments)
            self._sum += self._gradient
        self._gradient.copy_(self._sum)

    def _descend(self, norm: float) -> None:
        if norm > self._settings.clip_grad:
            self._gradient.mul_(self._settings.clip_grad / norm)
        self._adam.step(self._gradient, self._lr)
        _, least, most = self._settings.log_std
        self._parts.log_std.clamp_(least, most)

    def _tell_skipped(self, skipped: int, steps: int) -> None:
        message = (
            f"{skipped} of {steps} minibatches of iteration {self._iteration + 1} had a gradient that is not finite"
        )
        if skipped == steps:
            raise FloatingPointError(f"{message}: nothing can be learned any more; lower actor.optim.lr")
        self._log.warning("%s; they were skipped", message)

    def _adapt(self, kl: float) -> None:
        target = self._settings.target_kl
        if self._settings.lr_schedule != "adaptive" or target is None:
            return
        least, most = ADAPTIVE_RANGE
        if kl > 2.0 * target:
            self._lr = max(self._lr / KL_STEP, least)
        elif kl < 0.5 * target:
            self._lr = min(self._lr * KL_STEP, most)

    def device(self) -> DeviceUse:
        """What it computes on."""
        return self._use

    def weights(self) -> Weights:
        """A snapshot to act with."""
        return Weights(self._flat.cpu().numpy().copy(), self._scaling)

    def state(self) -> State:
        """Everything needed to continue exactly here."""
        return {
            "flat": self._flat.cpu().numpy().copy(),
            "scaling_mean": self._scaling.mean,
            "scaling_std": self._scaling.std,
            "adam": self._adam.state(),
            "normaliser": self._normaliser.state(),
            "generator": self._generator.get_state().numpy().copy(),
            "iteration": self._iteration,
            "lr": self._lr,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from there.

        Raises:
            ValueError: the state belongs to other nets.
        """
        flat = torch.as_tensor(np.array(state["flat"]))
        if flat.shape != self._flat.shape:
            raise ValueError(
                f"the checkpoint holds {len(flat)} parameters and the configuration makes {len(self._flat)}: "
                "resume with the same actor.model and the same task"
            )
        with torch.inference_mode():
            self._flat.copy_(flat)
            self._adam.restore(state["adam"])
        self._normaliser.restore(state["normaliser"])
        self._scaling = self._normaliser.snapshot()
        self._generator.set_state(torch.as_tensor(np.array(state["generator"])))
        self._iteration, self._lr = int(state["iteration"]), float(state["lr"])
