"""The last transitions, to learn from more than once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rlark.runtime.component import BoolArray, FloatArray, State


class Transitions(NamedTuple):
    """B steps, each by itself.

    Attributes:
        observation: [B, O], what the policy saw.
        action: [B, A] in [-1, 1].
        reward: [B].
        following: [B, O], what came of it, before any reset.
        terminated: [B] bool, the episode ended by itself; one that was cut off goes on as far as this is concerned.
    """

    observation: FloatArray
    action: FloatArray
    reward: FloatArray
    following: FloatArray
    terminated: BoolArray


class Replay:
    """A ring of transitions.

    Attributes:
        capacity: how many it holds.
        seen: how many were ever added.
    """

    def __init__(self, capacity: int, observation: int, action: int) -> None:
        """An empty ring for observations [O] and actions [A]."""
        self.capacity, self.seen = capacity, 0
        self._data = Transitions(
            np.zeros((capacity, observation), np.float32),
            np.zeros((capacity, action), np.float32),
            np.zeros(capacity, np.float32),
            np.zeros((capacity, observation), np.float32),
            np.zeros(capacity, np.bool_),
        )

    def __len__(self) -> int:
        """How many it holds now."""
        return min(self.seen, self.capacity)

    def add(self, new: Transitions) -> None:
        """Take in copies; the oldest make room. Of more than it can hold, the last stay."""
        count = len(new.reward)
        places = np.arange(self.seen + max(0, count - self.capacity), self.seen + count) % self.capacity
        for held, values in zip(self._data, new, strict=True):
            held[places] = values[count - len(places) :]
        self.seen += count

    def draw(self, rng: np.random.Generator, count: int) -> Transitions:
        """Copies of `count` transitions, each as likely as any other."""
        chosen: NDArray[np.int64] = rng.integers(0, len(self), count)
        held = self._data
        return Transitions(
            held.observation[chosen],
            held.action[chosen],
            held.reward[chosen],
            held.following[chosen],
            held.terminated[chosen],
        )

    def state(self) -> State:
        """Everything that is held."""
        held = len(self)
        return {"seen": self.seen, **{name: data[:held].copy() for name, data in self._data._asdict().items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """Hold that instead.

        Raises:
            ValueError: it comes from a ring of another size.
        """
        seen, held = int(state["seen"]), len(state["reward"])
        if held != min(seen, self.capacity):
            raise ValueError(
                f"the checkpoint holds {held} of {seen} transitions, and algorithm.replay_size is {self.capacity}: "
                "resume with the same replay_size"
            )
        self.seen = seen
        for name, data in self._data._asdict().items():
            data[:held] = state[name]
