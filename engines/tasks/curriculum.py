"""Goals move away as the policy succeeds."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from rlark.spec.task_pack import Curriculum as Schedule


class Curriculum:
    """The range of goal distances, widened when recent episodes succeed.

    Once the last `lookbackEpisodes` outcomes are there and their mean reaches
    `successRateThreshold`, both ends are multiplied by `expandFactor`, at most to
    `finalGoalDistance`, and the outcomes are forgotten.
    """

    def __init__(self, schedule: Schedule) -> None:
        """Start at the initial range."""
        self._schedule = schedule
        self._outcomes: deque[bool] = deque(maxlen=schedule.lookback_episodes)
        self.low, self.high = schedule.initial_goal_distance

    def record(self, successes: Iterable[bool]) -> bool:
        """Take the outcomes of finished episodes, in order; True when the range grew."""
        before = (self.low, self.high)
        for success in successes:
            self._outcomes.append(bool(success))
            if self._ready():
                self._expand()
        return (self.low, self.high) != before

    def _ready(self) -> bool:
        wanted = self._schedule.lookback_episodes
        if len(self._outcomes) < wanted:
            return False
        return sum(self._outcomes) >= self._schedule.success_rate_threshold * wanted - 1e-9

    def _expand(self) -> None:
        final_low, final_high = self._schedule.final_goal_distance
        self.low = min(self.low * self._schedule.expand_factor, final_low)
        self.high = min(self.high * self._schedule.expand_factor, final_high)
        self._outcomes.clear()

    def state(self) -> dict[str, object]:
        """Everything needed to continue exactly here."""
        return {"low": self.low, "high": self.high, "outcomes": list(self._outcomes)}

    def restore(self, state: dict[str, object]) -> None:
        """Continue from there."""
        self.low, self.high = float(state["low"]), float(state["high"])  # type: ignore[arg-type]
        self._outcomes = deque(state["outcomes"], maxlen=self._outcomes.maxlen)  # type: ignore[call-overload]
