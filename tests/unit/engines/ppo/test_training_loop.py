"""PPO in the loop that trains: what must hold in every iteration, and in the end."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from engines.ppo.acting import Acting
from engines.ppo.device import Work, choose
from engines.ppo.policy import NetShape, parts_of
from engines.ppo.ppo import Learner, Weights
from rlark.runtime.component import Context, Shape, Step
from rlark.runtime.trainer import FusedTrainer, Workload
from rlark.runtime.trajectory import Trajectory

ENVS, STEPS, EPISODE = 8, 25, 10
NETS = NetShape(2, 1, (16, 16), shared=False)
GAMMA = 0.9


class Clockwork:
    """Pays 1 a step and shows noise. Episodes have ten steps, of different phases; nothing shows how old one is."""

    def __init__(self, *, ends: bool) -> None:
        self._ends = ends
        self._age = np.arange(ENVS) % EPISODE
        self._rng = np.random.default_rng(0)

    def reset(self) -> np.ndarray:
        return self._rng.normal(3.0, 2.0, (ENVS, NETS.observation)).astype(np.float32)

    def step(self, _action: np.ndarray) -> Step:
        self._age += 1
        final, over = self.reset(), self._age == EPISODE
        self._age[over] = 0
        seen = np.where(over[:, None], self.reset(), final)
        none = np.zeros(ENVS, np.bool_)
        reward = np.ones(ENVS, np.float32)
        return Step(seen, reward, over if self._ends else none, none if self._ends else over, final)

    def metrics(self) -> dict[str, float]:
        return {}

    def state(self) -> dict[str, Any]:
        return {"age": self._age.copy(), "rng": self._rng.bit_generator.state}

    def restore(self, state: dict[str, Any]) -> None:
        self._age[:] = state["age"]
        self._rng.bit_generator.state = state["rng"]


def trainer_of(settings: Any, *, ends: bool = False) -> FusedTrainer:
    """The fused trainer, with this engine's Actor and Rollout."""

    def rollout(_config: Any, context: Context) -> Acting:
        return Acting(NETS, ENVS, np.random.SeedSequence(context.seed), torch.device("cpu"))

    def actor(_config: Any, context: Context) -> Learner:
        return Learner(NETS, settings, context.seed, choose("cpu", Work(ENVS)), logging.getLogger("test"))

    program: Any = SimpleNamespace(env=lambda *_: Clockwork(ends=ends), rollout=rollout, actor=actor)
    shape = Shape(settings.iterations, ENVS, STEPS, NETS.observation, NETS.action)
    return FusedTrainer(Workload(program, None, shape, seed=3, device="cpu"), threads=1)


@pytest.fixture
def learnable(make_settings) -> Any:
    return make_settings(
        iterations=250, gamma=GAMMA, epochs=4, minibatch=50, lr=0.01, lr_schedule="linear", clip_grad=10.0
    )


def value_after(trainer: FusedTrainer, iterations: int) -> float:
    """V of what is seen, in the mean."""
    for _ in range(iterations):
        trainer.iterate()
    seen = np.random.default_rng(1).normal(3.0, 2.0, (200, NETS.observation)).astype(np.float32)
    return float(trainer._rollout.value(seen).mean())


def test_cut_offs_do_not_shorten_the_future(learnable):
    found = value_after(trainer_of(learnable), learnable.iterations)
    assert found == pytest.approx(1.0 / (1.0 - GAMMA), rel=0.02)


def test_ends_do(learnable):
    """The same world whose episodes end: the test above can fail."""
    left = np.arange(1, EPISODE + 1)
    wanted = ((1.0 - GAMMA**left) / (1.0 - GAMMA)).mean()  # 4.1, at an age that nobody knows
    found = value_after(trainer_of(learnable, ends=True), learnable.iterations)
    assert found == pytest.approx(wanted, rel=0.1)


def recomputed(weights: Weights, data: Trajectory) -> np.ndarray:
    """log pi(a | s) in float64, by torch's own distribution, of what was stored."""
    parts = parts_of(NETS, torch.from_numpy(weights.flat).double())
    seen = (data.observation.reshape(-1, NETS.observation).astype(np.float64) - weights.scaling.mean) / (
        weights.scaling.std
    )
    here = torch.from_numpy(np.clip(seen, -10, 10)).T
    here = torch.tanh(parts.first.chunk(2, 1)[0].T @ here + parts.biases[0][0])
    for weight, bias in zip(parts.weights, parts.biases[1:], strict=True):
        here = torch.tanh(weight[0] @ here + bias[0])
    mean = (parts.mean_weight @ here + parts.mean_bias).T
    action = torch.from_numpy(data.action.reshape(-1, NETS.action)).double()
    found = torch.distributions.Normal(mean, parts.log_std.exp().T.expand_as(mean)).log_prob(action).sum(1)
    return found.numpy().reshape(data.log_prob.shape)


@pytest.fixture
def watched(monkeypatch) -> Callable[[FusedTrainer], list[float]]:
    """Greatest differences between stored and recomputed log-probabilities, one for each rollout."""

    def watch(trainer: FusedTrainer) -> list[float]:
        errors: list[float] = []
        actor, update = trainer._actor, trainer._actor.update

        def look(data: Trajectory) -> dict[str, float]:
            errors.append(float(np.abs(recomputed(actor.weights(), data) - data.log_prob).max()))
            return update(data)

        monkeypatch.setattr(actor, "update", look)
        return errors

    return watch


@pytest.mark.parametrize("normalise", [True, False])
def test_the_first_minibatch_of_every_iteration_sees_the_policy_that_acted(make_settings, watched, normalise):
    settings = make_settings(iterations=40, minibatch=50, lr=3e-3, normalise_observations=normalise)
    trainer = trainer_of(settings)
    errors = watched(trainer)
    ratios = [trainer.iterate()["firstRatioError"] for _ in range(20)]
    again = trainer_of(settings)
    again.restore(pickle.loads(pickle.dumps(trainer.state())))
    errors += watched(again)
    ratios += [again.iterate()["firstRatioError"] for _ in range(20)]
    assert max(ratios) < 1e-5
    assert max(errors) < 1e-5
    assert (trainer._actor.weights().scaling.std != 1.0).any() == normalise


def test_a_normaliser_that_moves_too_early_is_noticed(make_settings, monkeypatch):
    """The test above can fail: the fault it looks for is made."""
    trainer = trainer_of(make_settings(minibatch=50))
    actor = trainer._actor
    pack = actor._pack

    def early(trajectory: Trajectory, *more: Any) -> torch.Tensor:
        actor._normaliser.update(trajectory.observation)
        actor._scaling = actor._normaliser.snapshot()
        return pack(trajectory, *more)

    monkeypatch.setattr(actor, "_pack", early)
    assert max(trainer.iterate()["firstRatioError"] for _ in range(3)) > 1e-4
