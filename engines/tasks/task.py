"""What an engine asks of a task, whatever its kind: environments, a measure, and a controller written by hand."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engines.tasks import evaluate, pendulum_evaluate
from engines.tasks.evaluate import PolicyFunction, Row
from engines.tasks.heading_controller import HeadingController
from engines.tasks.pendulum_chain import PendulumChain
from engines.tasks.training import GoalNavigation
from rlark.runtime.component import Env
from rlark.spec.packs import Pack
from rlark.spec.pendulum_pack import PendulumPack
from rlark.spec.task_pack import TaskPack

ENVELOPES = ("nominal", "hard")
"""What every task is measured under; the quality gate looks at the first."""


class Measured(Protocol):
    """What E episodes under one envelope showed."""

    telemetry: list[Row]

    @property
    def success(self) -> NDArray[np.bool_]:
        """[E]."""
        ...

    @property
    def harm(self) -> int:
        """What counts against a policy where successes are equal."""
        ...

    def report(self, confidence: float) -> dict[str, Any]:
        """The figures, under their names in `eval-report.json`."""
        ...


class Task(Protocol):
    """A task of some kind.

    Attributes:
        actions: what the numbers of an action are, for people.
        workload: the word for it in a result.
        control_hz: decisions per second.
        by_hand: name of the controller written by hand, in reports.
        harm: name of what `Measured.harm` counts, in reports.
    """

    actions: str
    workload: str
    control_hz: float
    by_hand: str
    harm: str

    def env(self, num_envs: int, seed: np.random.SeedSequence, *, ranks: int, rollout_steps: int) -> Env:
        """The environments of one of `ranks` ranks."""
        ...

    def measure(
        self, policy: PolicyFunction, envelope: str, episodes: int, seed: int, *, record: bool = False
    ) -> Measured:
        """Run deterministic episodes under one of `ENVELOPES`."""
        ...

    def controller(self) -> PolicyFunction:
        """The controller written by hand."""
        ...

    def curriculum(self) -> dict[str, list[float]] | None:
        """Where it starts and ends; None for a task that does not grow."""
        ...


class Navigation:
    """Goal navigation."""

    actions = "linear, angular"
    workload = "navigation"
    by_hand = "headingController"
    harm = "Collisions"

    def __init__(self, pack: TaskPack) -> None:
        """As the pack says."""
        self._pack = pack
        self.control_hz = pack.drive.control_hz

    def env(self, num_envs: int, seed: np.random.SeedSequence, *, ranks: int, rollout_steps: int) -> Env:
        """The environments of one of `ranks` ranks."""
        return GoalNavigation(self._pack, num_envs, seed, ranks=ranks, rollout_steps=rollout_steps)

    def measure(
        self, policy: PolicyFunction, envelope: str, episodes: int, seed: int, *, record: bool = False
    ) -> Measured:
        """Run deterministic episodes under one envelope."""
        under = getattr(self._pack.domain_randomization.eval_envelopes, envelope)
        return evaluate.measure(policy, self._pack, under, episodes, seed, record=record)

    def controller(self) -> PolicyFunction:
        """Drives straight to the goal."""
        return HeadingController(self._pack)

    def curriculum(self) -> dict[str, list[float]] | None:
        """The first and the last range of goal distances, m."""
        schedule = self._pack.curriculum
        return {"initial": list(schedule.initial_goal_distance), "final": list(schedule.final_goal_distance)}


class Balance:
    """A chain of pendulums."""

    actions = "a torque for each joint"
    workload = "locomotion"
    by_hand = "jointController"
    harm = "LostSteps"

    def __init__(self, pack: PendulumPack) -> None:
        """As the pack says."""
        self._pack = pack
        self.control_hz = pack.control_hz

    def env(self, num_envs: int, seed: np.random.SeedSequence, *, ranks: int, rollout_steps: int) -> Env:  # noqa: ARG002
        """The environments of one of `ranks` ranks."""
        return PendulumChain(self._pack, num_envs, seed, ranks=ranks)

    def measure(
        self, policy: PolicyFunction, envelope: str, episodes: int, seed: int, *, record: bool = False
    ) -> Measured:
        """Run deterministic episodes of full length."""
        factor = getattr(self._pack.eval_envelopes, envelope)
        return pendulum_evaluate.measure(policy, self._pack, factor, episodes, seed, record=record)

    def controller(self) -> PolicyFunction:
        """Pushes every joint back by its own angle and speed."""
        return pendulum_evaluate.JointController(self._pack)

    def curriculum(self) -> dict[str, list[float]] | None:
        """None: it does not grow."""
        return None


def task_of(pack: Pack) -> Task:
    """The task that a pack describes."""
    return Balance(pack) if isinstance(pack, PendulumPack) else Navigation(pack)
