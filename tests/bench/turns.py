"""An environment and a policy that each take 2 ms for a step of all environments: what taking turns saves."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np

from rlark.runtime.component import Decision, DeviceUse, Shape, Step

NUM_ENVS, STEPS, STEP_S = 64, 64, 0.002


def work(share: float) -> None:
    """Keep a core busy for a share of 2 ms."""
    until = time.perf_counter() + STEP_S * share
    while time.perf_counter() < until:
        pass


class _Stateless:
    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        pass


class Env(_Stateless):
    def __init__(self, context: Any) -> None:
        self.count = context.num_envs
        self.never = np.zeros(self.count, np.bool_)
        self.seen = np.zeros((self.count, 42), np.float32)

    def reset(self) -> np.ndarray:
        return self.seen

    def step(self, action: np.ndarray) -> Step:
        work(self.count / NUM_ENVS)
        return Step(self.seen, action[:, 0], self.never, self.never, self.seen)

    def metrics(self) -> dict[str, float]:
        return {}


class Rollout(_Stateless):
    def load(self, weights: object) -> None:
        pass

    def act(self, observation: np.ndarray) -> Decision:
        work(len(observation) / NUM_ENVS)
        return Decision(np.zeros((len(observation), 12), np.float32), observation[:, 0], observation[:, 1])

    def value(self, observation: np.ndarray) -> np.ndarray:
        return observation[:, 0]


class Actor(_Stateless):
    def update(self, trajectory: object) -> dict[str, float]:
        return {}

    def weights(self) -> None:
        return None

    def device(self) -> DeviceUse:
        return DeviceUse("cpu", "", cuda_requested=False)


PROGRAM = SimpleNamespace(
    config=lambda raw, base: raw,
    shape=lambda config: Shape(1, NUM_ENVS, STEPS, observation_size=42, action_size=12),
    env=lambda config, context: Env(context),
    rollout=lambda config, context: Rollout(),
    actor=lambda config, context: Actor(),
)
