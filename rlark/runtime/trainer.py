"""One iteration: a rollout and an update. The fused case, where one process runs all components."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from rlark.plan.plan import Plan
from rlark.runtime.component import ALONE, Context, DeviceUse, Metrics, Program, Shape, State, Team
from rlark.runtime.offload import Presence, offloaded
from rlark.runtime.trajectory import TrajectoryBuffer, bootstrap_of

if TYPE_CHECKING:
    from rlark.runtime.cluster import Cluster

EPISODES = "episodes"


class Trainer(Protocol):
    """What the runner repeats; fused, placed or the engine's own."""

    def iterate(self) -> Metrics:
        """One rollout and one update."""
        ...

    def state(self) -> State:
        """Everything needed to continue: `{"actor": [state], "rollout": [...], "env": [...], "observation": [N, O]}`.

        One state for each Rollout rank and for each Env (of each stage of each Env rank); that of Actor rank 0
        stands for all Actor ranks, which hold the same.
        """
        ...

    def restore(self, state: State) -> None:
        """Continue from there.

        Raises:
            ValueError: the state is of another number of ranks or environments.
        """
        ...

    def device(self) -> DeviceUse:
        """What Actor rank 0 computes on."""
        ...

    def close(self) -> None:
        """Let everything go; `iterate` is not called again. Closing twice is harmless."""
        ...


@dataclass(frozen=True)
class Workload:
    """What is trained: a program with its configuration, and what every component is told.

    Attributes:
        program: the engine's.
        config: what `program.config` made of the effective configuration.
        shape: the sizes of the run.
        seed: the run's seed.
        device: what the configuration asks for.
        stages: `rollout.pipeline_stage_num`: the parts in which placed environments and policy take turns.
        offloaded: the components that leave their device between their phases.
    """

    program: Program[Any]
    config: Any
    shape: Shape
    seed: int
    device: str
    stages: int = 1
    offloaded: frozenset[str] = frozenset()

    @classmethod
    def of(cls, program: Program[Any], plan: Plan) -> Workload:
        """Read a plan's configuration.

        Raises:
            ValueError: the engine does not accept it.
        """
        config = program.config(plan.config, plan.config_base)
        return cls(
            program=program,
            config=config,
            shape=program.shape(config),
            seed=_seed(plan.config, config),
            device=str(_section(plan.config, "runner").get("device") or "auto"),
            stages=plan.stages,
            offloaded=offloaded(plan.config),
        )

    def presence(self, name: str, component: object) -> Presence:
        """Whether a component is on its device.

        Raises:
            ValueError: it is to be offloaded, and cannot be.
        """
        return Presence(name, component, offloaded=name in self.offloaded)

    def context(
        self, component: str, rank: int = 0, world_size: int = 1, threads: int = 1, team: Team = ALONE
    ) -> Context:
        """Who a component is.

        Args:
            component: `actor`, `rollout` or `env`.
            rank: as in `Context.rank`.
            world_size: as in `Context.world_size`.
            threads: how many may compute.
            team: the Actor ranks that learn together.
        """
        blocks = world_size * self.stages if component == "rollout" else world_size
        return Context(
            component=component,
            rank=rank,
            world_size=world_size,
            num_envs=self.shape.num_envs // blocks,
            seed=self.seed,
            device=self.device,
            threads=threads,
            log=logging.getLogger(f"{component}-{rank}"),
            team=team,
        )


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = config.get(name)
    return section if isinstance(section, Mapping) else {}


def _seed(raw: Mapping[str, Any], config: object) -> int:
    """`algorithm.seed`, else what the engine's own configuration calls its seed, else 0."""
    value = _section(raw, "algorithm").get("seed")
    if value is None:
        value = getattr(config, "seed", 0)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"algorithm.seed is {value!r}; it must be an integer")
    return value


