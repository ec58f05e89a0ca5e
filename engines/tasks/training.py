"""The environment that training steps: episodes follow each other without end."""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engines.tasks.curriculum import Curriculum
from engines.tasks.episode import Floats, Start
from engines.tasks.goal_navigation import Flags, Outcome, World
from engines.tasks.observe import LAYOUTS
from engines.tasks.randomise import Ranges, training_ranges
from rlark.runtime.component import FloatArray, Metrics, State, Step
from rlark.spec.task_pack import TaskPack

NOISE_STEPS = 64
"""Control steps whose noise is drawn in one go."""
RECENT_EPISODES = 200
"""How many finished episodes "recent success" looks back on, over all ranks."""


class Noise:
    """Random numbers of the control steps, drawn in blocks from one stream."""

    def __init__(self, world: World, rng: np.random.Generator) -> None:
        """Draw for a world from `rng`."""
        self._world, self._rng = world, rng
        self._draw()

    def _draw(self) -> None:
        world = self._world
        self._before = self._rng.bit_generator.state
        self._normal: Floats = self._rng.standard_normal((NOISE_STEPS, world.normals, world.size))
        self._uniform = self._rng.random((NOISE_STEPS, world.size)) if world.drops_frames else None
        self._used = 0

    def next(self) -> tuple[Floats, Floats | None]:
        """The numbers of the next control step: normal [normals, N], and uniform [N] where frames can be lost."""
        if self._used == NOISE_STEPS:
            self._draw()
        step, self._used = self._used, self._used + 1
        return self._normal[step], None if self._uniform is None else self._uniform[step]

    def state(self) -> State:
        """Where the stream stands."""
        return {"before": self._before, "used": self._used}

    def restore(self, state: State) -> None:
        """Continue from there."""
        self._rng.bit_generator.state = state["before"]
        self._draw()
        self._used = int(state["used"])


class Deck:
    """Beginnings of episodes, made many at a time from one stream and handed out one by one."""

    def __init__(self, start: Start, rng: np.random.Generator, size: int) -> None:
        """Make `size` at a time."""
        self._start, self._rng, self._size = start, rng, size
        self._goal_distance = (0.0, 0.0)
        self._used = size

    def take(self, count: int, goal_distance: tuple[float, float]) -> tuple[Floats, Floats]:
        """Columns [rows, count] and first frames [count, size] of new episodes.

        Those made for another range of goal distances are thrown away.
        """
        if goal_distance != self._goal_distance:
            self._make(goal_distance)
        columns, frames = [], []
        while count:
            if self._used == self._size:
                self._make(goal_distance)
            taken = slice(self._used, min(self._used + count, self._size))
            columns.append(self._columns[:, taken])
            frames.append(self._frames[taken])
            self._used = taken.stop
            count -= taken.stop - taken.start
        return (columns[0], frames[0]) if len(columns) == 1 else (np.concatenate(columns, 1), np.concatenate(frames))

    def _make(self, goal_distance: tuple[float, float]) -> None:
        self._before = self._rng.bit_generator.state
        self._goal_distance = goal_distance
        uniform = self._rng.random((self._start.uniforms, self._size))
        normal = self._rng.standard_normal((self._start.layout.normals, self._size))
        episodes, self._frames = self._start.make(uniform, normal, goal_distance)
        self._columns = episodes.table
        self._used = 0

    def state(self) -> State:
        """Where the stream stands."""
        return {"before": self._before, "used": self._used, "goal_distance": self._goal_distance}

    def restore(self, state: State) -> None:
        """Continue from there."""
        self._rng.bit_generator.state = state["before"]
        self._make(tuple(state["goal_distance"]))
        self._used = int(state["used"])


class Tally:
    """Counts what finished, for the metrics."""

    def __init__(self, recent: int) -> None:
        """Look back on `recent` finished episodes."""
        self._recent: deque[bool] = deque(maxlen=recent)
        self._clear()

    def _clear(self) -> None:
        self._steps, self._reward = 0, 0.0
        self._ended = {"episodes": 0, "success": 0, "collision": 0, "outOfBounds": 0, "timeout": 0}
        self._length, self._return = 0.0, 0.0

    def add(self, outcome: Outcome) -> None:
        """Count one control step of N robots."""
        self._steps += len(outcome.reward)
        self._reward += float(np.add.reduce(outcome.reward))

    def finish(self, outcome: Outcome, robots: NDArray[np.intp], steps: Floats, total: Floats) -> None:
        """Count the episodes of `robots` that ended in this step."""
        ended = self._ended
        ended["episodes"] += len(robots)
        ended["success"] += int(np.count_nonzero(outcome.success[robots]))
        ended["collision"] += int(np.count_nonzero(outcome.collision[robots]))
        ended["outOfBounds"] += int(np.count_nonzero(outcome.out_of_bounds[robots]))
        ended["timeout"] += int(np.count_nonzero(outcome.timeout[robots]))
        self._length += float(steps[robots].sum())
        self._return += float(total[robots].sum())
        self._recent.extend(outcome.success[robots].tolist())

    def metrics(self) -> Metrics:
        """What was counted since the last call; NaN where nothing finished."""
        done, nan = self._ended["episodes"], float("nan")
        share = {name: count / done if done else nan for name, count in self._ended.items() if name != "episodes"}
        found = {
            "meanReward": self._reward / self._steps if self._steps else nan,
            "recentSuccess": sum(self._recent) / len(self._recent) if self._recent else 0.0,
            "episodes": float(done),
            "successRate": share["success"],
            "collisionRate": share["collision"],
            "outOfBoundsRate": share["outOfBounds"],
            "timeoutRate": share["timeout"],
            "meanEpisodeLength": self._length / done if done else nan,
            "meanReturn": self._return / done if done else nan,
        }
        self._clear()
        return found

    @property
    def recent(self) -> list[bool]:
        """The outcomes that `recentSuccess` looks back on, oldest first."""
        return list(self._recent)

    @recent.setter
    def recent(self, outcomes: list[bool]) -> None:
        self._recent.clear()
        self._recent.extend(outcomes)


