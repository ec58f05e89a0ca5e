"""What a configuration may say, and what it says when it is silent."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)  # a misspelt key is an error


class Runner(Section):
    engine: Literal["reach"] = "reach"
    fuse: Literal["auto", "never"] = "auto"
    max_epochs: int = 60
    resume_dir: str | None = None


class Algorithm(Section):
    seed: int = 0
    gamma: float = 0.9
    lr: float = 0.3


class Config(Section):
    cluster: dict[str, Any] = {}
    runner: Runner = Runner()
    algorithm: Algorithm = Algorithm()
