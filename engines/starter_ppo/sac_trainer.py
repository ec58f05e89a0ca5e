"""One iteration of SAC: some steps of all environments, and updates from all that is remembered."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from engines.starter_ppo.sac import SacLearner
from engines.starter_ppo.sac_policy import SacActing
from engines.starter_ppo.sac_replay import Replay, Transitions
from rlark.runtime.component import DeviceUse, Env, FloatArray, Metrics, State
from rlark.runtime.trainer import require_same_ranks, require_same_size

NOTHING_LEARNED = dict.fromkeys(("criticLoss", "policyLoss", "alphaLoss", "entropy", "qMean"), math.nan)
"""The metrics of an iteration of the warm-up."""


@dataclass(frozen=True)
class Pace:
    """How much is done in an iteration.

    Attributes:
        steps: control steps of every environment.
        warmup: transitions with random actions before anything is learned.
        updates: the most updates; never more than there are new transitions.
        reward_scale: factor on rewards before anything is learned from them.
    """

    steps: int
    warmup: int
    updates: int
    reward_scale: float


class SacTrainer:
    """Policy, environments and memory in one process (`rlark.runtime.trainer.Trainer`).

    SAC learns from single transitions with what really followed each, also where an episode was cut
    off, and keeps them: that is no rollout that an Actor gets and forgets, so it has a trainer of its own.
    """

    def __init__(self, learner: SacLearner, acting: SacActing, env: Env, replay: Replay, pace: Pace) -> None:
        """Start every environment."""
        self._learner, self._acting, self._env, self._replay, self._pace = learner, acting, env, replay, pace
        self._observation: FloatArray = np.array(env.reset(), np.float32)
        acting.load(learner.weights())

    def iterate(self) -> Metrics:
        """Step, then learn."""
        pace, replay = self._pace, self._replay
        before = replay.seen
        seen = [self._step() for _ in range(pace.steps)]
        self._learner.look(np.stack(seen))
        learned, count = dict(NOTHING_LEARNED), 0
        if replay.seen >= pace.warmup:
            count = min(pace.updates, replay.seen - before)
            learned = self._learner.learn(replay, count)
        self._acting.load(self._learner.weights())
        sizes = {"updates": float(count), "replaySize": float(len(replay))}
        return self._env.metrics() | learned | {"alpha": self._learner.alpha} | sizes

    def _step(self) -> FloatArray:
        """One control step of all environments; what was seen before it."""
        observation, replay = self._observation, self._replay
        warm = replay.seen < self._pace.warmup
        action = self._acting.wander(len(observation)) if warm else self._acting.act(observation)
        step = self._env.step(action)
        reward = step.reward * np.float32(self._pace.reward_scale)
        replay.add(Transitions(observation, action, reward, step.final_observation, step.terminated))
        self._observation = np.array(step.observation, np.float32)
        return observation

    def state(self) -> State:
        """Everything needed to continue, with all that is remembered."""
        return {
            "actor": [self._learner.state()],
            "rollout": [self._acting.state()],
            "env": [self._env.state()],
            "observation": self._observation.copy(),
            "replay": self._replay.state(),
        }

    def restore(self, state: State) -> None:
        """Continue from there."""
        require_same_ranks(state, {"actor": 1, "rollout": 1, "env": 1})
        require_same_size(state, self._observation.shape)
        if "replay" not in state:
            raise ValueError("the checkpoint has no transitions: it was not written by algorithm.type sac")
        self._learner.restore(state["actor"][0])
        self._acting.restore(state["rollout"][0])
        self._env.restore(state["env"][0])
        self._replay.restore(state["replay"])
        self._acting.load(self._learner.weights())
        self._observation = np.array(state["observation"], np.float32)

    def device(self) -> DeviceUse:
        """What the policy learns on."""
        return self._learner.device()

    def close(self) -> None:
        """Nothing of ours outlives the process."""
