"""The reward of a task: its formula over what was measured, on numpy or jax arrays.

What each op pays stands in `rlark.spec.reward`; a task's plain `reward` is the same formula written
out. The goal bonus is paid in full in the step that reaches the goal, whatever comes next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from engines.tasks.arrays import Array, library
from rlark.spec.reward import TERMS, Quantity, RewardTerm, TermName

SLEW = 0.1
"""How far the target of `rate_limit` follows its quantity in one step."""


class Signals(NamedTuple):
    """What was measured of N robots in one control step; what an engine does not offer stays None.

    Attributes:
        distance: [N] m to the goal, true pose.
        nearer: [N] m that it shrank in this step.
        reached: [N] bool.
        collided: [N] bool.
        dwelling: [N] bool, within 1.5 goal distances of the goal.
        command: [A, N] in [-1, 1], the action as the robot took it; None before the first.
        heading: [N] cosine of the angle between the heading and the way to the goal.
        upright: [3, N] cosine of the angle between up and each axis of the body.
        accel_z: [N] m/s^2.
        body_rate: [N] rad/s.
    """

    distance: Array
    nearer: Array
    reached: Array
    collided: Array
    dwelling: Array
    command: Array | None = None
    heading: Array | None = None
    upright: Array | None = None
    accel_z: Array | None = None
    body_rate: Array | None = None


def _effort(signals: Signals) -> Array:
    command: Array = signals.command
    return abs(command).sum(axis=0) / len(command)


_MEASURES: dict[TermName, Callable[[Signals], Array]] = {
    "progress": lambda signals: signals.distance,
    "heading": lambda signals: signals.heading,
    "goal_reach": lambda signals: signals.reached,
    "goal_hold": lambda signals: signals.dwelling,
    "proximity": lambda signals: 1.0 / (1.0 + signals.distance),
    "collision": lambda signals: signals.collided,
    "action_magnitude": _effort,
    "accel_z": lambda signals: signals.accel_z,
    "body_rate": lambda signals: signals.body_rate,
}
"""What a term measures; `upright` has an axis, and `action_rate` needs the action before and is the formula's own."""
_SIGNED: frozenset[TermName] = frozenset({"heading", "upright", "accel_z", "body_rate"})


class _Part(NamedTuple):
    """One term, prepared.

    Attributes:
        term: as it was written.
        weight: with the sign of its op.
        measure: what it pays for; None for `action_rate`.
        row: where the op remembers in the formula's memory; None when it remembers nothing.
        smooth: where the smoothed measurement is remembered; None when it is not smoothed.
    """

    term: RewardTerm
    weight: float
    measure: Callable[[Signals], Array] | None
    row: int | None = None
    smooth: int | None = None


