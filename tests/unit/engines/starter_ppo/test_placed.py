"""starter-ppo on ranks of its own: the same learning as in one process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.starter_ppo import ENGINE
from engines.starter_ppo.components import PROGRAM
from rlark.folder import JobFolder
from rlark.plan.node import Lease
from rlark.plan.plan import Plan, RankPlacement
from rlark.runtime import seat
from rlark.runtime.assignment import Assignment
from rlark.runtime.cluster import Cluster
from rlark.runtime.placed import PlacedTrainer
from rlark.runtime.rank import Rank
from rlark.runtime.trainer import FusedTrainer, Workload


class Threads:
    """Ranks as threads of this process."""

    def __init__(self) -> None:
        self._started: list[threading.Thread] = []

    def start(self, rank: Rank, run: str) -> None:
        def be_the_rank() -> None:
            seat.serve(*seat.take(run, rank.component, rank.rank))

        self._started.append(threading.Thread(target=be_the_rank))
        self._started[-1].start()

    def why(self, rank: Rank) -> str | None:
        return None

    def end(self) -> None:
        for thread in self._started:
            thread.join(10)


@pytest.fixture
def assign(make_config, tmp_path: Path) -> Callable[..., Assignment]:
    def build(pack: dict[str, Any] | None = None, **ranks: int) -> Assignment:
        made = make_config(pack=pack)
        config = made.model_dump(mode="json", exclude_none=True)
        config["env"]["train"]["task"] = made.task.model_dump(mode="json", by_alias=True)
        placement = {name: [RankPlacement(rank=i) for i in range(ranks.get(name, 1))] for name in ENGINE.components}
        folder = JobFolder(tmp_path / "job")
        folder.create()
        plan = Plan(job="job", node="here", engine=ENGINE.id, config=config, placement=placement)
        return Assignment(folder, plan, Lease(job="job", attempt=1, key="k", node="here", cpus=1))

    return build


def learned(assignment: Assignment, iterations: int = 3) -> tuple[bytes, list[float]]:
    trainer = PlacedTrainer(Cluster.of(assignment, Threads(), ENGINE.program))
    try:
        trainer.gather(Workload.of(PROGRAM, assignment.plan).shape)
        rewards = [trainer.iterate()["meanReward"] for _ in range(iterations)]
        return trainer.state()["actor"][0]["flat"].tobytes(), rewards
    finally:
        trainer.close()


LATER = {"term": "action_rate", "op": "smoothness", "weight": 1.0, "curriculum": {"introduceAfterIteration": 2}}
TASKS = [{}, {"frames": 2, "rewardFormula": [{"term": "progress", "op": "potential", "weight": 1.0}, LATER]}]


@pytest.mark.parametrize("task", TASKS, ids=["plain", "formula"])
def test_placed_and_fused_give_the_same_bytes(assign, task):
    assignment = assign(task)
    fused = FusedTrainer(Workload.of(PROGRAM, assignment.plan), threads=1)
    rewards = [fused.iterate()["meanReward"] for _ in range(3)]
    assert learned(assignment) == (fused.state()["actor"][0]["flat"].tobytes(), rewards)


@pytest.mark.parametrize("ranks", [{"env": 2}, {"rollout": 2}, {"env": 4, "rollout": 2}])
def test_environments_are_shared_by_ranks_and_it_stays_repeatable(assign, ranks):
    first = learned(assign(**ranks))
    assert first == learned(assign(**ranks))
    assert first != learned(assign())
    assert np.isfinite(first[1]).all()
