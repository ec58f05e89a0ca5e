"""SAC as a whole: what is remembered of a step, going on to the byte, the same bytes twice, and its products."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.ppo.device import Work, choose
from engines.starter_ppo import ENGINE
from engines.starter_ppo.algorithms import ONE_PROCESS
from engines.starter_ppo.components import PROGRAM
from engines.starter_ppo.config import TASKS, Config
from engines.starter_ppo.sac import SacLearner, SacSettings
from engines.starter_ppo.sac_nets import SacShape
from engines.starter_ppo.sac_policy import SacActing
from engines.starter_ppo.sac_replay import Replay
from engines.starter_ppo.sac_trainer import Pace, SacTrainer
from rlark.runtime import checkpoint
from rlark.runtime.component import Context, Step
from rlark.runtime.trainer import FusedTrainer, Workload, fused

QUICK = {"type": "sac", "seed": 7, "warmup": 64, "updates": 4, "replay_size": 300}
CHAIN = {"id": "chain", "kind": "pendulum-chain", "observationSize": 9, "actionSize": 2}
Make = Callable[..., Config]


@pytest.fixture
def configure(make_config) -> Make:
    """A small configuration of SAC, on either task."""

    def build(task: str = "goal-navigation", **algorithm: Any) -> Config:
        sections: dict[str, dict[str, Any]] = {
            "algorithm": {**QUICK, **algorithm},
            "actor": {"model": {"hidden_dims": [16, 16]}, "global_batch_size": 32},
        }
        if task == "pendulum-chain":
            train = {"task": CHAIN, "total_num_envs": 8, "rollout_steps": 16}
            sections["env"] = {"train": train, "eval": {"probe_episodes": 4}}
        return make_config(**sections)

    return build


def trainer_of(config: Config) -> Any:
    return fused(Workload(PROGRAM, config, PROGRAM.shape(config), config.seed, "cpu"), threads=1)


class Scripted:
    """Two environments of which one ends by itself in step 2 and the other is cut off in step 3."""

    def __init__(self) -> None:
        self.number, self.actions = 0, []

    def reset(self) -> np.ndarray:
        return np.zeros((2, 1), np.float32)

    def step(self, action: np.ndarray) -> Step:
        self.number += 1
        self.actions.append(np.array(action))
        last = np.full((2, 1), self.number, np.float32)
        terminated, truncated = np.array([self.number == 2, False]), np.array([False, self.number == 3])
        first = np.where((terminated | truncated)[:, None], -self.number, last).astype(np.float32)
        return Step(first, np.array([1.0, 2.0], np.float32) * self.number, terminated, truncated, last)

    def metrics(self) -> dict[str, float]:
        return {"meanReward": 1.5}

    def state(self) -> dict[str, Any]:
        return {"number": self.number}

    def restore(self, state: dict[str, Any]) -> None:
        self.number = state["number"]


def scripted(warmup: int, updates: int) -> tuple[SacTrainer, Scripted, Replay]:
    shape, settings = SacShape(1, 1, (4,)), SacSettings(0.9, 0.1, 1e-3, 1e-3, 1e-3, 0.2, -1.0, 8, True)
    learner = SacLearner(shape, settings, 1, choose("cpu", Work(1)), logging.getLogger("test"))
    acting = SacActing(shape, np.random.SeedSequence(1), learner._device)
    env, replay = Scripted(), Replay(100, 1, 1)
    return SacTrainer(learner, acting, env, replay, Pace(4, warmup, updates, 10.0)), env, replay


def test_a_step_is_remembered_with_what_really_followed():
    trainer, env, replay = scripted(warmup=100, updates=5)
    trainer.iterate()
    held = replay.state()
    assert held["observation"][:, 0].tolist() == [0, 0, 1, 1, -2, 2, 3, -3]
    assert held["following"][:, 0].tolist() == [1, 1, 2, 2, 3, 3, 4, 4]
    assert held["terminated"].tolist() == [False, False, True, False, False, False, False, False]
    assert held["reward"].tolist() == [10, 20, 20, 40, 30, 60, 40, 80]
    np.testing.assert_array_equal(held["action"], np.concatenate(env.actions))


def test_nothing_is_learned_before_the_warm_up_and_then_as_much_as_is_new():
    trainer, _, _ = scripted(warmup=16, updates=100)
    before = trainer.state()["actor"][0]["flat"]
    first = trainer.iterate()
    assert np.isnan(first["criticLoss"])
    assert (first["updates"], first["replaySize"], first["alpha"]) == (0, 8, pytest.approx(0.2))
    np.testing.assert_array_equal(trainer.state()["actor"][0]["flat"], before)
    second = trainer.iterate()
    assert (second["updates"], second["replaySize"]) == (8, 16)
    assert np.isfinite([second[name] for name in ("criticLoss", "policyLoss", "entropy", "qMean")]).all()
    assert (trainer.state()["actor"][0]["flat"] != before).any()
    few, _, _ = scripted(warmup=0, updates=3)
    assert few.iterate()["updates"] == 3


@pytest.mark.parametrize("task", TASKS)
def test_a_resumed_training_is_the_one_that_never_stopped(configure, tmp_path, task):
    config = configure(task)
    whole, first, second = (trainer_of(config) for _ in range(3))
    expected = [whole.iterate() for _ in range(5)]
    for _ in range(3):
        first.iterate()
    second.restore(checkpoint.load(checkpoint.save(tmp_path, 3, first.state(), {}))[0])
    for metrics in expected[3:]:
        again = second.iterate()
        assert {name: str(value) for name, value in again.items()} == {
            name: str(value) for name, value in metrics.items()
        }
    np.testing.assert_equal(second.state(), whole.state())
    assert expected[0]["updates"] == 4
    assert all(metrics["alpha"] > 0 for metrics in expected)


def test_a_checkpoint_of_the_other_algorithm_is_refused(configure, make_config):
    sac, ppo = trainer_of(configure()), trainer_of(make_config())
    with pytest.raises(ValueError, match=r"not written by algorithm\.type sac"):
        sac.restore(ppo.state())
    with pytest.raises(ValueError, match="parameters"):
        ppo.restore(sac.state())


PROGRAM_TEXT = """
import hashlib, json, pickle, sys
from engines.starter_ppo.components import PROGRAM
from rlark.runtime.trainer import Workload, fused
config = PROGRAM.config(json.load(sys.stdin), "")
trainer = fused(Workload(PROGRAM, config, PROGRAM.shape(config), config.seed, "cpu"), threads=1)
for _ in range(3):
    trainer.iterate()