class Formula:
    """A task's reward, ready to be paid to N robots.

    What a term remembers of the step before is handed in and out as `memory` [rows, N], which
    belongs to an episode: `begin` makes that of a new one.

    Attributes:
        rows: numbers that an episode remembers.
        scheduled: True when a term waits for an iteration.
        needs: the quantities it is made of.
    """

    def __init__(self, terms: Sequence[RewardTerm], actions: int, offers: Collection[Quantity]) -> None:
        """Prepare the terms.

        Args:
            terms: of the task pack.
            actions: A.
            offers: what the environment measures.

        Raises:
            ValueError: a term needs something else.
        """
        for term in terms:
            if term.quantity not in offers:
                raise ValueError(
                    f"the reward's term {term.term} is made of {term.quantity}, which is not measured here; "
                    f"measured are {', '.join(offers)}: remove the term or choose another engine"
                )
        self.needs = frozenset(term.quantity for term in terms)
        self.scheduled = any(term.after for term in terms)
        self._actions = actions if any(term.term == "action_rate" for term in terms) else 0
        self.rows = self._actions
        self._parts = [self._prepared(term) for term in terms]
        self._products = [
            (part.weight, part.measure)
            for part in self._parts
            if part.measure and part.row is None and part.smooth is None and not _may_be_negative(part.term)
        ]

    def _prepared(self, term: RewardTerm) -> _Part:
        measure = _measure_of(term)
        weight = -term.weight if term.op in {"penalty", "smoothness"} else term.weight
        if term.op in {"potential", "shaping"}:
            if term.term == "progress":  # the environment knows the distance before
                return _Part(term, weight, lambda signals: signals.nearer)
            weight = weight if TERMS[term.term].rises else -weight
        smooth = self._row() if term.params.smooth else None
        row = None if term.op in {"bonus", "penalty"} else self._row()
        return _Part(term, weight, measure, row, smooth)

    def _row(self) -> int:
        """One more number to remember."""
        self.rows += 1
        return self.rows - 1

    def begin(self, start: Signals) -> Array:
        """The memory [rows, N] of episodes that stand at their start; NaN where nothing was measured yet."""
        xp, zero = library(start.distance), 0.0 * start.distance
        rows = [zero + math.nan] * self._actions
        for part in self._parts:
            known = part.measure is not None and part.term.quantity != "action"
            measured = zero + part.measure(start) if known and part.measure else zero + math.nan
            rows += [measured] if part.smooth is not None else []
            if part.row is not None:
                rows.append(zero if part.term.op == "rate_limit" else measured)
        return xp.stack(rows) if rows else xp.zeros((0, *start.distance.shape))

    def pay(self, signals: Signals, memory: Array, iteration: float = math.inf) -> tuple[Array, Array]:
        """The reward [N] of one control step.

        Args:
            signals: what was measured.
            memory: [rows, N] from `begin`, or from the step before.
            iteration: iterations of the training that are done, for terms that are introduced later;
                by default all are.

        Returns:
            The reward, and what to remember.
        """
        total: Array = None
        if len(self._products) == len(self._parts):  # as a plain reward is: products and their sum
            for weight, measure in self._products:
                total = weight * measure(signals) if total is None else total + weight * measure(signals)
            return total, memory
        kept: list[Array] = []
        for part in self._parts:
            amount, remembered = self._amount(part, signals, memory, iteration)
            total = amount if total is None else total + amount
            kept += remembered
        if not self.rows:
            return total, memory
        commands: Array = signals.command if self._actions else ()
        return total, library(memory).stack([*commands, *kept])

    def amounts(self, signals: Signals, memory: Array, iteration: float = math.inf) -> list[Array]:
        """What each term pays [N], in the order of the formula."""
        return [self._amount(part, signals, memory, iteration)[0] for part in self._parts]

    def _amount(self, part: _Part, signals: Signals, memory: Array, iteration: float) -> tuple[Array, Sequence[Array]]:
        """What one term pays, and what it remembers."""
        found = part.measure(signals) if part.measure is not None else self._rate(signals, memory)
        kept: Sequence[Array] = ()
        if part.smooth is not None:
            found = _smoothed(found, memory[part.smooth], part.term.params.smooth or 0.0)
            kept = (found,)
        if part.row is None:
            return part.weight * (abs(found) if _may_be_negative(part.term) else found), kept
        amount, remembered = _from_memory(part, found, memory[part.row], signals.reached)
        return (amount * (iteration >= part.term.after) if part.term.after else amount), (*kept, remembered)

    def _rate(self, signals: Signals, memory: Array) -> Array:
        """Mean squared change of the action [N]; 0 for the first one of an episode."""
        xp = library(memory)
        command: Array = signals.command
        change = command - memory[: self._actions]
        return xp.mean(xp.where(xp.isnan(change), 0.0, change * change), axis=0)


def _may_be_negative(term: RewardTerm) -> bool:
    """True for a penalty on what has a sign: it takes the amount."""
    return term.op == "penalty" and term.term in _SIGNED


def _measure_of(term: RewardTerm) -> Callable[[Signals], Array] | None:
    if term.term == "upright":
        axis = "xyz".index(term.params.axis or "z")
        return lambda signals: signals.upright[axis]  # type: ignore[index]
    return _MEASURES.get(term.term)


def _smoothed(found: Array, before: Array, share: float) -> Array:
    """An exponential mean: so much of what was before, and of what is new the rest."""
    return library(before).where(library(before).isnan(before), found, share * before + (1.0 - share) * found)


def _from_memory(part: _Part, found: Array, before: Array, reached: Array) -> tuple[Array, Array]:
    """What a term pays that looks back, and what it remembers."""
    xp = library(before)
    value = 1.0 * found
    if part.term.op == "rate_limit":
        target = xp.where(reached, value, xp.minimum(value, before + SLEW))
        return part.weight * (target - before), target
    change = xp.where(xp.isnan(before), 0.0, value - before)
    return part.weight * (change * change if part.term.op == "smoothness" else change), value
