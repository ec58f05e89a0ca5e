"""What the host of the channels keeps: items, queues, and what was asked and waits for its answer."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from rlark.runtime.caller import Caller
from rlark.runtime.channel import Parcel, Request


class Held(NamedTuple):
    """An item in a queue: what is said of it, and the descriptor of its block, if it has one."""

    parcel: Parcel
    descriptor: int | None

    def let_go(self) -> None:
        """Close the descriptor: nobody will take the item."""
        if self.descriptor is not None:
            os.close(self.descriptor)


@dataclass(eq=False)
class Asked:
    """What somebody asked, while it waits for its answer.

    Attributes:
        caller: who.
        request: what.
        until: when the answer is due, on the monotonic clock, s.
        held: what is to be put.
        taken: what a batch has so far, out of the queue's way: room for the rest of it.
    """

    caller: Caller
    request: Request
    until: float
    held: Held | None = None
    taken: list[Held] = field(default_factory=list)


@dataclass
class Queue:
    """What lies under one key, and who waits there to put or to take, in the order in which they came."""

    items: deque[Held] = field(default_factory=deque)
    putters: deque[Asked] = field(default_factory=deque)
    takers: deque[Asked] = field(default_factory=deque)


@dataclass
class Hosted:
    """One channel: its room for items in each queue (0 for any number), and its queues by key."""

    maxsize: int
    closed: bool = False
    queues: dict[Hashable, Queue] = field(default_factory=dict)

    def full(self, queue: Queue) -> bool:
        """Whether one of its queues has no room."""
        return 0 < self.maxsize <= len(queue.items)


def take(asked: Asked, items: deque[Held], *, closed: bool) -> bool:
    """Take out of a queue what a request may have.

    Returns:
        Whether that answers it; else it waits for more.
    """
    if asked.request.verb == "get":
        asked.taken += [items.popleft()] if items else []
        return bool(asked.taken)
    total = sum(held.parcel.weight for held in asked.taken)
    while items:
        if asked.taken and total + items[0].parcel.weight > asked.request.number:
            return True
        asked.taken.append(items.popleft())
        total += asked.taken[-1].parcel.weight
        if total >= asked.request.number:
            return True
    return bool(asked.taken) and (closed or asked.request.wait_s <= 0)
