"""starter-ppo as a Job runs it in one process: the same trainer, runner, reports and checkpoints."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import tensorboardX.record_writer  # noqa: F401  the runner imports it after the first iteration; imports do not count

from engines.starter_ppo.components import PROGRAM
from rlark.folder import JobFolder
from rlark.host.clock import SystemClock
from rlark.plan.plan import Plan
from rlark.runtime.component import DeviceUse, Metrics, State
from rlark.runtime.report import Reporter
from rlark.runtime.runner import Runner
from rlark.runtime.stop import Stop, Stopped
from rlark.runtime.trainer import FusedTrainer, Workload

SAVE_INTERVAL = 25
"""Iterations between checkpoints, what the configuration's own 200 iterations make of it."""


class _Watched:
    """A trainer that asks its run to stop after the iteration in which `over` says so."""

    def __init__(self, trainer: FusedTrainer, stop: Stop) -> None:
        self._trainer, self._stop = trainer, stop
        self.over: Callable[[Metrics], bool] = lambda _: True

    def iterate(self) -> Metrics:
        metrics = self._trainer.iterate()
        self._stop.requested = self.over(metrics)
        return metrics

    def state(self) -> State:
        return self._trainer.state()

    def restore(self, state: State) -> None:
        self._trainer.restore(state)

    def device(self) -> DeviceUse:
        return self._trainer.device()

    def close(self) -> None:
        self._trainer.close()


class FusedRun:
    """A run that can be halted by what it has learned, and continued.

    Attributes:
        steps: control steps done over all environments.
    """

    def __init__(self, raw: dict[str, Any], seed: int) -> None:
        """Make the trainer of a composed configuration, on one thread, with a folder of its own."""
        raw["algorithm"]["seed"] = seed
        raw["runner"] |= {"max_epochs": 100_000, "save_interval": SAVE_INTERVAL}
        self._folder = tempfile.TemporaryDirectory(prefix="rlark-bench-")
        folder = JobFolder(Path(self._folder.name) / "bench")
        folder.create()
        workload, clock, stop = Workload.of(PROGRAM, Plan(job="bench", node="", config=raw)), SystemClock(), Stop()
        shape = workload.shape
        self._trainer = _Watched(FusedTrainer(workload, threads=1), stop)
        self._out = (folder.root / "stdout.log").open("w")
        self._reporter = Reporter(
            folder,
            "starter-ppo",
            iterations=shape.iterations,
            tensorboard=folder.tensorboard,
            progress=PROGRAM.progress,
            clock=clock,
            out=self._out,
        )
        self._runner = Runner(self._trainer, shape, folder=folder, reporter=self._reporter, clock=clock, stop=stop)
        self._stop = stop

    @property
    def steps(self) -> int:
        return self._runner.progress.env_steps

    def until(self, recent: int, success: float, most: int) -> bool:
        """Run until so many of the recent episodes succeeded, at most so many steps; whether they did."""
        episodes, reached = 0.0, False

        def over(metrics: Metrics) -> bool:
            nonlocal episodes, reached
            episodes += metrics["episodes"]
            reached = episodes >= recent and metrics["recentSuccess"] >= success
            return reached or self.steps >= most

        self._run(over)
        return reached

    def for_steps(self, steps: int) -> bool:
        """Run so many steps more; True."""
        before = self.steps
        self._run(lambda _: self.steps - before >= steps)
        return True

    def _run(self, over: Callable[[Metrics], bool]) -> None:
        self._trainer.over, self._stop.requested = over, False
        try:
            self._runner.run(fused=True)
        except Stopped:
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reporter.close()
        self._out.close()
        self._folder.cleanup()
