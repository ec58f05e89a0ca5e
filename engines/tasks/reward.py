"""The reward of goal navigation, term by term.

Every term is a plain product of weight and quantity: the goal bonus is paid in full in the step
that reaches the goal, whatever the episode does next.
"""

from __future__ import annotations

from typing import NamedTuple

from engines.tasks.arrays import Array
from rlark.spec.task_pack import Reward


class Signals(NamedTuple):
    """What happened to N robots in one control step.

    Attributes:
        nearer: [N] m that the true distance to the goal shrank.
        collided: [N] bool.
        reached: [N] bool.
        effort: [N] mean |action| as the robot took it.
        dwelling: [N] bool, within 1.5 goal distances of the goal.
    """

    nearer: Array
    collided: Array
    reached: Array
    effort: Array
    dwelling: Array


def terms(weights: Reward, signals: Signals) -> dict[str, Array]:
    """Each term's reward [N], under its name in a task pack; terms of weight 0 are left out."""
    quantities = {
        "progress": signals.nearer,
        "collision": signals.collided,
        "goal": signals.reached,
        "action_penalty": signals.effort,
        "dwell": signals.dwelling,
    }
    weighted = ((name, getattr(weights, name), quantity) for name, quantity in quantities.items())
    return {name: weight * quantity for name, weight, quantity in weighted if weight}


def reward(weights: Reward, signals: Signals) -> Array:
    """The sum [N] of all terms."""
    total = 0.0 * signals.nearer
    for term in terms(weights, signals).values():
        total = total + term
    return total
