from __future__ import annotations

import logging
import pickle

import numpy as np
import pytest

from engines.starter_ppo.components import PROGRAM
from rlark.runtime.component import Context
from rlark.runtime.trainer import FusedTrainer, Workload


def context(component: str, rank: int = 0, world_size: int = 1) -> Context:
    return Context(component, rank, world_size, 8 // world_size, 7, "cpu", 1, logging.getLogger("test"))


def test_the_shape_is_the_configurations(make_config):
    shape = PROGRAM.shape(make_config(runner={"max_epochs": 3, "save_interval": -1}))
    assert (shape.iterations, shape.num_envs, shape.steps) == (3, 8, 16)
    assert (shape.observation_size, shape.action_size, shape.save_interval) == (8, 2, 0)


def test_env_ranks_share_the_environments_and_differ(make_config):
    config = make_config()
    first, second = (PROGRAM.env(config, context("env", rank, 2)).reset() for rank in (0, 1))
    assert first.shape == second.shape == (4, 8)
    assert (first != second).any()


def test_the_seed_reaches_every_component(make_config):
    def begin(seed: int) -> tuple[bytes, bytes, bytes]:
        config = make_config(algorithm={"seed": seed})
        actor, rollout = PROGRAM.actor(config, context("actor")), PROGRAM.rollout(config, context("rollout"))
        observation = PROGRAM.env(config, context("env")).reset()
        weights = actor.weights()
        rollout.load(weights)
        return weights.flat.tobytes(), observation.tobytes(), rollout.act(np.zeros_like(observation)).action.tobytes()

    assert begin(7) == begin(7)
    assert all(one != other for one, other in zip(begin(7), begin(8), strict=True))


def test_progress_is_what_the_protocol_wants():
    metrics = {"meanReward": 0.01234, "recentSuccess": 0.5, "goalRangeLow": 0.8, "goalRangeHigh": 1.296}
    assert PROGRAM.progress(metrics) == "meanReward=0.0123 recentSuccess=0.50 goalRange=[0.80,1.30]"


@pytest.mark.parametrize("asked", ["cpu", "auto"])
def test_the_device_is_told(make_config, asked, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    use = PROGRAM.actor(make_config(), context("actor")).device()
    assert (use.device, use.cuda_requested) == ("cpu", False)
    assert use.name


def test_a_resumed_training_is_the_one_that_never_stopped(make_config):
    config = make_config(runner={"max_epochs": 4}, actor={"optim": {"lr_scheduler": "linear", "lr": 1e-3}})

    def trainer() -> FusedTrainer:
        return FusedTrainer(Workload(PROGRAM, config, PROGRAM.shape(config), 7, "cpu"), threads=1)

    whole, first, second = trainer(), trainer(), trainer()
    expected = [whole.iterate() for _ in range(4)]
    for _ in range(2):
        first.iterate()
    second.restore(pickle.loads(pickle.dumps(first.state())))
    for metrics, again in zip(expected[2:], (second.iterate() for _ in range(2)), strict=True):
        assert {name: str(value) for name, value in metrics.items()} == {
            name: str(value) for name, value in again.items()
        }
    assert whole.state()["actor"][0]["flat"].tobytes() == second.state()["actor"][0]["flat"].tobytes()
