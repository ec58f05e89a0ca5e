"""A training request in the words of the training platform: what `POST /train` takes and an engine is given.

Whoever sends one may add fields of its own, so unknown ones are ignored; those that are read are
read strictly. What a request means (sizes, hyperparameters) only the engine knows.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from rlark.reference import valid_reference
from rlark.spec.invalid import ENGINE, explain

SIZES = "contract.observationSize and contract.actionSize are required"
Profile = Literal["smoke", "low-vram", "standard", "high-vram"]
PROFILES: tuple[str, ...] = get_args(Profile)
STANDARD: Profile = "standard"


def _reference(text: str) -> str:
    if not valid_reference(text):
        raise ValueError("a reference is artifact://NAME/..., of letters, digits, '.', '_' and '-'")
    return text


Named = Annotated[str, Field(min_length=1, max_length=120)]


class Said(BaseModel):
    """A part of a request: camelCase, unknown names ignored, a text never taken for a number."""

    model_config = ConfigDict(
        frozen=True, extra="ignore", strict=True, allow_inf_nan=False, alias_generator=to_camel, validate_by_name=False
    )


class RequestedModel(Said):
    """What the policy shall be called.

    Attributes:
        model_id: its name.
        version: its version.
    """

    model_id: Named
    version: Annotated[str, Field(min_length=1, max_length=64)]


class ActionScale(Said):
    """What an action of 1 commands, where the contract says it for a drive.

    Attributes:
        linear: m/s.
        angular: rad/s.
    """

    linear: Annotated[float, Field(gt=0)] | None = None
    angular: Annotated[float, Field(gt=0)] | None = None


class PolicyContract(Said):
    """What the robot shows the policy and takes from it.

    Attributes:
        id: the contract's name.
        observation_size: numbers the policy sees, all frames together.
        action_size: numbers it gives.
        control_hz: decisions per second.
        physics_timestep_seconds: of the simulation.
        decimation: simulation steps of one decision.
        action_scale: what an action of 1 commands.
    """

    id: Named | None = None
    observation_size: Annotated[int, Field(ge=1, le=4096)]
    action_size: Annotated[int, Field(ge=1, le=4096)]
    control_hz: Annotated[float, Field(gt=0, le=1000)] | None = None
    physics_timestep_seconds: Annotated[float, Field(gt=0, le=1)] | None = None
    decimation: Annotated[int, Field(ge=1, le=256)] | None = None
    action_scale: ActionScale | None = None

    @model_validator(mode="before")
    @classmethod
    def _drive_only(cls, data: object) -> object:
        """Joints are scaled by one number or a list of them, which nothing here reads."""
        if isinstance(data, dict) and not isinstance(data.get("actionScale"), dict):
            return {name: value for name, value in data.items() if name != "actionScale"}
        return data


class Training(Said):
    """How to train.

    Attributes:
        profile: the size of the training; an engine knows what it means.
        num_envs: environments side by side, instead of the profile's.
        max_iterations: rollouts and updates, instead of the engine's default; counted from the very start
            where training goes on from a checkpoint.
        algorithm: `ppo` or `sac`.
        engine: who trains; routed by the platform.
        seed: of everything random, instead of the task's.
        run_name: for people.
        task_id: the task's name.
        demonstration_run_id: whose demonstrations to learn from.
    """

    profile: Profile | None = None
    num_envs: Annotated[int, Field(ge=1, le=16384)] | None = None
    max_iterations: Annotated[int, Field(ge=1, le=2_000_000)] | None = None
    algorithm: Literal["ppo", "sac"] | None = None
    engine: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{1,31}$")] | None = None
    seed: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = None
    run_name: Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,79}$")] | None = None
    task_id: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")] | None = None
    demonstration_run_id: str | None = None


class ResumeFrom(Said):
    """The checkpoint of an earlier run to go on from, as that run's result names it.

    Attributes:
        checkpoint_id: its `checkpoint.checkpointId`.
        artifact_ref: its `checkpoint.artifactRef`.
        iteration: its `checkpoint.iteration`, where it shall be checked.
    """

    checkpoint_id: Annotated[str, Field(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,79}$")]
    artifact_ref: Annotated[str, AfterValidator(_reference)]
    iteration: Annotated[int, Field(ge=0, le=2_000_000)] | None = None


class TrainRequest(Said):
    """The whole request.

    Attributes:
        schema_version: 1.
        contract_id: the contract's name once more.
        model: what the policy shall be called.
        contract: what the robot shows the policy and takes from it.
        task: the task pack with everything resolved; None for the engine's own task.
        training: how to train.
        resume_from: where to go on from.
        demonstrations: recorded episodes, for engines that imitate.
    """

    schema_version: Literal[1]
    contract_id: Named | None = None
    model: RequestedModel | None = None
    contract: PolicyContract
    task: dict[str, Any] | None = None
    training: Training | None = None
    resume_from: ResumeFrom | None = None
    demonstrations: Any = None

    @property
    def profile(self) -> Profile:
        """The size of the training."""
        return (self.training and self.training.profile) or STANDARD

    @classmethod
    def read(cls, data: object) -> TrainRequest:
        """A request from JSON.

        Raises:
            ValueError: it is none; the message names every fault with its place.
        """
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise ValueError(sentences(error, cls, data)) from error

    @model_validator(mode="before")
    @classmethod
    def _first_things_first(cls, data: object) -> object:
        """Without these nothing else that is wrong matters."""
        if not isinstance(data, dict):
            raise ValueError("a training request is a JSON object")
        version = data.get("schemaVersion")
        if type(version) is not int or version != 1:
            raise ValueError(f"schemaVersion must be 1, and here is {version!r}")
        contract = data.get("contract")
        sizes = [contract.get(name) for name in ("observationSize", "actionSize")] if isinstance(contract, dict) else []
        if not sizes or not all(type(size) is int and size > 0 for size in sizes):
            raise ValueError(SIZES)
        return data

    @model_validator(mode="after")
    def _one_contract(self) -> TrainRequest:
        if self.contract_id is not None and self.contract.id is not None and self.contract_id != self.contract.id:
            raise ValueError(f"contractId {self.contract_id!r} is not contract.id {self.contract.id!r}")
        return self


def sentences(error: ValidationError, model: type[BaseModel], data: object, path: str = "") -> str:
    """What pydantic found, a sentence for each fault with its place."""
    found = (invalid.finding for invalid in explain(error, model, data, ENGINE, path))
    parts = (
        f"{finding.path + ': ' if finding.path else ''}{finding.message}{f' ({finding.hint})' if finding.hint else ''}"
        for finding in found
    )
    return "; ".join(parts)
