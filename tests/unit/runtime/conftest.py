"""The toy engine at hand, and a run of it without Ray."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from rlark.engine import load_attribute
from rlark.folder import JobFolder, write_json
from rlark.host import process
from rlark.plan.node import Device, Lease
from rlark.plan.plan import Plan, RankPlacement
from rlark.runtime import seat
from rlark.runtime.assignment import Assignment
from rlark.runtime.cluster import Cluster
from rlark.runtime.placed import PlacedTrainer
from rlark.runtime.rank import Rank
from rlark.runtime.trainer import Workload
from rlark.runtime.wire import PeerLost
from rlark.runtime.worker import Worker
from rlark.spec.status import RankStatus

TOYS = Path(__file__).parents[2] / "engine_for_tests"
PROGRAM = "toy_engine.program:PROGRAM"


class Threads:
    """Ranks as threads of this process: everything but Ray and the processes is real."""

    def __init__(self, rank: Callable[[Rank, str], None], missing: str) -> None:
        self._started: list[threading.Thread] = []
        self._rank, self._missing = rank, missing
        self.ended = False

    def start(self, rank: Rank, run: str) -> None:
        if rank.name != self._missing:
            self._started.append(threading.Thread(target=self._rank, args=(rank, run)))
            self._started[-1].start()

    def why(self, rank: Rank) -> str | None:
        return "no room for it" if rank.name == self._missing else None

    def end(self) -> None:
        self.ended = True

    def join(self) -> None:
        assert self.ended
        for thread in self._started:
            thread.join(5)
            assert not thread.is_alive()


def be_a_rank(rank: Rank, run: str) -> None:
    """What the process of a rank does; where the driver gives up before, a process would be killed."""
    with suppress(PeerLost):
        seat.serve(*seat.take(run, rank.component, rank.rank))


@pytest.fixture
def placed() -> Callable[..., AbstractContextManager[tuple[PlacedTrainer, list[RankStatus]]]]:
    """Runs an assignment on ranks that are threads: `with placed(assignment) as (trainer, statuses)`."""

    @contextmanager
    def run(
        assignment: Assignment,
        *,
        rank: Callable[[Rank, str], None] = be_a_rank,
        missing: str = "",
        program: str = PROGRAM,
    ) -> Iterator[tuple[PlacedTrainer, list[RankStatus]]]:
        group = Threads(rank, missing)
        trainer = PlacedTrainer(Cluster.of(assignment, group, program))
        try:
            workload = Workload.of(load_attribute(program), assignment.plan)
            yield trainer, trainer.gather(workload.shape, workload.stages)
        finally:
            trainer.close()
            group.join()

    return run


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The toy engine can be imported and found."""
    monkeypatch.syspath_prepend(str(TOYS))
    return TOYS


@pytest.fixture
def assign(tmp_path: Path, toys: Path) -> Callable[..., Assignment]:
    """Makes a job folder for the toy engine: `assign(ranks=(actor, rollout, env), toy={...})`."""

    def make(
        *, ranks: tuple[int, int, int] = (1, 1, 1), fused: bool = False, gpus: int = 0, **config: object
    ) -> Assignment:
        folder = JobFolder(tmp_path / "demo")
        folder.create()
        folder.logs(1).mkdir(parents=True, exist_ok=True)
        sizes = dict(zip(("actor", "rollout", "env"), ranks, strict=True))
        placement = {name: [RankPlacement(rank=i, local_rank=i) for i in range(n)] for name, n in sizes.items()}
        plan = Plan(
            job="demo",
            node="box",
            engine="toy",
            command=["{python}", "-m", "toy_engine"],
            config={"algorithm": {"seed": 7}, "runner": {"max_epochs": 4}, **config},
            placement=placement,
            fused=fused,
            evidence=True,
        )
        devices = [Device(id=str(i), faked=True) for i in range(gpus)]
        lease = Lease(job="demo", attempt=1, key="k", node="box", cpus=2, devices=devices)
        write_json(folder.plan, plan.to_json())
        write_json(folder.lease, lease.to_json())
        return Assignment.read(folder)

    return make


@pytest.fixture
def workload(assign: Callable[..., Assignment]) -> Callable[..., Workload]:
    """Makes the toy's workload of a configuration."""

    def make(**config: object) -> Workload:
        return Workload.of(load_attribute(PROGRAM), assign(**config).plan)

    return make


@pytest.fixture
def run_toy(toys: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `python -m toy_engine` on a job folder to its end."""

    def run(folder: Path | None, **env: str) -> subprocess.CompletedProcess[str]:
        given = {"PATH": os.environ["PATH"], "PYTHONPATH": str(toys), **env}
        if folder is not None:
            given["RLARK_JOB_DIR"] = str(folder)
        command = [sys.executable, "-m", "toy_engine"]
        return subprocess.run(command, env=given, capture_output=True, text=True, timeout=60, check=False)

    return run


@pytest.fixture
def later() -> Callable[[Callable[[], object]], tuple[threading.Thread, list[object]]]:
    """Does something in a thread: that thread, and the list in which what came of it will stand."""

    def begin(do: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
        found: list[object] = []

        def run() -> None:
            try:
                found.append(do())
            except Exception as error:  # noqa: BLE001  it is what came of it
                found.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread, found

    return begin


@pytest.fixture
def adder(toys: Path) -> type[Worker]:
    """A class of workers."""
    from adding_workers import Adder

    return Adder


@pytest.fixture
def cluster(toys: Path, tmp_path: Path) -> Iterator[Cluster]:
    """Room for two `adders` and one of the `others`; nobody is left of them afterwards."""
    with Cluster.local(adders=2, others=1, logs=tmp_path) as cluster:
        yield cluster
    assert not [one for one in cluster.roster.processes.values() if one is not None and process.alive(one)]
