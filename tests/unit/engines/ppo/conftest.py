from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engines.ppo.ppo import Settings
from engines.ppo.update import Loss
from rlark.runtime.trajectory import Trajectory

OBSERVATION, ACTION = 5, 2


def settings(**changes: Any) -> Settings:
    loss = Loss(**changes.pop("loss", {}))
    values: dict[str, Any] = {
        "iterations": 10,
        "gamma": 0.99,
        "gae_lambda": 0.95,
        "reward_scale": 1.0,
        "epochs": 2,
        "minibatch": 32,
        "loss": loss,
        "entropy_final": loss.entropy_bonus,
        "lr": 1e-3,
        "lr_schedule": "constant",
        "lr_final": 0.0,
        "target_kl": None,
        "clip_grad": 0.5,
        "log_std": (-0.7, -5.0, 0.0),
        "normalise_observations": True,
    }
    values |= changes
    if "microbatch" not in changes:
        values["microbatch"] = values["minibatch"]
    return Settings(**values)


@pytest.fixture
def make_settings() -> Callable[..., Settings]:
    """Settings with what a test cares about."""
    return settings


def trajectory(steps: int = 8, num_envs: int = 8, seed: int = 0) -> Trajectory:
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(size=shape).astype(np.float32)

    shape = (steps, num_envs)
    terminated = rng.random(shape) < 0.1
    truncated = (rng.random(shape) < 0.1) & ~terminated
    return Trajectory(
        observation=normal(*shape, OBSERVATION),
        action=normal(*shape, ACTION),
        log_prob=normal(*shape) * 0.3 - 2.0,
        value=normal(*shape),
        reward=normal(*shape),
        terminated=terminated,
        truncated=truncated,
        bootstrap=np.where(truncated, normal(*shape), np.float32(0)),
        last_value=normal(num_envs),
    )


@pytest.fixture
def make_trajectory() -> Callable[..., Trajectory]:
    """A random rollout."""
    return trajectory
