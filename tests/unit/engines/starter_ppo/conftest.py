from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engines.starter_ppo.components import PROGRAM
from engines.starter_ppo.config import Config
from rlark.folder import JobFolder
from rlark.runtime import checkpoint
from rlark.runtime.component import Run
from rlark.runtime.trainer import Workload, fused

Sections = dict[str, dict[str, Any]]


@pytest.fixture(scope="session")
def make_config(make_pack) -> Callable[..., Config]:
    """A small configuration; sections are merged into it."""

    def build(
        *, pack: dict[str, Any] | None = None, size: tuple[int, int] = (8, 16), **sections: dict[str, Any]
    ) -> Config:
        num_envs, steps = size
        task = make_pack(episodes=30, **(pack or {})).model_dump(mode="json", by_alias=True)
        base: Sections = {
            "runner": {"engine": "starter-ppo", "max_epochs": 2},
            "algorithm": {"seed": 7},
            "env": {
                "train": {"task": task, "total_num_envs": num_envs, "rollout_steps": steps},
                "eval": {"probe_episodes": 4},
            },
            "actor": {"model": {"hidden_dims": [16, 16]}},
        }
        for name, section in sections.items():
            base[name] = {**base.get(name, {}), **section}
        return PROGRAM.config(base, "")

    return build


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """What is left after a fused training, with a checkpoint after each iteration."""

    def train(config: Config, name: str = "goalnav") -> Run:
        folder = JobFolder(tmp_path_factory.mktemp("jobs") / name)
        folder.create()
        shape = PROGRAM.shape(config)
        workload = Workload(PROGRAM, config, shape, config.seed, config.runner.device)
        trainer = fused(workload, threads=1)
        history = []
        for iteration in range(1, shape.iterations + 1):
            history.append(trainer.iterate())
            checkpoint.save(folder.checkpoints, iteration, trainer.state(), {})
        return Run(
            folder=folder,
            history=history,
            checkpoints=checkpoint.saved(folder.checkpoints),
            actor=trainer.state()["actor"][0],
            training_seconds=1.0,
            env_steps=shape.iterations * shape.steps * shape.num_envs,
            device=trainer.device(),
            fused=True,
            saved_checkpoints=shape.iterations,
        )

    return train
