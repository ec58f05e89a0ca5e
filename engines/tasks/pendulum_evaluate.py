"""How well a policy balances: deterministic episodes of full length, each from a seed of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engines.tasks.evaluate import SEED_STRIDE, PolicyFunction, Row
from engines.tasks.pendulum_chain import Chains, Flags, Floats, Outcome
from rlark.evidence.intervals import wilson
from rlark.runtime.component import FloatArray
from rlark.spec.pendulum_pack import PendulumPack


@dataclass
class Survival:
    """What E episodes under one envelope showed; arrays are [E].

    Attributes:
        steps: control steps of a whole episode.
        fallen: a joint fell before the end.
        length: control steps until the end or the fall.
        reward: sum of rewards.
        change: sum over steps of the mean square of the action's change.
        telemetry: every step of episode 0.
    """

    steps: int
    fallen: Flags
    length: Floats
    reward: Floats
    change: Floats
    telemetry: list[Row] = field(default_factory=list)

    @property
    def success(self) -> Flags:
        """[E], nothing fell."""
        return ~self.fallen

    @property
    def harm(self) -> int:
        """Control steps that were lost to falls."""
        return int(self.steps * len(self.fallen) - self.length.sum())

    def report(self, confidence: float) -> dict[str, Any]:
        """The figures of one envelope, under their names in `eval-report.json`.

        `meanReward` is per control step, `meanReturn` per episode.
        """
        episodes, survived = len(self.fallen), int(self.success.sum())
        low, high = wilson(survived, episodes, confidence) or (None, None)
        return {
            "episodes": episodes,
            "successRate": survived / episodes,
            "successRateCiLow": low,
            "successRateCiHigh": high,
            "fallRate": 1.0 - survived / episodes,
            "survivalSteps": round(float(self.length.mean()), 6),
            "meanEpisodeLength": round(float(self.length.mean()), 6),
            "meanReward": round(float(self.reward.sum() / self.length.sum()), 6),
            "meanReturn": round(float(self.reward.mean()), 6),
            "actionChangeRms": round(float(np.sqrt(self.change.sum() / max(1.0, (self.length - 1.0).sum()))), 6),
        }


def measure(
    policy: PolicyFunction, pack: PendulumPack, factor: float, episodes: int, eval_seed: int, *, record: bool = False
) -> Survival:
    """Run deterministic episodes of `maxSteps`, all side by side.

    Args:
        policy: observations [B, O] to actions [B, A].
        pack: the task.
        factor: on the deviation of the start.
        episodes: how many.
        eval_seed: episode i starts from `eval_seed * 7919 + i`.
        record: keep the telemetry of episode 0.
    """
    seeds = (eval_seed * SEED_STRIDE + i for i in range(episodes))
    starts = [np.random.Generator(np.random.PCG64(seed)).standard_normal((2, pack.action_size)) for seed in seeds]
    chains = Chains(pack, episodes)
    chains.begin(np.arange(episodes), np.stack(starts, axis=2), factor)
    run = _Run(chains, pack, record)
    for _ in range(pack.termination.max_steps):
        if not run.step(policy):
            break
    return run.measured


class _Run:
    """Episodes on their way; one that has fallen moves on unseen and counts no more."""

    def __init__(self, chains: Chains, pack: PendulumPack, record: bool) -> None:
        self._chains, self._pack, self._record = chains, pack, record
        self._seen = chains.observe()
        self._last: FloatArray | None = None
        count, self._steps = len(self._seen), pack.termination.max_steps
        fallen = np.zeros(count, np.bool_)
        self.measured = Survival(self._steps, fallen, np.zeros(count), np.zeros(count), np.zeros(count))

    def step(self, policy: PolicyFunction) -> bool:
        """One control step; False when every episode has ended."""
        measured, seen = self.measured, self._seen
        action = np.clip(policy(seen), -1.0, 1.0)
        outcome = self._chains.advance(action)
        running = ~measured.fallen
        measured.length += running
        measured.reward += np.where(running, outcome.reward, 0.0)
        if self._last is not None:
            measured.change += np.where(running, np.square(action - self._last).mean(axis=1), 0.0)
        self._last, self._seen = action, outcome.observation
        measured.fallen |= outcome.fallen
        if self._record and running[0]:
            self._tell(seen, action, outcome)
        return not measured.fallen.all()

    def _tell(self, seen: FloatArray, action: FloatArray, outcome: Outcome) -> None:
        rows = self.measured.telemetry
        fell, t = bool(outcome.fallen[0]), round(len(rows) / self._pack.control_hz, 9)
        done = fell or len(rows) + 1 == self._steps
        observation, taken = ([float(value) for value in row[0]] for row in (seen, action))
        rows.append(Row(t, observation, taken, float(outcome.reward[0]), done, fell))


class JointController:
    """A controller written by hand, to know what the task allows; never used in training.

    Each joint is pushed back by its own angle and speed.
    """

    def __init__(self, pack: PendulumPack) -> None:
        """Control this chain: twice the stiffness that gravity takes away, critically damped."""
        chain = pack.chain
        self._joints, self._torque = pack.action_size, chain.torque
        self._stiffness = 2.0 * chain.gravity
        self._damping = 2.0 * float(np.sqrt(chain.inertia * chain.gravity))

    def __call__(self, observation: FloatArray) -> FloatArray:
        """The action for each observation."""
        joints = self._joints
        angle = np.arctan2(observation[:, joints : 2 * joints], observation[:, :joints])
        speed = observation[:, 2 * joints : 3 * joints]
        push = -(self._stiffness * angle + self._damping * speed) / self._torque
        return np.clip(push, -1.0, 1.0).astype(np.float32)
