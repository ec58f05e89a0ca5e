"""PPO (Schulman et al. 2017): one rollout in, better weights out."""

from __future__ import annotations

import logging
import math
import zlib
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor

from engines.ppo.adam import Adam
from engines.ppo.device import Chosen
from engines.ppo.gae import advantages
from engines.ppo.moments import Moments
from engines.ppo.normaliser import Normaliser, Scaling
from engines.ppo.parking import Parking
from engines.ppo.policy import NetShape, initial, parts_of
from engines.ppo.update import Fused, Loss, Stats, entropy
from rlark.runtime.component import ALONE, DeviceUse, FloatArray, Metrics, State, Team
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
        minibatch: transitions of one optimiser step, over all ranks that learn together.
        microbatch: transitions whose gradient is computed at once; divides a rank's part of `minibatch`.
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

    Several ranks that learn together each have their own environments. They shuffle alike, average every
    gradient, and decide by numbers of all of them, so that they stay equal to the byte.
    """

    def __init__(
        self,
        shape: NetShape,
        settings: Settings,
        seed: int,
        chosen: Chosen,
        log: logging.Logger,
        *,
        team: Team = ALONE,
    ) -> None:
        """Start with a fresh policy.

        Args:
            shape: of the nets.
            settings: how to learn.
            seed: of the initial weights and the shuffling.
            chosen: where to compute.
            log: for what goes wrong.
            team: the ranks that learn together.

        Raises:
            ValueError: a minibatch cannot be shared by them.
        """
        self._own_minibatch, rest = divmod(settings.minibatch, team.size)
        self._own_microbatch = min(settings.microbatch, self._own_minibatch)
        if rest or self._own_minibatch % max(1, self._own_microbatch):
            raise ValueError(
                f"minibatches of {settings.minibatch} transitions cannot be shared by {team.size} Actor ranks in parts "
                f"of {settings.microbatch}: change actor.global_batch_size or actor.micro_batch_size"
            )
        self._shape, self._settings, self._log, self._use = shape, settings, log, chosen.use
        self._team = team
        chosen.tell(log)
        self._generator = torch.Generator().manual_seed(seed)
        with torch.inference_mode():
            self._flat = initial(shape, self._generator, settings.log_std[0]).to(chosen.device)
            self._parts = parts_of(shape, self._flat)
            self._gradient = torch.zeros_like(self._flat)
            self._sum = torch.zeros_like(self._flat)
            self._adam = Adam(self._flat)
            self._fused = Fused(shape, self._flat, self._gradient, self._own_microbatch)
        scratch = (self._gradient, self._sum, self._adam.scratch, *self._fused.buffers)
        self._parking = Parking((self._flat, *self._adam.moments), scratch)
        self._normaliser = Normaliser(shape.observation, enabled=settings.normalise_observations, team=team)
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
        explained = self._explained(target, trajectory.value)
        deviation = float(self._parts.log_std.exp().mean())
        return {**found, "entropy": entropy(self._parts), "actionStd": deviation, "explainedVariance": explained}

    def _explained(self, target: FloatArray, value: FloatArray) -> float:
        """Share of the targets' variance that the values account for."""
        if self._team.size > 1:
            columns = np.stack((target.ravel(), (target - value).ravel()), axis=1)
            spread, left = Moments.of(columns).over(self._team).square
        else:
            spread, left = float(np.var(target)), float(np.var(target - value))
        return 1.0 - left / spread if spread > 0 else math.nan

    def _pack(self, trajectory: Trajectory, advantage: FloatArray, target: FloatArray) -> Tensor:
        shape, total = self._shape, advantage.size
        if total % self._own_minibatch:
            raise ValueError(
                f"a rollout of {total} transitions (environments times steps) does not divide into minibatches of "
                f"{self._own_minibatch}: change actor.global_batch_size, total_num_envs or rollout_steps"
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
        settings, total, size = self._settings, len(packed), self._own_minibatch
        stats: list[Stats] = []
        norm, skipped, first_error = 0.0, 0, math.nan
        steps = settings.epochs * (total // size)
        for epoch in range(settings.epochs):
            order = torch.randperm(total, generator=self._generator).to(packed.device)
            moments = self._moments(packed, order, loss)
            for start in range(0, total, size):
                self._minibatch(packed[order[start : start + size]], loss, moments[start // size] if moments else None)
                if epoch == start == 0:
                    first_error = self._reduced(self._fused.stats()).max_ratio_error
                norm = float(torch.linalg.vector_norm(self._gradient))
                if math.isfinite(norm):
                    self._descend(norm)
                else:
                    skipped += 1
            stats.append(self._reduced(self._fused.stats()))
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

    def _moments(self, packed: Tensor, order: Tensor, loss: Loss) -> list[tuple[Tensor, Tensor]] | None:
        """Mean and deviation of the advantages of each minibatch of an epoch, over all ranks.

        None where there is one rank, which finds them as it goes, or where nothing is normalised.
        """
        team, size = self._team, self._own_minibatch
        if team.size == 1 or not loss.normalize_advantages:
            return None
        merged = Moments.of(packed[order, -2].view(-1, size).t().cpu().numpy()).over(team)
        deviation = np.sqrt(merged.square / max(1.0, merged.number - 1.0))
        pairs = packed.new_tensor(np.stack((merged.mean, deviation), axis=1))
        return [(pair[0], pair[1]) for pair in pairs]

    def _minibatch(self, packed: Tensor, loss: Loss, moments: tuple[Tensor, Tensor] | None) -> None:
        """Write the gradient of one minibatch, in parts where it is too large for one."""
        if moments is None and loss.normalize_advantages and len(packed) > 1:
            deviation, mean = torch.std_mean(packed[:, -2])
            moments = (mean, deviation)
        if self._own_microbatch == self._own_minibatch:
            self._fused(packed, loss, self._own_minibatch, moments)
        else:
            self._sum.zero_()
            for part in packed.split(self._own_microbatch):
                self._fused(part, loss, self._own_minibatch, moments)
                self._sum += self._gradient
            self._gradient.copy_(self._sum)
        if self._team.size > 1:
            self._team.mean_(self._gradient)

    def _reduced(self, own: Stats) -> Stats:
        """The stats over all ranks: means, and of the greatest error the greatest."""
        if self._team.size == 1:
            return own
        rows = self._team.gather(np.array(own))
        return Stats(*map(float, rows.mean(axis=0)))._replace(max_ratio_error=float(rows[:, -1].max()))

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

    def offload(self) -> int:
        """Move parameters and optimiser to the host, and give up all room on the device: the bytes moved."""
        return 0 if self._flat.device.type == "cpu" else self._parking.leave()

    def onload(self) -> int:
        """Move them back: the bytes moved."""
        return 0 if self._flat.device.type == "cpu" else self._parking.come_back()

    def weights(self) -> Weights:
        """A snapshot to act with."""
        return Weights(self._flat.cpu().numpy().copy(), self._scaling)

    def state(self) -> State:
        """Everything needed to continue exactly here; the same on all ranks that learn together.

        Raises:
            RuntimeError: this rank's is another than that of rank 0.
        """
        self._require_equal()
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

    def _require_equal(self) -> None:
        """Refuse a state that is this rank's alone; the one that differs says so, and the run ends with its words."""
        if self._team.size == 1:
            return
        adam, seen = self._adam.state(), self._normaliser.state()
        numbers = (self._flat.cpu().numpy(), adam["first"], adam["second"], seen["mean"], seen["square"])
        marks = [zlib.crc32(part.tobytes()) for part in (*numbers, self._generator.get_state().numpy())]
        rows = self._team.gather(np.array([*marks, adam["steps"], seen["count"], self._iteration, self._lr]))
        if (rows[self._team.rank] != rows[0]).any():
            raise RuntimeError(
                f"Actor rank {self._team.rank} has drifted from rank 0 and holds another policy, optimiser or "
                "normaliser, though all ranks average their gradients: go on from the last checkpoint, which is whole, "
                "and look for a GPU that computes wrong or ranks that run other versions"
            )

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
