"""The policy of SAC as it acts: sampled while training, deterministic when it is measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engines.ppo.normaliser import CLIP, Scaling
from engines.starter_ppo.sac import SacWeights
from engines.starter_ppo.sac_nets import SacShape, gaussian, initial, layers_of, sample
from rlark.evidence.network import Network
from rlark.runtime.component import FloatArray, State

Layer = tuple[FloatArray, FloatArray]


class SacActing:
    """Samples actions for N environments."""

    def __init__(self, shape: SacShape, seed: np.random.SeedSequence, device: torch.device) -> None:
        """Wait for weights; exploration noise comes from `seed`."""
        self._shape, self._device = shape, device
        self._rng = np.random.Generator(np.random.PCG64(seed))

    def load(self, weights: SacWeights) -> None:
        """Act with these weights from now on."""
        flat = torch.from_numpy(weights.flat).to(self._device)
        self._layers, self._scaling = layers_of(self._shape.policy_sizes(), flat), weights.scaling

    def act(self, observation: FloatArray) -> FloatArray:
        """Actions [N, A] in [-1, 1] for observations [N, O]."""
        noise = self._rng.standard_normal((len(observation), self._shape.action), dtype=np.float32)
        seen = torch.from_numpy(self._scaling.apply(observation)).to(self._device)
        with torch.no_grad():
            action, _ = sample(*gaussian(self._layers, seen), torch.from_numpy(noise).to(self._device))
        sampled: FloatArray = action.cpu().numpy()
        return sampled

    def wander(self, count: int) -> FloatArray:
        """Actions [count, A], each value as likely as any other: before anything was learned."""
        return self._rng.uniform(-1.0, 1.0, (count, self._shape.action)).astype(np.float32)

    def state(self) -> State:
        """Where the noise stands."""
        return {"rng": self._rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from there."""
        self._rng.bit_generator.state = state["rng"]


class SacTrained:
    """The squashed mean action, on the CPU.

    Attributes:
        weights: parameters of the policy, and the normaliser.
    """

    def __init__(self, shape: SacShape, weights: SacWeights) -> None:
        """Act with these weights."""
        self._shape, self.weights = shape, weights
        self._layers = layers_of(shape.policy_sizes(), torch.from_numpy(weights.flat))

    @property
    def scaling(self) -> Scaling:
        """The observations' normaliser."""
        return self.weights.scaling

    @classmethod
    def of_state(cls, shape: SacShape, state: Mapping[str, Any]) -> SacTrained:
        """From `SacLearner.state()`."""
        scaling = Scaling(np.array(state["scaling_mean"]), np.array(state["scaling_std"]))
        return cls(shape, SacWeights(np.array(state["flat"]), scaling))

    @classmethod
    def untrained(cls, shape: SacShape, seed: int) -> SacTrained:
        """What `SacLearner` starts from with this seed."""
        flat = initial(shape.policy_sizes(), torch.Generator().manual_seed(seed)).numpy()
        size = shape.observation
        return cls(shape, SacWeights(flat, Scaling(np.zeros(size, np.float32), np.ones(size, np.float32))))

    @classmethod
    def load(cls, shape: SacShape, path: Path) -> SacTrained:
        """From a file of `save`.

        Raises:
            ValueError: the file belongs to other nets.
        """
        with np.load(path, allow_pickle=False) as file:
            flat, scaling = file["parameters"], Scaling(file["observation_mean"], file["observation_std"])
        if len(flat) != shape.policy_count:
            raise ValueError(f"{path} holds {len(flat)} parameters, and this policy has {shape.policy_count}")
        return cls(shape, SacWeights(flat, scaling))

    def save(self, path: Path) -> None:
        """Write the policy and the normaliser as a plain `.npz`, readable without pickle."""
        np.savez(
            path,
            parameters=self.weights.flat,
            observation_mean=self.scaling.mean,
            observation_std=self.scaling.std,
            hidden_dims=np.array(self._shape.hidden),
        )

    def __call__(self, observation: FloatArray) -> FloatArray:
        """Actions [B, A] for observations [B, O]."""
        seen = torch.from_numpy(self.scaling.apply(np.asarray(observation, np.float32)))
        with torch.no_grad():
            mean, _ = gaussian(self._layers, seen)
        action: FloatArray = torch.tanh(mean).numpy()
        return action

    def network(self) -> Network:
        """Its arrays, as they are exported."""
        return Network(self.scaling.mean, self.scaling.std, CLIP, self.layers(), hidden="relu", squash="tanh")

    def layers(self) -> list[Layer]:
        """(weight [out, in], bias [out]) of the path from observation to mean action, before it is squashed."""
        means = self._shape.action
        *hidden, (weight, bias) = self._layers
        path = [*hidden, (weight[:, :means], bias[:means])]
        return [(weight.t().numpy(), bias.numpy()) for weight, bias in path]
