"""The toy's configuration, in the sections that every engine has."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Section(BaseModel):
    """A part of the configuration; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class RunnerSection(Section):
    """How long, and on what."""

    engine: Literal["toy"] = "toy"
    fuse: Literal["auto", "never"] = "auto"
    device: Literal["auto", "cuda", "cpu"] = "auto"
    max_epochs: int = Field(default=8, ge=1)
    save_interval: int = 0
    resume_dir: str | None = None


class AlgorithmSection(Section):
    """How it learns."""

    seed: int = 0
    gamma: float = 0.95


class TrainSection(Section):
    """The environments."""

    task: str = "point-walk"
    total_num_envs: int = Field(default=8, ge=1)
    rollout_steps: int = Field(default=16, ge=1)


class EnvSection(Section):
    """Training environments."""

    train: TrainSection = TrainSection()


class OptimSection(Section):
    """The step size."""

    lr: float = 0.2


class ActorSection(Section):
    """The learner."""

    optim: OptimSection = OptimSection()


class Fault(Section):
    """A fault to be shown: which rank, when, and what it does."""

    component: Literal["actor", "rollout", "env"]
    rank: int = 0
    iteration: int = 1
    how: Literal["raise", "exit", "kill", "hang", "no_space"] = "raise"


class ToySection(Section):
    """What only tests want."""

    pace_s: float = 0.0
    fault: Fault | None = None


class ToyConfig(Section):
    """All of it. `toy.pace_s` makes each iteration last longer, `toy.fault` breaks one rank."""

    cluster: dict[str, Any] = Field(default_factory=dict)
    runner: RunnerSection = RunnerSection()
    algorithm: AlgorithmSection = AlgorithmSection()
    env: EnvSection = EnvSection()
    rollout: dict[str, Any] = Field(default_factory=dict)
    actor: ActorSection = ActorSection()
    toy: ToySection = ToySection()
