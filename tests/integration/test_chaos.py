"""A rank killed at a moment nobody chose: the cause is found, soon, and nothing is left; and nothing grows."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rlark.engine import load_attribute
from rlark.folder import JobFolder
from rlark.host import process
from rlark.plan.node import Lease
from rlark.plan.plan import Plan, RankPlacement
from rlark.runtime import checkpoint
from rlark.runtime.assignment import Assignment
from rlark.runtime.cluster import Cluster
from rlark.runtime.failure import RunFailed
from rlark.runtime.placed import PlacedTrainer
from rlark.runtime.rank import Rank
from rlark.runtime.subprocesses import Subprocesses
from rlark.runtime.trainer import Workload

pytestmark = pytest.mark.integration
TOYS = Path(__file__).parents[1] / "engine_for_tests"
PROGRAM = "toy_engine.program:PROGRAM"
RANKS = {"actor": 2, "rollout": 2, "env": 2}
KILLS = 50
LATEST_S = 1.2
"""A run is up after about half of this: kills fall into its start, its meeting and its training alike."""


@dataclass
class Killer:
    """Ends one rank's process at some moment after it was started."""

    group: Subprocesses
    after_s: float
    chance: random.Random
    victim: Rank | None = None
    at: float = 0.0
    _thread: threading.Thread = field(init=False)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._kill)
        self._thread.start()

    def _kill(self) -> None:
        threading.Event().wait(self.after_s)
        started = self.group.processes
        self.victim = self.chance.choice(sorted(started, key=lambda rank: rank.name))
        self.at = time.monotonic()
        os.kill(started[self.victim], signal.SIGKILL)

    def join(self) -> None:
        self._thread.join()


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(TOYS))
    return TOYS


@pytest.fixture
def assignment(tmp_path: Path, toys: Path) -> Callable[[int], Assignment]:
    """Run n of the toy engine, on six ranks, with two pipeline stages in every other one."""

    def make(number: int) -> Assignment:
        folder = JobFolder(tmp_path / f"run-{number}")
        folder.create()
        folder.logs(1).mkdir(parents=True)
        placement = {name: [RankPlacement(rank=i) for i in range(count)] for name, count in RANKS.items()}
        config = {"runner": {"max_epochs": 10**6}, "rollout": {"pipeline_stage_num": 1 + number % 2}}
        plan = Plan(job=f"run-{number}", node="box", engine="toy", config=config, placement=placement)
        return Assignment(folder, plan, Lease(job=plan.job, attempt=1, key="k", node="box", cpus=2))

    return make


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """What this process holds open, and the names it listens at, are afterwards what they were before.

    The names of the whole machine are in one list, so that only those of this process's own sockets count.
    """

    def held() -> tuple[int, int, set[str]]:
        files = [str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
        blocks = Path("/proc/self/maps").read_text().count("memfd:rlark")
        lines = [line.split() for line in Path("/proc/net/unix").read_text().splitlines()]
        names = {line[-1] for line in lines if line[-1].startswith("@rlark-") and f"socket:[{line[6]}]" in files}
        return len(files), blocks, names

    before = held()
    yield
    assert held() == before


def train(assignment: Assignment, group: Subprocesses) -> None:
    """Train for ever, with a checkpoint after every third iteration."""
    with Cluster.of(assignment, group, PROGRAM) as cluster:
        trainer = PlacedTrainer(cluster)
        workload = Workload.of(load_attribute(PROGRAM), assignment.plan)
        trainer.gather(workload.shape, workload.stages)
        for number in range(1, 10**6):
            trainer.iterate()
            if number % 3 == 0:
                checkpoint.save(assignment.folder.checkpoints, number, trainer.state(), {"iteration": number})


def test_fifty_kills_have_fifty_causes(assignment: Callable[[int], Assignment], nothing_left: None) -> None:
    found, slowest = [], 0.0
    for number in range(KILLS):
        chance, group, run = random.Random(number), Subprocesses(), assignment(number)
        killer = Killer(group, chance.uniform(0.05, LATEST_S), chance)
        with pytest.raises(RunFailed) as failed:
            train(run, group)
        ended = time.monotonic()
        killer.join()
        assert killer.victim is not None
        cause, victim = failed.value.cause, killer.victim
        found.append((cause.component, cause.rank, cause.exception) == (victim.component, victim.rank, "ProcessDied"))
        assert found[-1], f"run {number}: {victim.name} was killed, and told is {cause}"
        assert cause.log == f"{victim.component}-{victim.rank}.log"
        slowest = max(slowest, ended - killer.at)
        assert ended - killer.at < 5
        left = [pid for pid in group.processes.values() if process.identify(pid) is not None]
        assert left == []
        assert not list(run.folder.checkpoints.glob(".*"))  # no half checkpoint
    assert sum(found) == KILLS
    print(f"{KILLS} kills; the slowest end came {slowest:.2f} s after its kill")


def held_by(pid: int) -> tuple[int, int, int]:
    """Open files, blocks of shared memory, and resident kilobytes of a process."""
    proc = Path(f"/proc/{pid}")
    files = sum(1 for _ in (proc / "fd").iterdir())
    blocks = (proc / "maps").read_text().count("memfd:rlark")
    status = (proc / "status").read_text().split()
    return files, blocks, int(status[status.index("VmRSS:") + 1])


def test_a_thousand_rollouts_open_no_file_and_take_no_memory(
    assignment: Callable[[int], Assignment], nothing_left: None
) -> None:
    group, run = Subprocesses(), assignment(1)
    large = {"env": {"train": {"total_num_envs": 8192, "rollout_steps": 4}}}
    plan = run.plan.model_copy(update={"config": {**run.plan.config, **large}})
    run = Assignment(run.folder, plan, run.lease)
    with Cluster.of(run, group, PROGRAM) as cluster:
        trainer = PlacedTrainer(cluster)
        workload = Workload.of(load_attribute(PROGRAM), run.plan)
        trainer.gather(workload.shape, workload.stages)
        for _ in range(100):
            trainer.iterate()
        before = {rank: held_by(pid) for rank, pid in group.processes.items()}
        for _ in range(1000):
            trainer.iterate()
        after = {rank: held_by(pid) for rank, pid in group.processes.items()}
    assert {rank: held[:2] for rank, held in after.items()} == {rank: held[:2] for rank, held in before.items()}
    assert all(blocks for rank, (_, blocks, _) in before.items())  # they do share memory
    for rank, (_, _, kilobytes) in after.items():
        assert kilobytes - before[rank][2] < 2048, rank.name