class GoalNavigation:
    """N robots that start a new, freshly drawn episode whenever one ends (`rlark.runtime.component.Env`)."""

    def __init__(
        self,
        pack: TaskPack,
        num_envs: int,
        seed: np.random.SeedSequence,
        *,
        ranges: Ranges | None = None,
        ranks: int = 1,
        rollout_steps: int | None = None,
    ) -> None:
        """Prepare; `reset` starts.

        Args:
            pack: the task.
            num_envs: N of this rank.
            seed: the rank's own stream.
            ranges: the dynamics to draw from; those of training by default.
            ranks: how many ranks share the run's environments.
            rollout_steps: control steps of one training iteration; None where nobody counts iterations.

        Raises:
            ValueError: the task cannot be set up.
        """
        ranges = ranges or training_ranges(pack.domain_randomization)
        episodes, noise = (np.random.Generator(np.random.PCG64(child)) for child in seed.spawn(2))
        self._world = World(pack, ranges, num_envs)
        self._counts = self._world.formula.scheduled
        if self._counts and rollout_steps is None:
            raise ValueError("a term of the reward is introduced after an iteration, and nobody counts iterations here")
        self._rollout_steps, self._steps = rollout_steps or 1, 0
        start = Start(pack, ranges, LAYOUTS[pack.observation_adapter_id], self._world.formula)
        self._deck = Deck(start, episodes, max(256, 4 * num_envs))
        self._noise = Noise(self._world, noise)
        self._curriculum = Curriculum(pack.curriculum)
        self._tally = Tally(max(1, RECENT_EPISODES // ranks))
        self._timeout = pack.termination.timeout_steps
        self._none: Flags = np.zeros(num_envs, np.bool_)

    @property
    def goal_range(self) -> tuple[float, float]:
        """The range goals are drawn from now, m."""
        return self._curriculum.low, self._curriculum.high

    @property
    def iteration(self) -> int:
        """Training iterations that are done, as the control steps tell."""
        return self._steps // self._rollout_steps

    def reset(self) -> FloatArray:
        """Start every robot anew: the first observations [N, O].

        The first episodes are cut off at different times, so that robots that time out do not
        all start over in the same step for ever.
        """
        world = self._world
        self._begin(np.arange(world.size))
        world.episodes.steps[:] = np.arange(world.size) * self._timeout // world.size
        return world.observation.copy()

    def _begin(self, robots: NDArray[np.intp]) -> None:
        self._world.begin(robots, *self._deck.take(len(robots), self.goal_range))

    def step(self, action: FloatArray) -> Step:
        """Advance every robot by one control step with actions [N, 2]."""
        world = self._world
        outcome = world.advance(action, *self._noise.next(), self.iteration if self._counts else math.inf)
        self._steps += 1
        self._tally.add(outcome)
        terminated = outcome.terminated
        robots = np.flatnonzero(terminated | outcome.timeout)
        reward = outcome.reward.astype(np.float32)
        if not len(robots):
            return Step(outcome.observation, reward, terminated, self._none, outcome.observation)
        final = outcome.observation.copy()
        self._tally.finish(outcome, robots, world.episodes.steps, world.episodes.total)
        self._curriculum.record(outcome.success[robots])
        self._begin(robots)
        return Step(world.observation, reward, terminated, outcome.timeout, final)

    def metrics(self) -> Metrics:
        """What finished since the last call, and the range of goals; clears the counts."""
        low, high = self.goal_range
        return {**self._tally.metrics(), "goalRangeLow": low, "goalRangeHigh": high}

    def state(self) -> State:
        """Everything needed to continue exactly here."""
        return {
            "table": self._world.episodes.table.copy(),
            "observation": self._world.observation.copy(),
            "noise": self._noise.state(),
            "deck": self._deck.state(),
            "curriculum": self._curriculum.state(),
            "recent": self._tally.recent,
            "steps": self._steps,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from there."""
        self._world.episodes.table[:] = state["table"]
        self._world.observation = state["observation"].copy()
        self._noise.restore(state["noise"])
        self._deck.restore(state["deck"])
        self._curriculum.restore(state["curriculum"])
        self._tally.recent = state["recent"]
        self._steps = int(state["steps"])
