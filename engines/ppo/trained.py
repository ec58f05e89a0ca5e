"""A trained policy as it is measured and exported: deterministic, from a checkpoint's numbers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from engines.ppo.acting import Forward
from engines.ppo.normaliser import CLIP, Scaling
from engines.ppo.policy import NetShape, initial, parts_of
from engines.ppo.ppo import Weights
from rlark.evidence.network import Network
from rlark.runtime.component import FloatArray

Layer = tuple[FloatArray, FloatArray]


class Trained:
    """The mean action, clamped to ±1, on the CPU.

    Attributes:
        weights: all parameters, and the normaliser.
    """

    def __init__(self, shape: NetShape, weights: Weights) -> None:
        """Act with these weights."""
        self._shape, self.weights = shape, weights
        self._forward = Forward(shape, torch.device("cpu"))
        self._forward.load(weights)

    @classmethod
    def of_state(cls, shape: NetShape, state: Mapping[str, Any]) -> Trained:
        """From `Learner.state()`."""
        scaling = Scaling(np.array(state["scaling_mean"]), np.array(state["scaling_std"]))
        return cls(shape, Weights(np.array(state["flat"]), scaling))

    @classmethod
    def untrained(cls, shape: NetShape, seed: int, log_std: float) -> Trained:
        """What `Learner` starts from with this seed."""
        flat = initial(shape, torch.Generator().manual_seed(seed), log_std).numpy()
        size = shape.observation
        return cls(shape, Weights(flat, Scaling(np.zeros(size, np.float32), np.ones(size, np.float32))))

    @classmethod
    def load(cls, shape: NetShape, path: Path) -> Trained:
        """From a file of `save`.

        Raises:
            ValueError: the file belongs to other nets.
        """
        with np.load(path, allow_pickle=False) as file:
            flat, scaling = file["parameters"], Scaling(file["observation_mean"], file["observation_std"])
        if len(flat) != shape.count:
            raise ValueError(f"{path} holds {len(flat)} parameters, and these nets have {shape.count}")
        return cls(shape, Weights(flat, scaling))

    def save(self, path: Path) -> None:
        """Write the parameters and the normaliser as a plain `.npz`, readable without pickle."""
        scaling = self.weights.scaling
        np.savez(
            path,
            parameters=self.weights.flat,
            observation_mean=scaling.mean,
            observation_std=scaling.std,
            hidden_dims=np.array(self._shape.hidden),
            shared_trunk=np.array(self._shape.shared),
        )

    def __call__(self, observation: FloatArray) -> FloatArray:
        """Actions [B, A] for observations [B, O]."""
        mean, _ = self._forward(np.asarray(observation, np.float32))
        return np.clip(mean, -1.0, 1.0)

    def network(self) -> Network:
        """Its arrays, as they are exported."""
        scaling = self.weights.scaling
        return Network(scaling.mean, scaling.std, CLIP, self.layers())

    def layers(self) -> list[Layer]:
        """(weight [out, in], bias [out]) of the path from observation to mean action."""
        parts = parts_of(self._shape, torch.from_numpy(self.weights.flat))
        width = self._shape.hidden[0]
        weights = [parts.first[:, :width].t(), *(weight[0] for weight in parts.weights)]
        biases = [bias[0, :, 0] for bias in parts.biases]
        weights, biases = [*weights, parts.mean_weight], [*biases, parts.mean_bias[:, 0]]
        return [(weight.numpy(), bias.numpy()) for weight, bias in zip(weights, biases, strict=True)]