print(hashlib.sha256(pickle.dumps(trainer.state()["actor"])).hexdigest())
"""


def test_two_processes_learn_the_same_bytes(configure):
    def learned(seed: int, hash_seed: str) -> str:
        config = configure("pendulum-chain", seed=seed).model_dump(mode="json", exclude_none=True)
        config["env"]["train"]["task"] = CHAIN
        command = [sys.executable, "-c", PROGRAM_TEXT]
        ended = subprocess.run(
            command,
            input=json.dumps(config),
            env={"PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[4])},
            capture_output=True,
            text=True,
            check=True,
        )
        return ended.stdout

    first = learned(7, "1")
    assert first == learned(7, "2")
    assert first != learned(8, "1")


@pytest.mark.parametrize("task", TASKS)
def test_it_is_exported_measured_and_judged_as_ppo_is(configure, trained, task):
    config = configure(task)
    run = trained(config, f"sac-{task}")
    result = PROGRAM.export(config, run)
    folder = run.folder.artifacts
    summary, parity = (json.loads((folder / name).read_text()) for name in ("training-summary.json", "parity.json"))
    assert (result.metrics["algorithm"], result.metrics["taskKind"], summary["algorithm"]) == ("sac", task, "sac")
    assert (result.metrics["qualityGatePassed"], result.metrics["onnxExported"]) == (False, True)
    assert (result.metrics["onnxGate"], parity["verdict"]) == ("passed", "pass")
    assert parity["parityMaxAbsError"] < 1e-6
    assert summary["hyperparams"]["tau"] == 0.005
    assert len(summary["alphaCurve"]) == summary["iterations"] == 2
    assert all(alpha > 0 for alpha in summary["alphaCurve"])
    assert result.artifact.workload == {"goal-navigation": "navigation", "pendulum-chain": "locomotion"}[task]
    assert result.artifact.action_output.startswith("tanh of the Gaussian's mean: ")
    assert ("collisionRate" in result.metrics) == (task == "goal-navigation")
    assert ("survivalSteps" in result.metrics) == (task == "pendulum-chain")


@pytest.mark.parametrize("task", TASKS)
def test_progress_has_what_a_worker_reads(configure, task):
    config = configure(task)
    line = PROGRAM.progress(trainer_of(config).iterate())
    assert line.startswith("meanReward=")
    assert " recentSuccess=" in line
    assert ("goalRange=" in line) == (task == "goal-navigation")


def test_ppo_learns_the_chain_on_the_runtimes_own_trainer(make_config, trained):
    train = {"task": CHAIN, "total_num_envs": 8, "rollout_steps": 16}
    config = make_config(env={"train": train, "eval": {"probe_episodes": 4}})
    assert isinstance(trainer_of(config), FusedTrainer)
    run = trained(config, "ppo-chain")
    result = PROGRAM.export(config, run)
    assert (result.metrics["evalEpisodes"], result.metrics["qualityGatePassed"]) == (8, False)
    assert result.metrics["jointControllerSuccessRate"] == 1.0
    report = json.loads((run.folder.artifacts / "eval-report.json").read_text())
    assert report["qualityGate"]["measured"]["collisionRate"] is None
    rows = (run.folder.artifacts / "telemetry.jsonl").read_text().splitlines()
    assert result.metrics["telemetrySamples"] == len(rows) > 20


def test_the_batch_and_the_nets_are_the_references_where_nothing_is_said(make_config):
    config = make_config(algorithm={"type": "sac"}, actor={"model": {}})
    assert (config.minibatch, config.hidden_dims, config.algorithm.replay_size) == (256, (128, 128), 8192)
    assert make_config(actor={"model": {}}).hidden_dims == (64, 64)


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"algorithm": {"type": "sac", "clip_ratio_low": 0.2}}, r"algorithm\.clip_ratio_low belongs to .*type ppo"),
        ({"algorithm": {"tau": 0.1, "warmup": 3}}, r"algorithm\.tau, algorithm\.warmup belong to .*type sac"),
        ({"algorithm": {"type": "sac", "taw": 0.1}}, "taw"),
        ({"algorithm": {"type": "td3"}}, r"algorithm\.type is ppo or sac"),
        ({"algorithm": {"type": "sac", "warmup": 9000}}, "warmup 9000 is above algorithm.replay_size 8192"),
        ({"algorithm": {"type": "sac"}, "runner": {"fuse": "never"}}, "sac learns in one process only"),
        (
            {"algorithm": {"type": "sac"}, "actor": {"optim": {"lr_scheduler": "linear"}}},
            r"actor\.optim\.lr_scheduler belongs to algorithm\.type ppo",
        ),
        (
            {"algorithm": {"type": "sac"}, "actor": {"model": {"shared_trunk": True}}},
            r"actor\.model\.shared_trunk belongs to algorithm\.type ppo",
        ),
        (
            {"algorithm": {"type": "sac"}, "actor": {"micro_batch_size": 4}},
            r"actor\.micro_batch_size belongs to algorithm\.type ppo",
        ),
    ],
)
def test_what_belongs_to_the_other_algorithm_is_named(make_config, sections, said):
    with pytest.raises(ValueError, match=said):
        make_config(**sections)


def test_apart_it_is_refused_in_words(configure):
    assert ENGINE.fused_only == ONE_PROCESS == ("sac",)
    assert ENGINE.tasks == TASKS
    context = Context("actor", 0, 1, 8, 7, "cpu", 1, logging.getLogger("test"))
    with pytest.raises(ValueError, match="sac learns in one process only: place actor, rollout and env on one"):
        PROGRAM.actor(configure(), context)