class FusedTrainer:
    """Actor, Rollout and Env in this process, without any exchange."""

    def __init__(self, workload: Workload, threads: int) -> None:
        """Make the three components, Actor first, and start every environment.

        Args:
            workload: what is trained.
            threads: how many threads may compute here.
        """
        program, config, shape = workload.program, workload.config, workload.shape
        self._actor = program.actor(config, workload.context("actor", threads=threads))
        self._learns = workload.presence("actor", self._actor)
        weights = self._actor.weights()
        self._learns.leave()
        self._rollout = program.rollout(config, workload.context("rollout", threads=threads))
        self._decides = workload.presence("rollout", self._rollout)
        self._env = program.env(config, workload.context("env", threads=threads))
        self._moves = workload.presence("env", self._env)
        self._steps = shape.steps
        self._buffer = TrajectoryBuffer(shape.steps, shape.num_envs, shape.observation_size, shape.action_size)
        self._rollout.load(weights)
        self._observation = self._env.reset()

    def iterate(self) -> Metrics:
        """One rollout and one update."""
        rollout, observation = self._rollout, self._observation
        self._decides.come()
        self._moves.come()
        env_step, act = self._env.step, rollout.act
        observe, decide, outcome = self._buffer.observe, self._buffer.decide, self._buffer.outcome
        for _ in range(self._steps):
            step = env_step(decide(act(observe(observation))))
            outcome(step, bootstrap_of(rollout, step))
            observation = step.observation
        self._observation = observation
        trajectory = self._buffer.finish(rollout.value(np.asarray(observation, np.float32)))
        metrics = self._env.metrics()
        self._moves.leave()
        self._decides.leave()
        self._learns.come()
        metrics |= self._actor.update(trajectory)
        weights = self._actor.weights()
        self._learns.leave()
        self._decides.come()
        rollout.load(weights)
        for presence in (self._learns, self._decides, self._moves):
            metrics |= presence.metrics()
        return metrics

    def state(self) -> State:
        """Everything needed to continue."""
        with self._learns.present(), self._decides.present(), self._moves.present():
            return {
                "actor": [self._actor.state()],
                "rollout": [self._rollout.state()],
                "env": [self._env.state()],
                "observation": np.array(self._observation, np.float32),
            }

    def restore(self, state: State) -> None:
        """Continue from there."""
        require_same_ranks(state, {"actor": 1, "rollout": 1, "env": 1})
        require_same_size(state, self._observation.shape)
        with self._learns.present(), self._decides.present(), self._moves.present():
            self._actor.restore(state["actor"][0])
            self._rollout.restore(state["rollout"][0])
            self._env.restore(state["env"][0])
            self._rollout.load(self._actor.weights())
        self._observation = np.array(state["observation"], np.float32)

    def device(self) -> DeviceUse:
        """What the Actor computes on."""
        return self._actor.device()

    def close(self) -> None:
        """Nothing of ours outlives the process."""


class TrainsItself(Protocol):
    """A program that has a trainer of its own for the fused case, beside its components."""

    def trainer(self, config: Any, contexts: Mapping[str, Context]) -> Trainer | None:
        """It, for what is configured; None for `FusedTrainer`.

        Args:
            config: what `Program.config` made.
            contexts: component -> who it is.
        """
        ...


class PlacesItself(Protocol):
    """A program that launches groups of its own workers where its components are placed apart.

    Its engine says so by `Engine.places_itself`.
    """

    def place(self, config: Any, cluster: Cluster) -> Trainer:
        """What trains, with all its groups launched.

        Args:
            config: what `Program.config` made.
            cluster: `cluster.ranks` says what is placed; `Worker.create_group(...).launch(cluster, name=...)`.
        """
        ...


def fused(workload: Workload, threads: int) -> Trainer:
    """What trains in this process: the engine's own trainer where it has one, else `FusedTrainer`.

    Args:
        workload: what is trained.
        threads: how many threads may compute here.
    """
    make = getattr(workload.program, TrainsItself.trainer.__name__, None)
    if make is not None:
        contexts = {name: workload.context(name, threads=threads) for name in ("actor", "rollout", "env")}
        own: Trainer | None = make(workload.config, contexts)
        if own is not None:
            return own
    return FusedTrainer(workload, threads)


def require_same_ranks(state: State, ranks: Mapping[str, int]) -> None:
    """Refuse a state that was saved with another number of ranks.

    Raises:
        ValueError: says which component.
    """
    for component, count in ranks.items():
        saved = len(state[component])
        if saved != count:
            what = "Envs (ranks times pipeline stages)" if component == "env" else f"{component} ranks"
            raise ValueError(f"the checkpoint was saved with {saved} {what}, this run has {count}")


def require_same_size(state: State, shape: tuple[int, ...]) -> None:
    """Refuse a state of other environments: `shape` is [N, O] of this run.

    Raises:
        ValueError: says both sizes.
    """
    saved = np.shape(state["observation"])
    if saved != tuple(shape):
        raise ValueError(f"the checkpoint holds observations of shape {list(saved)}, this run has {list(shape)}")


def averaged(ranks: Sequence[Metrics]) -> Metrics:
    """The metrics of several Env ranks as one: means weighted by `episodes` where it is given, `episodes` summed.

    A rank that did not measure a number (NaN) does not count for it.
    """
    if len(ranks) == 1:
        return dict(ranks[0])
    weights = [metrics.get(EPISODES, 1.0) for metrics in ranks]
    names = dict.fromkeys(name for metrics in ranks for name in metrics)
    merged = {name: _mean([(m.get(name, math.nan), w) for m, w in zip(ranks, weights, strict=True)]) for name in names}
    if EPISODES in merged:
        merged[EPISODES] = sum(metrics.get(EPISODES, 0.0) for metrics in ranks)
    return merged


def _mean(pairs: Sequence[tuple[float, float]]) -> float:
    measured = [(value, weight) for value, weight in pairs if not math.isnan(value)]
    if not measured:
        return math.nan
    total = sum(weight for _, weight in measured)
    if total == 0:  # nobody finished an episode: all count the same
        return sum(value for value, _ in measured) / len(measured)
    return sum(value * weight for value, weight in measured) / total
