"""The loop: iterate, report, checkpoint, and stop when asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rlark.folder import JobFolder
from rlark.host.clock import Clock
from rlark.runtime import checkpoint
from rlark.runtime.checkpoint import UNKNOWN, Origin
from rlark.runtime.component import Metrics, Run, Shape
from rlark.runtime.report import Reporter
from rlark.runtime.stop import Stop, Stopped
from rlark.runtime.trainer import Trainer
from rlark.spec.checkpoint import iteration_of

CHECKPOINTS = 8
"""How many checkpoints a run writes unless its configuration says otherwise."""


@dataclass
class Progress:
    """How far training is.

    Attributes:
        iteration: iterations done.
        env_steps: control steps taken over all environments.
        seconds: wall time of all iterations.
        history: the metrics of every iteration, in order.
        saved: checkpoints that were due and written.
    """

    iteration: int = 0
    env_steps: int = 0
    seconds: float = 0.0
    history: list[Metrics] = field(default_factory=list)
    saved: int = 0


def metrics_of(path: Path) -> Path:
    """The metrics of the run that a checkpoint (or a folder of them) is of."""
    checkpoints = path if iteration_of(path) is None else path.parent
    return JobFolder(checkpoints.parent).metrics


class Runner:
    """Repeats a trainer's iteration until the run is over."""

    def __init__(
        self,
        trainer: Trainer,
        shape: Shape,
        *,
        folder: JobFolder,
        reporter: Reporter,
        clock: Clock,
        stop: Stop,
        origin: Origin = UNKNOWN,
    ) -> None:
        """Take what is run.

        Args:
            trainer: does one iteration.
            shape: says how many, and how often a checkpoint is due.
            folder: where checkpoints go.
            reporter: is told of each iteration.
            clock: measures the training.
            stop: says when somebody asked to stop.
            origin: what its checkpoints are of.
        """
        self._trainer = trainer
        self._shape = shape
        self._folder = folder
        self._reporter = reporter
        self._clock = clock
        self._stop = stop
        self._origin = origin
        self._interval = shape.save_interval or max(1, shape.iterations // CHECKPOINTS)
        self._keep = shape.keep_checkpoints or checkpoint.KEEP
        self.progress = Progress()

    def resume(self, path: Path) -> None:
        """Continue from a checkpoint folder.

        Raises:
            ValueError: it is none, was changed, or is of another engine, task or shape.
        """
        state, progress = checkpoint.load(path, self._origin)
        self._trainer.restore(state)
        checkpoint.adopt(path, self._folder.checkpoints, keep=self._keep)
        self.progress = Progress(**progress)
        self._reporter.earlier(metrics_of(path), self.progress.iteration)

    def begin_anew(self) -> None:
        """Forget what an attempt before told: none of its checkpoints can be continued from."""
        self._reporter.earlier(self._folder.metrics, 0)

    def run(self, *, fused: bool) -> Run:
        """Train to the end.

        Args:
            fused: True when one process runs all components; handed on to export.

        Raises:
            Stopped: somebody asked to stop; a checkpoint was written first.
        """
        with self._stop.deferred():
            while self.progress.iteration < self._shape.iterations:
                self._iterate()
            actor = self._trainer.state()["actor"][0]
        progress = self.progress
        return Run(
            folder=self._folder,
            history=progress.history,
            checkpoints=checkpoint.due(self._folder.checkpoints),
            saved_checkpoints=progress.saved,
            actor=actor,
            training_seconds=progress.seconds,
            env_steps=progress.env_steps,
            device=self._trainer.device(),
            fused=fused,
        )

    def _iterate(self) -> None:
        shape, progress = self._shape, self.progress
        began = self._clock.monotonic()
        metrics = self._trainer.iterate()
        progress.seconds += self._clock.monotonic() - began
        progress.iteration += 1
        progress.env_steps += shape.steps * shape.num_envs
        progress.history.append(metrics)
        self._reporter.iteration(progress.iteration, metrics, progress.env_steps, progress.seconds)
        stopping = self._stop.requested
        due = progress.iteration == shape.iterations or progress.iteration % self._interval == 0
        if due or stopping:
            self._save(due=due)
        if stopping:
            raise Stopped

    def _save(self, *, due: bool) -> None:
        progress = self.progress
        progress.saved += due
        root, state = self._folder.checkpoints, self._trainer.state()
        checkpoint.save(
            root, progress.iteration, state, dict(vars(progress)), due=due, keep=self._keep, origin=self._origin
        )
