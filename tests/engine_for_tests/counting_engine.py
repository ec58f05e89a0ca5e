"""A program whose every number can be computed by hand: what each side of an exchange must make of it.

Environment e counts its steps. Its observation is [e, age, steps so far]; it ends by itself every
5 + e % 3 steps and is cut off every 4 steps before that, so that episodes end at different times.
The policy is not random: its action is the sum of the observation, its value three times that.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from rlark.runtime.component import Decision, DeviceUse, Shape, Step

NUM_ENVS, STEPS = 8, 7
CUT = 4


def ends_at(env):
    """The age at which an environment ends by itself, when it is not cut off before: odd ones never are."""
    return np.where(env % 2 == 1, 3 + env % 3, CUT)


class Env:
    """Counts."""

    def __init__(self, context):
        self.id = np.arange(context.num_envs) + context.rank * context.num_envs
        self.steps = 0

    def reset(self):
        self.age = self.id % 3
        return self._seen()

    def _seen(self):
        return np.stack([self.id, self.age, np.full(len(self.id), self.steps)], axis=1).astype(np.float32)

    def step(self, action):
        expected = self._seen().sum(axis=1)
        assert (action[:, 0] == expected).all(), "an action reached another environment than it was decided for"
        self.steps += 1
        self.age = self.age + 1
        ended = self.age >= ends_at(self.id)
        terminated = ended & (self.id % 2 == 1)
        final = self._seen()
        self.age = np.where(ended, 0, self.age)
        return Step(self._seen(), final.sum(axis=1), terminated, ended & ~terminated, final)

    def metrics(self):
        return {"episodes": 1.0, "steps": float(self.steps)}

    def state(self):
        return {"age": self.age.copy(), "steps": self.steps}

    def restore(self, state):
        self.age, self.steps = state["age"].copy(), state["steps"]


class Rollout:
    """Sums."""

    def __init__(self, context):
        self.num_envs = context.num_envs

    def load(self, weights):
        self.version = weights

    def act(self, observation):
        assert len(observation) == self.num_envs
        total = observation.sum(axis=1)
        return Decision(total[:, None], np.full(len(total), -self.version, np.float32), 3 * total)

    def value(self, observation):
        return 3 * observation.sum(axis=1)

    def state(self):
        return {}

    def restore(self, state):
        pass


class Actor:
    """Keeps what it was given, and counts."""

    def __init__(self):
        self.updates, self.given = 0, {}

    def update(self, trajectory):
        self.updates += 1
        self.given = {name: np.array(array) for name, array in trajectory._asdict().items()}
        return {"updates": float(self.updates)}

    def weights(self):
        return float(self.updates)

    def device(self):
        return DeviceUse("cpu", "by hand", cuda_requested=False)

    def state(self):
        return {"updates": self.updates, "given": self.given}

    def restore(self, state):
        self.updates, self.given = state["updates"], state["given"]


PROGRAM = SimpleNamespace(
    config=lambda raw, base: raw,
    shape=lambda config: Shape(2, NUM_ENVS, STEPS, observation_size=3, action_size=1),
    env=lambda config, context: Env(context),
    rollout=lambda config, context: Rollout(context),
    actor=lambda config, context: Actor(),
)
