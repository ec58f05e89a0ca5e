from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from engines.starter_ppo.config import Config
from engines.starter_ppo.request import BUDGETS
from rlark.spec.train_request import TrainRequest

Ask = Callable[..., Config]
SIZES = {"observationSize": 8, "actionSize": 2}


@pytest.fixture
def task(make_pack) -> dict[str, Any]:
    """A pack as the platform sends it: the drive stands in the contract."""
    task = make_pack().model_dump(mode="json", by_alias=True, exclude_unset=True)
    return {name: value for name, value in task.items() if name != "drive"}


@pytest.fixture
def ask(task) -> Ask:
    """The configuration that a request means."""

    def build(*, environ: dict[str, str] | None = None, **parts: Any) -> Config:
        request = {"schemaVersion": 1, "contract": SIZES, "task": task, **parts}
        return Config.from_request(TrainRequest.read(request), environ or {})

    return build


def sizes(config: Config) -> tuple[int, int, int]:
    return config.runner.max_epochs, config.env.train.total_num_envs, config.env.train.rollout_steps


@pytest.mark.parametrize(
    ("profile", "expected"),
    [("smoke", (40, 16, 128)), ("low-vram", (60, 32, 128)), ("standard", (60, 64, 128)), ("high-vram", (60, 128, 128))],
)
def test_profiles_without_a_number_of_iterations_are_short(ask, profile, expected):
    assert sizes(ask(training={"profile": profile})) == expected
    assert ask(training={"profile": profile}).product.profile == profile


def test_the_profiles_are_the_references():
    assert BUDGETS == {
        "smoke": (40, 16, 128),
        "low-vram": (400, 32, 128),
        "standard": (400, 64, 128),
        "high-vram": (600, 128, 128),
    }


def test_the_request_overrides_the_profile_and_the_operator_the_request(ask):
    training = {"profile": "smoke", "numEnvs": 8, "maxIterations": 500}
    assert sizes(ask(training=training)) == (500, 8, 128)
    environ = {
        "RDK_STARTER_ENGINE_ITERATIONS": "3",
        "RDK_STARTER_ENGINE_ENVS": "4",
        "RDK_STARTER_ENGINE_STEPS": "32",
    }
    assert sizes(ask(training=training, environ=environ)) == (3, 4, 32)
    assert sizes(ask(training=training, environ=dict.fromkeys(environ, ""))) == (500, 8, 128)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "x", "²", "9999999"])
@pytest.mark.parametrize("name", ["ITERATIONS", "ENVS", "STEPS"])
def test_an_operators_number_is_whole_and_positive(ask, name, text):
    with pytest.raises(ValueError, match=f"RDK_STARTER_ENGINE_{name} is '{text}'; it must be a whole number"):
        ask(environ={f"RDK_STARTER_ENGINE_{name}": text})


@pytest.mark.parametrize(("envs", "steps", "minibatch"), [(16, 128, 512), (3, 3, 3), (7, 1, 7), (5, 1, 1)])
def test_minibatches_divide_every_rollout(ask, envs, steps, minibatch):
    environ = {"RDK_STARTER_ENGINE_ENVS": str(envs), "RDK_STARTER_ENGINE_STEPS": str(steps)}
    assert ask(environ=environ).minibatch == minibatch


def test_the_seed_is_the_packs_unless_the_request_has_one(ask, task):
    assert ask().seed == 7
    assert ask(task={**task, "seed": 11}).seed == 11
    assert ask(task={**task, "seed": 11}, training={"seed": 3}).seed == 3


@pytest.mark.parametrize("device", ["auto", "cuda", "cpu"])
def test_the_operator_chooses_the_device(ask, device):
    assert ask(environ={"RDK_STARTER_ENGINE_DEVICE": device}).runner.device == device


def test_auto_is_the_default_and_others_are_refused(ask):
    assert ask().runner.device == ask(environ={"RDK_STARTER_ENGINE_DEVICE": ""}).runner.device == "auto"
    with pytest.raises(ValueError, match="RDK_STARTER_ENGINE_DEVICE is 'tpu'; it must be auto, cuda or cpu"):
        ask(environ={"RDK_STARTER_ENGINE_DEVICE": "tpu"})


def test_the_contract_describes_the_drive_where_the_task_does_not(ask, task):
    contract = {**SIZES, "controlHz": 20, "actionScale": {"linear": 0.5, "angular": 2.0, "unit": "m/s,rad/s"}}
    drive = ask(contract=contract).task.drive
    assert (drive.control_hz, drive.max_linear, drive.max_angular) == (20, 0.5, 2.0)
    own = {**task, "drive": {"maxLinear": 0.2}}
    assert ask(task=own).task.drive.max_linear == 0.2
    with pytest.raises(ValueError, match=r"contract\.controlHz is 20, which violates the task .*: there it is 10"):
        ask(contract=contract, task=own)


@pytest.mark.parametrize(("name", "size"), [("observationSize", 16), ("actionSize", 3)])
def test_a_contract_that_the_task_does_not_fit_is_refused(ask, name, size):
    with pytest.raises(ValueError, match=f"contract.{name} is {size}, which violates the task navigation-for-tests"):
        ask(contract={**SIZES, name: size})


