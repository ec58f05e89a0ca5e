"""Training in processes of their own, for the benchmarks: one rank each, as a Job has them, without Ray."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlark.engine import load_attribute
from rlark.folder import JobFolder
from rlark.plan.node import Lease
from rlark.plan.plan import Plan, RankPlacement
from rlark.runtime.assignment import Assignment
from rlark.runtime.cluster import Cluster
from rlark.runtime.placed import PlacedTrainer
from rlark.runtime.subprocesses import Subprocesses
from rlark.runtime.trainer import FusedTrainer, Trainer, Workload

ONE_THREAD = {"OMP_NUM_THREADS": "1"}


def plan_of(config: Mapping[str, Any], *, fused: bool) -> Plan:
    placement = {name: [RankPlacement(rank=0)] for name in ("actor", "rollout", "env")}
    return Plan(job="bench", node="here", config=dict(config), placement=placement, fused=fused, env=ONE_THREAD)


@contextmanager
def placed(program: str, config: Mapping[str, Any]) -> Iterator[Trainer]:
    """Actor, Rollout and Env, each its own process."""
    with tempfile.TemporaryDirectory(prefix="rlark-bench-") as root:
        folder = JobFolder(Path(root) / "bench")
        folder.create()
        folder.logs(1).mkdir(parents=True)
        plan = plan_of(config, fused=False)
        assignment = Assignment(folder, plan, Lease(job="bench", attempt=1, key="k", node="here", cpus=1))
        with Cluster.of(assignment, Subprocesses(), program) as cluster:
            trainer = PlacedTrainer(cluster)
            workload = Workload.of(load_attribute(program), plan)  # type: ignore[arg-type]
            trainer.gather(workload.shape, workload.stages)
            yield trainer


def fused(program: str, config: Mapping[str, Any]) -> FusedTrainer:
    """The same in this process, on one thread."""
    return FusedTrainer(Workload.of(load_attribute(program), plan_of(config, fused=True)), threads=1)  # type: ignore[arg-type]


def seconds(trainer: Trainer, iterations: int) -> float:
    """Of so many iterations, after one that does not count."""
    trainer.iterate()
    began = time.perf_counter()
    for _ in range(iterations):
        trainer.iterate()
    return time.perf_counter() - began
