"""The protocols an engine fills in: Env, Rollout, Actor, and the Program that makes them.

Arrays are numpy or know how to become numpy (`numpy.asarray`); the runtime never asks which
library made them. N is the number of environments of one rank, O the observation width, A the
action width, T the steps of a rollout.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from rlark.evidence.result import Result
from rlark.folder import JobFolder

if TYPE_CHECKING:
    from rlark.runtime.trajectory import Trajectory

Array = NDArray[Any]
FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]
Doubles = NDArray[np.float64]
Metrics = dict[str, float]
"""One number a name, names in camelCase; NaN means "not measured" and is written as null."""
State = dict[str, Any]
"""What a component needs to continue as if it had never stopped: arrays, numbers, strings, nested."""
Weights = Any
"""What an Actor publishes and a Rollout loads; pickles, and is a snapshot (never a live buffer)."""
C = TypeVar("C")


class Step(NamedTuple):
    """What one step of N environments gives.

    Attributes:
        observation: [N, O]; of a finished environment already the next episode's first.
        reward: [N].
        terminated: [N] bool, the episode ended by itself: its value after the end is zero.
        truncated: [N] bool, the episode was cut off: bootstrap from `final_observation`.
        final_observation: [N, O], before any reset; equals `observation` where nothing ended.
    """

    observation: FloatArray
    reward: FloatArray
    terminated: BoolArray
    truncated: BoolArray
    final_observation: FloatArray


class Decision(NamedTuple):
    """What the policy does about N observations.

    Attributes:
        action: [N, A], as sampled; the environment clamps it.
        log_prob: [N], of the action as sampled.
        value: [N], estimated return from here.
    """

    action: FloatArray
    log_prob: FloatArray
    value: FloatArray


class DeviceUse(NamedTuple):
    """Which device a component really computes on.

    Attributes:
        device: `cpu` or `cuda`.
        name: the product name.
        cuda_requested: True when `cuda` was asked for by name.
        reason: a sentence on why it is this device.
        tf32: True when products may be rounded to TF32.
        deterministic: True when only kernels that repeat to the bit are used, where there are any.
    """

    device: str
    name: str
    cuda_requested: bool
    reason: str = ""
    tf32: bool = False
    deterministic: bool = True


class Team(Protocol):
    """The Actor ranks that learn together, as one of them sees them.

    Every rank makes the same calls in the same order.

    Attributes:
        rank: its own number, from 0.
        size: how many there are.
    """

    rank: int
    size: int

    def mean_(self, tensor: Any) -> None:
        """Replace a torch tensor by its mean over all ranks: the same bytes on each."""
        ...

    def gather(self, numbers: Doubles) -> Doubles:
        """The numbers [k] of every rank: [size, k], the same bytes on each."""
        ...


class Alone:
    """The team of an Actor that has one rank."""

    rank, size = 0, 1

    def mean_(self, tensor: Any) -> None:
        """It is its own mean."""

    def gather(self, numbers: Doubles) -> Doubles:
        """Its own numbers: [1, k]."""
        return np.asarray(numbers, np.float64)[None]


ALONE: Team = Alone()


@dataclass(frozen=True)
class Context:
    """Who a component is.

    Attributes:
        component: `actor`, `rollout` or `env`.
        rank: from 0 within the component. An Env rank makes an Env for each of its stages, and each of those
            counts as a rank: that of stage s of rank r is r * stages + s of world_size * stages.
        world_size: how many ranks the component has, counted in the same way.
        num_envs: environments of one call: those of an Env, the rows of `Rollout.act`, the columns of an
            Actor's `Trajectory`.
        seed: the run's seed; derive streams as `numpy.random.SeedSequence([seed, component number, rank])`,
            so that fused and placed runs draw the same numbers.
        device: what the configuration asks for, `auto`, `cuda` or `cpu`. CUDA_VISIBLE_DEVICES is already
            narrowed to the rank's own GPUs, so the first visible one is the rank's.
        threads: how many threads may compute here.
        log: the rank's logger.
        team: the Actor ranks that learn together. All start from the same seed and average their gradients, so
            they hold the same weights; the state of rank 0 stands for all of them.
    """

    component: str
    rank: int
    world_size: int
    num_envs: int
    seed: int
    device: str
    threads: int
    log: logging.Logger
    team: Team = ALONE


class Env(Protocol):
    """N environments stepped together, resetting themselves when an episode ends."""

    def reset(self) -> FloatArray:
        """Start every environment anew: the first observations [N, O]."""
        ...

    def step(self, action: Array) -> Step:
        """Advance every environment by one control step.

        Args:
            action: [N, A], float32, valid during the call only: copy what is kept of it.

        Returns:
            What came of it; the next call may write over its arrays.
        """
        ...

    def metrics(self) -> Metrics:
        """What finished since the last call (mean reward, recent success, ...); clears the counts."""
        ...

    def state(self) -> State:
        """Everything needed to continue exactly here."""
        ...

    def restore(self, state: State) -> None:
        """Continue from there."""
        ...


class Rollout(Protocol):
    """The policy as it acts."""

    def act(self, observation: FloatArray) -> Decision:
        """Sample actions for observations [N, O]."""
        ...

    def value(self, observation: FloatArray) -> FloatArray:
        """Estimated returns [N] from observations [N, O]; for bootstrapping."""
        ...

    def load(self, weights: Weights) -> None:
        """Act with these weights from now on.

        Args:
            weights: what `Actor.weights` gave; not to be written, and its arrays are valid until the next `load`.
                A tensor on a GPU that both share is the Actor's own memory, to be copied during this call.
        """
        ...

    def state(self) -> State:
        """Everything needed to continue exactly here (its random stream; weights come from the Actor)."""
        ...

    def restore(self, state: State) -> None:
        """Continue from there."""
        ...


class Actor(Protocol):
    """The policy as it learns."""

    def update(self, trajectory: Trajectory) -> Metrics:
        """Learn from one rollout."""
        ...

    def device(self) -> DeviceUse:
        """What it really computes on."""
        ...

    def weights(self) -> Weights:
        """A snapshot for Rollouts, normaliser included."""
        ...

    def state(self) -> State:
        """Everything needed to continue exactly here: weights, optimiser, normaliser, random stream."""
        ...

    def restore(self, state: State) -> None:
        """Continue from there."""
        ...


@dataclass(frozen=True)
class Shape:
    """The sizes of a run, known before it starts.

    Attributes:
        iterations: how many times rollout and update are repeated.
        num_envs: environments over all Env ranks.
        steps: control steps of one rollout (T).
        observation_size: O.
        action_size: A.
        save_interval: iterations between checkpoints; 0 for the engine's default of iterations // 8.
        keep_checkpoints: how many of those that were due stay; 0 for the runtime's default of 4.
    """

    iterations: int
    num_envs: int
    steps: int
    observation_size: int
    action_size: int
    save_interval: int = 0
    keep_checkpoints: int = 0


@dataclass(frozen=True)
class Run:
    """What export may look at when training is over.

    Attributes:
        folder: the job folder; products go to `folder.artifacts`.
        history: the metrics of every iteration, in order.
        checkpoints: the newest `checkpoints/global_step_N/` folders that were due, oldest first; each holds
            `Actor.state()` of rank 0, read by `rlark.runtime.checkpoint.load_actor`.
        actor: `Actor.state()` of rank 0 at the end.
        training_seconds: wall time of all iterations.
        env_steps: control steps taken over all environments.
        device: what training really used.
        fused: True when one process ran all components.
        saved_checkpoints: how many checkpoints were due and written, those that were dropped later included.
    """

    folder: JobFolder
    history: list[Metrics]
    checkpoints: list[Any]
    actor: State
    training_seconds: float
    env_steps: int
    device: DeviceUse
    fused: bool
    saved_checkpoints: int = 0


class Program(Protocol[C]):
    """What an engine offers to the runtime; `Engine.program` names an instance of it."""

    def config(self, raw: Mapping[str, object], base: str) -> C:
        """The engine's own configuration from the effective one; relative paths start at `base`.

        Raises:
            ValueError: a key or value is wrong.
        """
        ...

    def shape(self, config: C) -> Shape:
        """The sizes of the run."""
        ...

    def env(self, config: C, context: Context) -> Env:
        """An Env of `context.num_envs` environments."""
        ...

    def rollout(self, config: C, context: Context) -> Rollout:
        """The Rollout of one rank."""
        ...

    def actor(self, config: C, context: Context) -> Actor:
        """The Actor of one rank."""
        ...

    def progress(self, metrics: Metrics) -> str:
        """The tail of a progress line after `iter i/N`: `meanReward=… recentSuccess=… goalRange=[a,b]`."""
        ...

    def export(self, config: C, run: Run) -> Result:
        """Choose a checkpoint, export it, evaluate it, write every product to `artifacts/`."""
        ...