def test_a_history_of_frames_fits_its_contract(ask, task):
    wide = {**task, "observationHistory": {"frames": 3}}
    assert ask(task=wide, contract={**SIZES, "observationSize": 24}).task.observation_size == 24


def test_the_policy_is_called_as_the_request_says(ask):
    product = ask(model={"modelId": "My Model/7", "version": "1.0.0 beta"}, training={"profile": "smoke"}).product
    assert (product.model, product.version, product.profile) == ("My-Model-7", "1.0.0-beta", "smoke")
    assert (ask().product.model, ask().product.profile) == (None, "standard")


@pytest.mark.parametrize(
    "parts", [{"demonstrations": {"jsonl": ""}}, {"training": {"demonstrationRunId": "local-m-1"}}]
)
def test_demonstrations_are_refused(ask, parts):
    with pytest.raises(ValueError, match="demonstrations are given, and starter-ppo learns from its own episodes only"):
        ask(**parts)


def test_a_fault_in_the_task_is_told_where_it_stands_in_the_request(ask, task):
    with pytest.raises(ValueError, match=r"^task\.termination\.timeoutSteps: must be at least 1"):
        ask(task={**task, "termination": {"goalDistance": 0.15, "timeoutSteps": 0}})
    with pytest.raises(ValueError, match=r"^task\.workspace\.bounds: the key 'bounds' is not known here"):
        ask(task={**task, "workspace": {"bound": 2, "bounds": 3}})


def test_what_the_platform_adds_to_a_task_is_told_and_left_out(ask, task, caplog):
    with caplog.at_level(logging.WARNING):
        config = ask(task={**task, "isaacTask": None, "microduckTask": {"skill": "kick"}})
    assert config == ask()
    assert [record.message for record in caplog.records] == ["the task's microduckTask means nothing to this engine"]


def test_a_job_can_hold_what_a_request_means(ask):
    config = ask(model={"modelId": "m", "version": "1"}, training={"profile": "smoke", "seed": 3})
    assert Config.model_validate(config.model_dump(mode="json", by_alias=True, exclude_unset=True)) == config


def test_a_reward_that_this_engine_cannot_measure_is_refused(ask, task):
    plain = {name: value for name, value in task.items() if name != "reward"}
    paid = [{"term": "progress", "op": "potential", "weight": 1.0}, {"term": "upright", "op": "shaping", "weight": 1.0}]
    assert [term.term for term in ask(task={**plain, "rewardFormula": paid[:1]}).task.formula] == ["progress"]
    with pytest.raises(ValueError, match="the term upright needs attitude, which starter-ppo does not measure"):
        ask(task={**plain, "rewardFormula": paid})


CHAIN = {"id": "rdk-duck-policy-starter-v1", "observationSize": 42, "actionSize": 12}


def test_without_a_task_it_is_the_chain_of_the_contracts_size(ask):
    times = {"controlHz": 100, "physicsTimestepSeconds": 0.002, "decimation": 5}
    config = ask(task=None, contract={**CHAIN, **times}, training={"profile": "standard"})
    assert (config.task.kind, config.task.observation_size, config.task.action_size) == ("pendulum-chain", 42, 12)
    assert (config.task.control_hz, config.task.decimation) == (100, 5)
    assert sizes(config) == (40, 64, 128)
    assert config.algorithm.gamma == 0.98


def test_a_chain_may_say_more_than_its_contract(ask):
    config = ask(task={"kind": "pendulum-chain", "id": "chain", "seed": 3}, contract=CHAIN)
    assert (config.task.id, config.seed, config.task.observation_size) == ("chain", 3, 42)
    with pytest.raises(ValueError, match=r"contract\.actionSize is 12, which violates the task chain: there it is 6"):
        ask(task={"kind": "pendulum-chain", "id": "chain", "actionSize": 6}, contract=CHAIN)


@pytest.mark.parametrize(
    ("contract", "said"),
    [
        ({"observationSize": 35}, "observationSize 35 has no room"),
        ({"decimation": 4}, "contract.decimation is 4"),
        ({"controlHz": 30}, "must be a whole number"),
    ],
)
def test_a_contract_that_is_no_chain_is_refused(ask, contract, said):
    with pytest.raises(ValueError, match=said):
        ask(task=None, contract={**CHAIN, **contract})


@pytest.mark.parametrize("chain", [False, True])
def test_sac_has_the_references_numbers(ask, chain):
    training = {"profile": "smoke", "algorithm": "sac", "seed": 5, "maxIterations": 10}
    config = ask(training=training, **({"task": None, "contract": CHAIN} if chain else {}))
    sac = config.algorithm
    assert (sac.type, sac.seed, sac.gamma, sac.tau, sac.initial_alpha) == ("sac", 5, 0.99, 0.005, 0.2)
    assert (sac.critic_lr, sac.alpha_lr, config.actor.optim.lr) == (3e-4, 3e-4, 3e-4)
    assert (sac.replay_size, sac.warmup, sac.updates, config.minibatch) == (8192, 512, 32, 256)
    assert (config.hidden_dims, sizes(config)) == ((128, 128), (10, 16, 128))
