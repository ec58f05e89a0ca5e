"""How well a policy does: deterministic episodes, each from a seed of its own.

Episode i draws everything from `eval_seed * 7919 + i`, so its course does not depend on how many
run side by side, and every policy is measured on the same episodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engines.tasks.episode import Floats, Start
from engines.tasks.goal_navigation import Flags, World
from engines.tasks.observe import LAYOUTS
from engines.tasks.randomise import fixed
from rlark.evidence.intervals import wilson
from rlark.runtime.component import FloatArray
from rlark.spec.dynamics import Envelope
from rlark.spec.task_pack import TaskPack

PolicyFunction = Callable[[FloatArray], FloatArray]
"""Observations [B, O] to actions [B, A], deterministic."""
SEED_STRIDE = 7919


class Row(NamedTuple):
    """One control step of one episode, for telemetry."""

    t: float
    observation: list[float]
    action: list[float]
    reward: float
    done: bool
    fall: bool


@dataclass
class Measured:
    """What E episodes under one envelope showed; arrays are [E].

    Attributes:
        success: reached the goal.
        collision: ran into an obstacle.
        distance: m to the goal at the end.
        length: control steps.
        reward: sum of rewards.
        change: sum of squared differences of successive actions.
        telemetry: every step of episode 0.
    """

    success: Flags
    collision: Flags
    distance: Floats
    length: Floats
    reward: Floats
    change: Floats
    telemetry: list[Row] = field(default_factory=list)

    @property
    def episodes(self) -> int:
        """E."""
        return len(self.success)

    @property
    def harm(self) -> int:
        """Collisions: what counts against a policy where successes are equal."""
        return int(self.collision.sum())

    def report(self, confidence: float) -> dict[str, Any]:
        """The figures of one envelope, under their names in `eval-report.json`.

        `meanReward` is per control step, `meanReturn` per episode.
        """
        successes, collisions = int(self.success.sum()), int(self.collision.sum())
        return {
            "episodes": self.episodes,
            **_rate("successRate", successes, self.episodes, confidence),
            **_rate("collisionRate", collisions, self.episodes, confidence),
            "meanFinalDistance": _rounded(self.distance.mean()),
            "meanEpisodeLength": _rounded(self.length.mean()),
            "meanReward": _rounded(self.reward.sum() / self.length.sum()),
            "meanReturn": _rounded(self.reward.mean()),
            "actionChangeRms": _rounded(np.sqrt(self.change.sum() / max(1.0, 2.0 * (self.length - 1.0).sum()))),
        }


def _rate(name: str, count: int, episodes: int, confidence: float) -> dict[str, float | None]:
    interval = wilson(count, episodes, confidence)
    low, high = interval or (None, None)
    return {name: count / episodes, f"{name}CiLow": low, f"{name}CiHigh": high}


def _rounded(value: float) -> float:
    return round(float(value), 6)


class _Streams:
    """Random numbers of E episodes, each from its own seed and all drawn at the start."""

    def __init__(self, world: World, start: Start, seeds: list[int], steps: int) -> None:
        generators = [np.random.Generator(np.random.PCG64(seed)) for seed in seeds]
        self.uniform: Floats = np.stack([rng.random(start.uniforms) for rng in generators], axis=1)
        normal = [rng.standard_normal((steps + 1, world.normals)) for rng in generators]
        self.normal: Floats = np.stack(normal, axis=2)
        lost = [rng.random(steps) for rng in generators] if world.drops_frames else None
        self.lost: Floats | None = None if lost is None else np.stack(lost, axis=1)


def measure(
    policy: PolicyFunction, pack: TaskPack, envelope: Envelope, episodes: int, eval_seed: int, *, record: bool = False
) -> Measured:
    """Run deterministic episodes under one envelope, all side by side.

    Goals are always drawn from the curriculum's initial range.

    Args:
        policy: observations [B, O] to actions [B, A].
        pack: the task.
        envelope: the dynamics, the same in every episode.
        episodes: how many.
        eval_seed: episode i is drawn from `eval_seed * 7919 + i`.
        record: keep the telemetry of episode 0.
    """
    ranges, steps = fixed(envelope), pack.termination.timeout_steps
    world = World(pack, ranges, episodes)
    start = Start(pack, ranges, LAYOUTS[pack.observation_adapter_id], world.formula)
    streams = _Streams(world, start, [eval_seed * SEED_STRIDE + i for i in range(episodes)], steps)
    first, frames = start.make(streams.uniform, streams.normal[0], pack.curriculum.initial_goal_distance)
    world.begin(np.arange(episodes), first.table, frames)
    run = _Run(world, Measured(*_blank(episodes)), pack, record)
    for step in range(steps):
        lost = None if streams.lost is None else streams.lost[step]
        if not run.step(policy, streams.normal[step + 1], lost):
            break
    return run.measured


def _blank(episodes: int) -> tuple[Flags, Flags, Floats, Floats, Floats, Floats]:
    flags = (np.zeros(episodes, np.bool_), np.zeros(episodes, np.bool_))
    return *flags, np.zeros(episodes), np.zeros(episodes), np.zeros(episodes), np.zeros(episodes)


class _Run:
    """Episodes on their way; one that has ended drives on unseen and counts no more."""

    def __init__(self, world: World, measured: Measured, pack: TaskPack, record: bool) -> None:
        self.world, self.measured, self._pack, self._record = world, measured, pack, record
        self._running: NDArray[np.bool_] = np.ones(world.size, np.bool_)
        self._last: FloatArray | None = None

    def step(self, policy: PolicyFunction, normal: Floats, lost: Floats | None) -> bool:
        """One control step; False when every episode has ended."""
        measured, running, seen = self.measured, self._running, self.world.observation
        action = np.clip(policy(seen), -1.0, 1.0)
        outcome = self.world.advance(action, normal, lost)
        ended = running & (outcome.terminated | outcome.timeout)
        measured.length += running
        measured.reward += np.where(running, outcome.reward, 0.0)
        if self._last is not None:
            measured.change += np.where(running, np.square(action - self._last).sum(axis=1), 0.0)
        self._last = action
        measured.success |= ended & outcome.success
        measured.collision |= ended & outcome.collision
        measured.distance[ended] = self.world.episodes.distance[ended]
        if self._record and running[0]:
            self._tell(seen, action, outcome.reward, bool(ended[0]), bool(ended[0] and outcome.collision[0]))
        self._running = running & ~ended
        return bool(self._running.any())

    def _tell(self, seen: FloatArray, action: FloatArray, reward: Floats, done: bool, fall: bool) -> None:
        t = round(len(self.measured.telemetry) * self._pack.drive.dt, 9)
        observation = [float(value) for value in seen[0]]
        row = Row(t, observation, [float(value) for value in action[0]], float(reward[0]), done, fall)
        self.measured.telemetry.append(row)
