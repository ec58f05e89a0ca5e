"""What a training request means for this engine: a configuration, as a Job would write it.

Checks load this module, so it imports nothing heavy.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import ValidationError

from engines.starter_ppo.algorithms import SAC
from rlark.engine import OWN
from rlark.reference import slug
from rlark.spec.packs import model_of
from rlark.spec.pendulum_pack import PendulumPack
from rlark.spec.task_pack import TaskPack
from rlark.spec.train_request import Training, TrainRequest, sentences

DEVICE = "RDK_STARTER_ENGINE_DEVICE"
ITERATIONS = "RDK_STARTER_ENGINE_ITERATIONS"
ENVS = "RDK_STARTER_ENGINE_ENVS"
STEPS = "RDK_STARTER_ENGINE_STEPS"
DEVICES = ("auto", "cuda", "cpu")
LOG = logging.getLogger("request")


class Budget(NamedTuple):
    """The size of a training.

    Attributes:
        iterations: rollouts and updates.
        envs: environments side by side.
        steps: control steps of one rollout.
    """

    iterations: int
    envs: int
    steps: int


BUDGETS = {
    "smoke": Budget(40, 16, 128),
    "low-vram": Budget(400, 32, 128),
    "standard": Budget(400, 64, 128),
    "high-vram": Budget(600, 128, 128),
}
"""What the profiles mean."""
UNASKED = 60
UNASKED_PENDULUM = 40
"""Most iterations of a training for which nobody asked for a number: enough to look at, not to be good."""
MINIBATCHES = (4, 5, 3, 2, 1)
"""Into how many parts a rollout is cut; the first that divides it."""
HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "algorithm": {"gamma": 0.998, "entropy_bonus": 0.01, "entropy_bonus_final": 0.0},
    "actor": {"optim": {"lr": 0.002, "lr_scheduler": "linear"}},
}
"""Those of configs/originbot_ppo.yaml, which were found to learn the task."""
PENDULUM_HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "algorithm": {"gamma": 0.98, "entropy_bonus": 0.0},
    "actor": {"optim": {"lr": 0.001, "lr_scheduler": "linear"}},
}
"""Those of configs/pendulum_ppo.yaml."""


def configuration(request: TrainRequest, environ: Mapping[str, str]) -> dict[str, Any]:
    """The effective configuration that a request means.

    Args:
        request: as it was sent.
        environ: where the operator sets the device, and sizes that override the request's.

    Raises:
        ValueError: the request cannot be carried out by this engine; the message says why.
    """
    training = request.training or Training()
    _no_demonstrations(request, training)
    balances = _balances(request)
    task = _chain(request) if balances else _task(request)
    budget = _budget(request, training, environ, UNASKED_PENDULUM if balances else UNASKED)
    learning = _learning(training, budget, PENDULUM_HYPERPARAMETERS if balances else HYPERPARAMETERS)
    return {
        "product": _product(request),
        "runner": {"engine": "starter-ppo", "device": _device(environ), "max_epochs": budget.iterations},
        "env": {"train": {"task": task, "total_num_envs": budget.envs, "rollout_steps": budget.steps}},
        **learning,
    }


def _learning(training: Training, budget: Budget, found: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    """The sections that say how it is learned; SAC has the reference's numbers, which are its defaults."""
    seed = {} if training.seed is None else {"seed": training.seed}
    if training.algorithm == SAC:
        return {"algorithm": {"type": SAC, **seed}}
    transitions = budget.envs * budget.steps
    parts = next(parts for parts in MINIBATCHES if transitions % parts == 0)
    return {
        "algorithm": {**found["algorithm"], **seed},
        "actor": {**found["actor"], "global_batch_size": transitions // parts},
    }


def _no_demonstrations(request: TrainRequest, training: Training) -> None:
    if request.demonstrations is not None or training.demonstration_run_id is not None:
        raise ValueError(
            "demonstrations are given, and starter-ppo learns from its own episodes only: it would ignore them; "
            "leave demonstrations and training.demonstrationRunId out, or choose an engine that imitates"
        )


def _product(request: TrainRequest) -> dict[str, str]:
    named = {} if request.model is None else {"model": request.model.model_id, "version": request.model.version}
    return {**{name: slug(text) for name, text in named.items()}, "profile": request.profile}


def _device(environ: Mapping[str, str]) -> str:
    device = environ.get(DEVICE) or "auto"
    if device not in DEVICES:
        raise ValueError(f"{DEVICE} is {device!r}; it must be auto, cuda or cpu")
    return device


def _budget(request: TrainRequest, training: Training, environ: Mapping[str, str], unasked: int) -> Budget:
    whole = BUDGETS[request.profile]
    return Budget(
        _set(environ, ITERATIONS) or training.max_iterations or min(whole.iterations, unasked),
        _set(environ, ENVS) or training.num_envs or whole.envs,
        _set(environ, STEPS) or whole.steps,
    )


def _set(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name, "")
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or not 0 < int(text) <= 2_000_000:
        raise ValueError(f"{name} is {text!r}; it must be a whole number from 1 to 2000000")
    return int(text)


def _balances(request: TrainRequest) -> bool:
    """True for a chain of pendulums: a task of that kind, or none at all."""
    return not request.task or model_of(request.task) is PendulumPack


def _chain(request: TrainRequest) -> dict[str, Any]:
    """The chain that has the contract's sizes and times, with what the task says besides."""
    contract, sent = request.contract, _known(request, PendulumPack)
    described = contract.model_dump(by_alias=True, exclude_none=True)
    task = PendulumPack.of_contract(described).model_dump(mode="json", by_alias=True, exclude_unset=True) | sent
    try:
        pack = PendulumPack.model_validate(task)
    except ValidationError as error:
        raise ValueError(sentences(error, PendulumPack, task, "task")) from error
    for name, asked, found in (
        ("observationSize", contract.observation_size, pack.observation_size),
        ("actionSize", contract.action_size, pack.action_size),
    ):
        if asked != found:
            raise ValueError(f"contract.{name} is {asked}, which violates the task {pack.id}: there it is {found}")
    return task


def _known(request: TrainRequest, model: type[TaskPack | PendulumPack]) -> dict[str, Any]:
    """The task as it was sent, without what its kind has no word for."""
    sent = request.task or {}
    known = {field.alias or name for name, field in model.model_fields.items()}
    if unknown := sorted(name for name in sent.keys() - known if sent[name] is not None):
        LOG.warning("the task's %s means nothing to this engine", ", ".join(unknown))
    return {name: value for name, value in sent.items() if name in known}


def _task(request: TrainRequest) -> dict[str, Any]:
    """The task pack as it was sent, with the drive that the contract describes."""
    task, contract = _known(request, TaskPack), request.contract
    if "drive" not in task:
        scale = contract.action_scale
        drive = {
            "controlHz": contract.control_hz,
            "maxLinear": scale and scale.linear,
            "maxAngular": scale and scale.angular,
        }
        task["drive"] = {name: value for name, value in drive.items() if value is not None}
    try:
        pack = TaskPack.model_validate(task)
    except ValidationError as error:
        raise ValueError(sentences(error, TaskPack, task, "task")) from error
    _agree(request, pack)
    _measured(pack)
    return task


def _agree(request: TrainRequest, pack: TaskPack) -> None:
    contract = request.contract
    pairs = (
        ("observationSize", contract.observation_size, pack.observation_size),
        ("actionSize", contract.action_size, pack.action_size),
        ("controlHz", contract.control_hz or pack.drive.control_hz, pack.drive.control_hz),
    )
    for name, asked, found in pairs:
        if asked != found:
            raise ValueError(f"contract.{name} is {asked:g}, which violates the task {pack.id}: there it is {found:g}")


def _measured(pack: TaskPack) -> None:
    """The rules of rlark.plan.rules.engine say the same of a Job before it starts."""
    for term in pack.formula:
        if term.quantity not in OWN["starter-ppo"]:
            raise ValueError(
                f"task.rewardFormula: the term {term.term} needs {term.quantity}, which starter-ppo does not measure"
            )
