from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from engines.starter_ppo import ENGINE
from engines.starter_ppo.components import PROGRAM
from engines.starter_ppo.config import Config
from rlark.engine import load_attribute

CONFIGS = Path(__file__).parents[4] / "configs"


def composed(name: str) -> dict:
    values = yaml.safe_load((CONFIGS / name).read_text())
    train = values["env"]["train"]
    train["task"] = yaml.safe_load((CONFIGS / "tasks" / f"{train['task']}.yaml").read_text())
    return values


@pytest.mark.parametrize(("name", "algorithm"), [("pendulum_ppo.yaml", "ppo"), ("pendulum_sac.yaml", "sac")])
def test_the_chain_is_shipped_for_both_algorithms(name, algorithm):
    config = Config.model_validate(composed(name))
    assert (config.algorithm.type, config.seed) == (algorithm, 7)
    assert (config.task.id, config.task.observation_size, config.task.action_size) == ("pendulum-chain", 42, 12)
    gate = config.task.quality_gate
    assert (gate.min_success_rate, gate.gate_on, gate.ablation.require_baseline) == (0.6, "ciLowerBound", True)


@pytest.mark.parametrize("name", ["originbot_ppo.yaml", "originbot_ppo_bench.yaml"])
def test_the_shipped_configurations_are_valid(name):
    config = Config.model_validate(composed(name))
    assert config.seed == 7
    assert config.task.id in {"originbot-goal-navigation", "originbot-goal-navigation-bench"}


def test_the_bench_task_is_the_contracts():
    config = Config.model_validate(composed("originbot_ppo_bench.yaml"))
    task, ranges = config.task, config.task.domain_randomization
    assert (config.env.train.total_num_envs, config.env.train.rollout_steps) == (64, 64)
    assert (config.algorithm.update_epoch, config.minibatch) == (4, 1024)
    assert (config.actor.model.hidden_dims, config.actor.model.shared_trunk) == ((64, 64), False)
    assert (task.observation_size, task.workspace.obstacles.count) == (8, 0)
    assert task.curriculum.initial_goal_distance == task.curriculum.final_goal_distance == (0.8, 1.2)
    for name, nominal in ranges.eval_envelopes.nominal._asdict().items():
        assert getattr(ranges, name) == (nominal, nominal)


def test_the_gate_is_the_issues():
    task = Config.model_validate(composed("originbot_ppo.yaml")).task
    gate = task.quality_gate
    assert (gate.min_success_rate, gate.max_collision_rate, gate.gate_on) == (0.7, 0.15, "ciLowerBound")
    assert (gate.ablation.require_baseline, gate.ablation.min_success_rate_delta) == (True, 0.3)
    assert task.evaluation_config.episodes_per_envelope == 200
    assert task.workspace.obstacles.clearance == 0.30


def test_the_declaration_leads_to_this_engine():
    assert load_attribute(ENGINE.config) is Config
    assert load_attribute(ENGINE.program) is PROGRAM
    assert ENGINE.max_ranks == {}
    assert {need.name for need in ENGINE.requirements} == {"torch", "numpy"}
    assert not ENGINE.unmet()


def test_checks_load_it_without_anything_heavy():
    code = (
        "import sys, engines.starter_ppo, engines.starter_ppo.config;"
        "assert not {'torch', 'numpy', 'onnx', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        ({"algorithm": {"gama": 0.9}}, "gama"),
        ({"algorithm": {"gamma": 1.5}}, "gamma"),
        ({"algorithm": {"gamma": "0.9"}}, "gamma"),
        ({"algorithm": {"gae_lambda": float("nan")}}, "gae_lambda"),
        ({"runner": {"engine": "other"}}, "engine"),
        ({"runner": {"device": "tpu"}}, "device"),
        ({"runner": {"max_epochs": 0}}, "max_epochs"),
        ({"cluster": {"num_nodes": 2}}, "num_nodes"),
        ({"rollout": {"pipeline_stage_num": 0}}, "greater than or equal to 1"),
        ({"env": {"train": {"enable_offload": True}}}, "in the host's memory, never on a GPU"),
        ({"actor": {"global_batch_size": 100}}, "128 transitions do not divide into minibatches"),
        ({"actor": {"global_batch_size": 64, "micro_batch_size": 48}}, "does not divide into parts"),
        ({"actor": {"optim": {"lr_scheduler": "adaptive"}}}, "target_kl"),
        ({"actor": {"model": {"hidden_dims": []}}}, "hidden_dims"),
        ({"actor": {"model": {"log_std_init": 0.5}}}, "log_std_init 0.5 lies outside"),
        ({"critic": {}}, "critic"),
    ],
)
def test_what_is_wrong_is_named(make_config, sections, message):
    with pytest.raises(ValueError, match=message):
        make_config(**sections)


@pytest.mark.parametrize(
    ("pack", "message"),
    [
        ({"kind": "microduck-locomotion"}, "starter-ppo learns goal-navigation"),
        ({"evaluationConfig": {"confidenceLevel": 0.5}}, "confidenceLevel is one of 0.90, 0.95, 0.99"),
    ],
)
def test_tasks_that_do_not_fit_are_named(make_config, pack, message):
    values = make_config().model_dump(mode="json")
    task = make_config().task.model_dump(mode="json", by_alias=True)
    values["env"]["train"]["task"] = {**task, **pack}
    with pytest.raises(ValueError, match=message):
        Config.model_validate(values)


def test_a_task_that_was_not_composed_is_named(make_config):
    values = make_config().model_dump(mode="json")
    values["env"]["train"]["task"] = "somewhere"
    with pytest.raises(ValueError, match="'somewhere' was not found when the configuration was composed"):
        Config.model_validate(values)


def test_the_evaluation_may_have_its_own_task_with_the_same_sizes(make_config, make_pack):
    train = {"task": make_pack().model_dump(mode="json", by_alias=True)}
    easy = make_pack(obstacles=0).model_dump(mode="json", by_alias=True)
    config = make_config(env={"train": train, "eval": {"task": easy}})
    assert config.eval_task.workspace.obstacles.count == 0
    assert config.task.workspace.obstacles.count == 3
    wide = make_pack(layout="imu-gravity-v1").model_dump(mode="json", by_alias=True)
    with pytest.raises(ValueError, match="other observations"):
        make_config(env={"train": train, "eval": {"task": wide}})


def test_the_packs_seed_counts_where_none_is_given(make_config, make_pack):
    train = {"task": make_pack(seed=42).model_dump(mode="json", by_alias=True)}
    assert make_config(algorithm={"seed": None}, env={"train": train}).seed == 42
    assert make_config(algorithm={"seed": 3}, env={"train": train}).seed == 3


@pytest.mark.parametrize(
    ("threads", "minibatch", "available", "expected"),
    [(None, 128, 8, 1), (None, 16384, 8, 8), (4, 128, 8, 4), (4, 128, 2, 2), (None, 16384, 0, 1)],
)
def test_threads_pay_for_large_minibatches_only(make_config, threads, minibatch, available, expected):
    env = {"train": {"task": make_config().task, "total_num_envs": 16384, "rollout_steps": 1}}
    config = make_config(runner={"threads": threads}, env=env, actor={"global_batch_size": minibatch})
    assert config.threads(available) == expected
