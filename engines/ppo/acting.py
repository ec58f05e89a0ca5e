"""The policy as it acts: sampled while training, deterministic when it is measured."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from engines.ppo.normaliser import Scaling
from engines.ppo.parking import Parking
from engines.ppo.policy import NetShape, heads, hidden_buffers, hidden_layers, parts_of
from engines.ppo.ppo import Weights
from engines.ppo.update import HALF_LOG_2PI
from rlark.runtime.component import Decision, FloatArray, State

NOISE_STEPS = 64
"""Steps whose exploration noise is drawn in one go."""


class Forward:
    """Means and values for batches of one size or another, without allocating for the usual one."""

    def __init__(self, shape: NetShape, device: torch.device) -> None:
        """Wait for weights."""
        self._shape, self._device = shape, device
        with torch.inference_mode():
            self._flat = torch.zeros(shape.count, device=device)
            self._parts = parts_of(shape, self._flat)
        self._parking = Parking((self._flat,))
        self._scaling = Scaling(np.zeros(shape.observation, np.float32), np.ones(shape.observation, np.float32))
        self._batch = -1
        self._buffers: list[Tensor] = []

    def load(self, weights: Weights) -> None:
        """Use these weights from now on."""
        with torch.inference_mode():
            self._flat.copy_(torch.from_numpy(weights.flat))
        self._scaling = weights.scaling

    @property
    def log_std(self) -> FloatArray:
        """[A]."""
        log_std: FloatArray = self._parts.log_std[:, 0].clone().cpu().numpy()
        return log_std

    def offload(self) -> int:
        """Move the parameters to the host, and give up the room of a batch: the bytes moved."""
        if self._device.type == "cpu":
            return 0
        self._batch = -1  # what stands in them is given up with them
        self._buffers.clear()
        self._mean = self._value = self._flat.new_empty(0)
        return self._parking.leave()

    def onload(self) -> int:
        """Move them back: the bytes moved."""
        return 0 if self._device.type == "cpu" else self._parking.come_back()

    def _reserve(self, batch: int) -> None:
        shape, like = self._shape, self._flat
        self._batch = batch
        self._input = np.empty((batch, shape.observation), np.float32)
        self._buffers = hidden_buffers(shape, batch, like)
        self._mean, self._value = like.new_empty((shape.action, batch)), like.new_empty((1, batch))

    def __call__(self, observation: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means [B, A] and values [B] of observations [B, O]; both are overwritten by the next call."""
        with torch.inference_mode():
            if len(observation) != self._batch:
                self._reserve(len(observation))
            scaled = torch.from_numpy(self._scaling.apply(observation, out=self._input)).to(self._device)
            last = hidden_layers(self._parts, scaled.t(), self._buffers)
            heads(self._parts, last, self._mean, self._value)
            return self._mean.t().cpu().numpy(), self._value[0].cpu().numpy()


class Acting:
    """The policy of one Rollout rank (`rlark.runtime.component.Rollout`)."""

    def __init__(self, shape: NetShape, num_envs: int, seed: np.random.SeedSequence, device: torch.device) -> None:
        """Act for `num_envs` environments, with exploration noise from `seed`."""
        self._forward = Forward(shape, device)
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self._size = (NOISE_STEPS, num_envs, shape.action)
        self._draw()
        self._std = np.ones(shape.action, np.float32)

    def _draw(self) -> None:
        self._before = self._rng.bit_generator.state
        self._noise = self._rng.standard_normal(self._size, dtype=np.float32)
        self._surprise = -0.5 * np.square(self._noise).sum(axis=2)
        self._used = 0

    def offload(self) -> int:
        """Move the policy to the host: the bytes moved; 0 where it acts there anyway."""
        return self._forward.offload()

    def onload(self) -> int:
        """Move it back: the bytes moved."""
        return self._forward.onload()

    def load(self, weights: Weights) -> None:
        """Act with these weights from now on."""
        self._forward.load(weights)
        log_std = self._forward.log_std
        self._std = np.exp(log_std)
        self._constant = np.float32(log_std.sum() + len(log_std) * HALF_LOG_2PI)

    def act(self, observation: FloatArray) -> Decision:
        """Sample actions for observations [N, O]; their log-probabilities are those before any clamp."""
        if self._used == NOISE_STEPS:
            self._draw()
        mean, value = self._forward(observation)
        noise, surprise = self._noise[self._used], self._surprise[self._used]
        self._used += 1
        return Decision(mean + noise * self._std, surprise - self._constant, value.copy())

    def value(self, observation: FloatArray) -> FloatArray:
        """Estimated returns [B], in scaled units, from observations [B, O]."""
        return self._forward(observation)[1].copy()

    def state(self) -> State:
        """Where the noise stands."""
        return {"before": self._before, "used": self._used}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from there."""
        self._rng.bit_generator.state = state["before"]
        self._draw()
        self._used = int(state["used"])
