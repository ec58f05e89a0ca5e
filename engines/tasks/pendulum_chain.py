"""A chain of inverted pendulums, one joint for each action: N chains in step.

Each joint is unstable by itself, is driven by its own action and feels its two neighbours; beyond
both ends of the chain stands a joint at 0. `Chains` moves them and says what happened; the
environment that training steps is `PendulumChain`, the evaluation is in `pendulum_evaluate`.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from engines.tasks.differential_drive import wrap
from rlark.runtime.component import FloatArray, Metrics, State, Step
from rlark.spec.pendulum_pack import Chain, ChainReward, PendulumPack

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
RECENT_EPISODES = 200
"""How many finished episodes "recent success" looks back on, over all ranks."""


def acceleration(chain: Chain, angle: Floats, speed: Floats, torque: Floats) -> Floats:
    """rad/s^2 of every joint; all arrays [A, N], joints of one chain in one column.

    Args:
        chain: the dynamics.
        angle: rad from upright.
        speed: rad/s.
        torque: of the actions.
    """
    bend = 2.0 * angle
    bend[1:] -= angle[:-1]
    bend[:-1] -= angle[1:]
    total = chain.gravity * np.sin(angle)
    total -= chain.coupling * bend
    total -= chain.damping * speed
    total += torque
    total /= chain.inertia
    return total


def reward(weights: ChainReward, angle: Floats, speed: Floats, action: Floats, reach: float) -> Floats:
    """The reward [N] of one control step, without what a fall costs.

    Args:
        weights: of the terms.
        angle: [A, N] rad after the step.
        speed: [A, N] rad/s after the step.
        action: [A, N] as the joints took it, in [-1, 1].
        reach: rad that count as an angle of 1.
    """
    pay: Floats = (
        weights.alive
        + weights.angle * np.square(angle / reach).mean(axis=0)
        + weights.speed * np.square(speed).mean(axis=0)
        + weights.effort * np.square(action).mean(axis=0)
    )
    return pay


class Outcome(NamedTuple):
    """What one control step brought to N chains.

    Attributes:
        reward: [N].
        fallen: [N] bool, a joint is beyond the fall angle.
        observation: [N, O] float32, after this step.
    """

    reward: Floats
    fallen: Flags
    observation: FloatArray


class Chains:
    """N chains.

    Attributes:
        angle: [A, N] rad from upright, in [-pi, pi).
        speed: [A, N] rad/s.
    """

    def __init__(self, pack: PendulumPack, size: int) -> None:
        """N chains that stand upright."""
        self._pack = pack
        self.angle: Floats = np.zeros((pack.action_size, size))
        self.speed: Floats = np.zeros((pack.action_size, size))
        room = pack.observation_size - 3 * pack.action_size
        self._command = np.zeros(room, np.float32)
        self._command[: min(room, len(pack.command))] = pack.command[:room]

    def begin(self, chains: NDArray[np.intp], normal: Floats, factor: float = 1.0) -> None:
        """Start some chains anew.

        Args:
            chains: [k] which.
            normal: [2, A, k] standard normal numbers, for the angles and for the speeds.
            factor: on the deviation of both.
        """
        start = self._pack.start
        self.angle[:, chains] = wrap(factor * start.angle_std * normal[0])
        self.speed[:, chains] = factor * start.speed_std * normal[1]

    def advance(self, action: FloatArray) -> Outcome:
        """One control step of all chains with actions [N, A], clamped to [-1, 1] here: explicit Euler."""
        pack, dt = self._pack, self._pack.physics_timestep_seconds
        taken = np.minimum(np.maximum(action.T.astype(np.float64), -1.0), 1.0)
        torque = pack.chain.torque * taken
        for _ in range(pack.decimation):
            change = acceleration(pack.chain, self.angle, self.speed, torque)
            self.angle = wrap(self.angle + dt * self.speed)
            self.speed = self.speed + dt * change
        reach = pack.termination.fall_angle
        fallen: Flags = np.logical_or.reduce(np.abs(self.angle) > reach)
        pay = reward(pack.reward, self.angle, self.speed, taken, reach) + pack.reward.fall * fallen
        return Outcome(pay, fallen, self.observe())

    def observe(self) -> FloatArray:
        """Cosines, sines and speeds of all joints and then the command: [N, O] float32, new at every call."""
        joints = self._pack.action_size
        seen = np.empty((self.angle.shape[1], self._pack.observation_size), np.float32)
        seen[:, :joints] = np.cos(self.angle).T
        seen[:, joints : 2 * joints] = np.sin(self.angle).T
        seen[:, 2 * joints : 3 * joints] = self.speed.T
        seen[:, 3 * joints :] = self._command
        return seen


class _Tally:
    """Counts what finished, for the metrics."""

    def __init__(self, recent: int) -> None:
        self.recent: deque[bool] = deque(maxlen=recent)
        self._clear()

    def _clear(self) -> None:
        self._steps, self._reward = 0, 0.0
        self._episodes, self._falls, self._length, self._return = 0, 0, 0.0, 0.0

    def add(self, reward: Floats) -> None:
        self._steps += len(reward)
        self._reward += float(reward.sum())

    def finish(self, fallen: Flags, length: Floats, total: Floats) -> None:
        self._episodes += len(fallen)
        self._falls += int(np.count_nonzero(fallen))
        self._length += float(length.sum())
        self._return += float(total.sum())
        self.recent.extend((~fallen).tolist())

    def metrics(self) -> Metrics:
        done, nan = self._episodes, float("nan")
        found = {
            "meanReward": self._reward / self._steps if self._steps else nan,
            "recentSuccess": sum(self.recent) / len(self.recent) if self.recent else 0.0,
            "episodes": float(done),
            "successRate": 1.0 - self._falls / done if done else nan,
            "fallRate": self._falls / done if done else nan,
            "meanEpisodeLength": self._length / done if done else nan,
            "meanReturn": self._return / done if done else nan,
        }
        self._clear()
        return found


class PendulumChain:
    """N chains that start a new episode whenever one ends (`rlark.runtime.component.Env`).

    An episode ends by itself when a joint falls, and is cut off after a number of control steps
    that is drawn for it; that one counts as a success.
    """

    def __init__(self, pack: PendulumPack, num_envs: int, seed: np.random.SeedSequence, *, ranks: int = 1) -> None:
        """Prepare; `reset` starts.

        Args:
            pack: the task.
            num_envs: N of this rank.
            seed: the rank's own stream.
            ranks: how many ranks share the run's environments.
        """
        self._pack, self._size = pack, num_envs
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self._chains = Chains(pack, num_envs)
        self._tally = _Tally(max(1, RECENT_EPISODES // ranks))
        self._steps, self._limit, self._total = (np.zeros(num_envs) for _ in range(3))

    def _begin(self, chains: NDArray[np.intp]) -> None:
        pack, count = self._pack, len(chains)
        self._chains.begin(chains, self._rng.standard_normal((2, pack.action_size, count)))
        bounds = pack.termination
        self._limit[chains] = self._rng.integers(bounds.min_steps, bounds.max_steps, count, endpoint=True)
        self._steps[chains] = self._total[chains] = 0.0

    def reset(self) -> FloatArray:
        """Start every chain anew: the first observations [N, O]."""
        self._begin(np.arange(self._size))
        return self._chains.observe()

    def step(self, action: FloatArray) -> Step:
        """Advance every chain by one control step with actions [N, A]."""
        outcome = self._chains.advance(action)
        self._tally.add(outcome.reward)
        self._steps += 1.0
        self._total += outcome.reward
        fallen, seen = outcome.fallen, outcome.observation
        cut = (self._steps >= self._limit) & ~fallen
        pay = outcome.reward.astype(np.float32)
        ended = np.flatnonzero(fallen | cut)
        if not len(ended):
            return Step(seen, pay, fallen, cut, seen)
        self._tally.finish(fallen[ended], self._steps[ended], self._total[ended])
        self._begin(ended)
        return Step(self._chains.observe(), pay, fallen, cut, seen)

    def metrics(self) -> Metrics:
        """What finished since the last call; clears the counts."""
        return self._tally.metrics()

    def state(self) -> State:
        """Everything needed to continue exactly here."""
        return {
            "rng": self._rng.bit_generator.state,
            "angle": self._chains.angle.copy(),
            "speed": self._chains.speed.copy(),
            "episode": np.stack((self._steps, self._limit, self._total)),
            "recent": list(self._tally.recent),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from there."""
        self._rng.bit_generator.state = state["rng"]
        self._chains.angle[:], self._chains.speed[:] = state["angle"], state["speed"]
        self._steps[:], self._limit[:], self._total[:] = state["episode"]
        self._tally.recent.clear()
        self._tally.recent.extend(state["recent"])
