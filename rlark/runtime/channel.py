"""Named queues between the ranks of a run, and the driver.

RLinf's Channel, with its names where they mean the same: items are put and taken under a key, first
in, first out for each key, and a channel with a `maxsize` holds its producers back. Other than
there, every wait has a deadline and a channel can be closed: then what is left is taken, and who
waits for more is told.

An item is anything that pickles, with numpy arrays and torch tensors in it. Large arrays are written
once into memory that the taker then has as its own; nobody in between copies them.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from rlark.runtime.codec import pack, unpack
from rlark.runtime.shared_memory import Block
from rlark.runtime.wire import Wire, connect

HOST = "channels"
"""Who hosts the channels of a run, in the names of its endpoints."""
INLINE = 64 * 1024
"""Bytes of arrays up to which an item goes through the sockets."""
DEFAULT_KEY = "default"
TIMEOUT_S = 1800.0
_ALIGN = 64


class ChannelClosed(Exception):
    """Nothing more goes into this channel, and nothing is left in it."""


class ChannelFull(Exception):
    """There is no room, and nobody wanted to wait."""


class ChannelEmpty(Exception):
    """There is nothing, and nobody wanted to wait."""


class Parcel(NamedTuple):
    """An item on its way.

    Attributes:
        weight: what it counts in `get_batch`.
        body: it, without its arrays.
        lengths: bytes of each array.
        inline: the arrays, where they are small; None where they lie in a block that follows.
    """

    weight: float
    body: bytes
    lengths: tuple[int, ...]
    inline: bytes | None


class Request(NamedTuple):
    """What is asked of the host.

    Attributes:
        verb: `create`, `connect`, `put`, `get`, `batch`, `size`, `close` or `barrier`.
        name: of the channel, or of the group whose ranks meet.
        key: of the queue.
        number: room at creation, weight that a batch may have, or ranks that meet.
        parcel: what is put; its block follows where it has one.
        wait_s: how long the answer may take; 0 for an answer at once.
    """

    verb: str
    name: str
    key: Hashable = DEFAULT_KEY
    number: float = 0
    parcel: Parcel | None = None
    wait_s: float = 0.0


class Answer(NamedTuple):
    """What the host says.

    Attributes:
        error: the exception to be raised here; None when all is well.
        value: a number, where one was asked for.
        parcels: what was taken; the blocks of those that have one follow.
    """

    error: Exception | None = None
    value: float = 0
    parcels: tuple[Parcel, ...] = ()


class Channel:
    """A named queue. Not for two threads at a time: each connects for itself."""

    def __init__(self, run: str, name: str, caller: str) -> None:
        """Use `create` or `connect`."""
        self.name = name
        self._run, self._caller = run, caller
        self._wire: Wire = connect(f"{run}/{HOST}", caller, "the host of the channels", TIMEOUT_S * 2)

    @classmethod
    def create(cls, run: str, name: str, caller: str, maxsize: int = 0) -> Channel:
        """A new channel, or the one of that name and size.

        Args:
            run: the run's part of its endpoints' names.
            name: the channel's.
            caller: who this is, for messages.
            maxsize: items that a queue may hold; 0 for any number.

        Raises:
            ValueError: there is one of that name with another size.
            PeerLost: the run is over.
        """
        channel = cls(run, name, caller)
        channel._ask(Request("create", name, number=maxsize))
        return channel

    @classmethod
    def connect(cls, run: str, name: str, caller: str, timeout_s: float = 60.0) -> Channel:
        """A channel that somebody creates, now or within `timeout_s`.

        Raises:
            TimeoutError: nobody did; says which there are.
            PeerLost: the run is over.
        """
        channel = cls(run, name, caller)
        channel._ask(Request("connect", name, wait_s=timeout_s))
        return channel

    def __reduce__(self) -> tuple[Any, ...]:
        """Handed to a rank, it is an end of the rank's own."""
        return Channel, (self._run, self.name, f"a holder of {self.name}")

    def put(self, item: object, weight: float = 0, key: Hashable = DEFAULT_KEY, timeout_s: float = TIMEOUT_S) -> None:
        """Put an item at the end of a queue, and wait while that is full.

        Args:
            item: what is handed over; a snapshot is taken.
            weight: what it counts in `get_batch`; no priority.
            key: which queue.
            timeout_s: how long to wait for room.

        Raises:
            ChannelClosed: nothing more goes in.
            TimeoutError: there was no room in time.
            PeerLost: the run is over.
        """
        self._put(item, weight, key, timeout_s)

    def put_nowait(self, item: object, weight: float = 0, key: Hashable = DEFAULT_KEY) -> None:
        """Put an item where there is room.

        Raises:
            ChannelFull: there is none.
            ChannelClosed: nothing more goes in.
        """
        self._put(item, weight, key, 0.0)

    def get(self, key: Hashable = DEFAULT_KEY, timeout_s: float = TIMEOUT_S) -> Any:
        """Take the first item of a queue, and wait for one; its arrays are the taker's own.

        Raises:
            ChannelClosed: there is none, and there will be none.
            TimeoutError: none came in time.
            PeerLost: the run is over.
        """
        return self._taken(Request("get", self.name, key, wait_s=timeout_s))[0]

    def get_nowait(self, key: Hashable = DEFAULT_KEY) -> Any:
        """Take the first item, if there is one.

        Raises:
            ChannelEmpty: there is none.
            ChannelClosed: there will be none either.
        """
        return self._taken(Request("get", self.name, key))[0]

    def get_batch(self, target_weight: float, key: Hashable = DEFAULT_KEY, timeout_s: float = TIMEOUT_S) -> list[Any]:
        """Take items as long as their weights add up to at most `target_weight`; at least one.

        It waits until the weights reach the target, or the next item would pass it, or the channel is closed.

        Raises:
            ChannelClosed, TimeoutError, PeerLost: as `get`.
        """
        return self._taken(Request("batch", self.name, key, number=target_weight, wait_s=timeout_s))

    def qsize(self, key: Hashable = DEFAULT_KEY) -> int:
        """Items in a queue."""
        return int(self._ask(Request("size", self.name, key)).value)

    def empty(self, key: Hashable = DEFAULT_KEY) -> bool:
        """Whether a queue holds nothing."""
        return self.qsize(key) == 0

    def full(self, key: Hashable = DEFAULT_KEY) -> bool:
        """Whether a queue has no room."""
        answer = self._ask(Request("size", self.name, key, number=1))
        return bool(answer.value)

    def close(self) -> None:
        """Nothing more goes in, from anybody: what is left can be taken, and who waits for more is told."""
        self._ask(Request("close", self.name))

    def disconnect(self) -> None:
        """Let go of it; the channel lives on."""
        self._wire.close()

    def _put(self, item: object, weight: float, key: Hashable, wait_s: float) -> None:
        _require_key(key)
        parcel, block = wrap(item, weight)
        self._wire.send_object(Request("put", self.name, key, parcel=parcel, wait_s=wait_s))
        if block is not None:
            block.send(self._wire)
            block.close()
        self._answer()

    def _taken(self, request: Request) -> list[Any]:
        return [unwrap(parcel, self._wire) for parcel in self._ask(request).parcels]

    def _ask(self, request: Request) -> Answer:
        _require_key(request.key)
        self._wire.send_object(request)
        return self._answer()

    def _answer(self) -> Answer:
        answer: Answer = self._wire.receive_object()
        if answer.error is not None:
            raise answer.error
        return answer


def _require_key(key: Hashable) -> None:
    """Refuse what cannot name a queue.

    Raises:
        TypeError: says what was given.
    """
    try:
        hash(key)
    except TypeError:
        raise TypeError(f"{key!r} cannot be the key of a queue: use text, a number or a tuple of them") from None


def wrap(item: object, weight: float) -> tuple[Parcel, Block | None]:
    """An item ready to be sent, and the block that its arrays lie in where they are large."""
    body, arrays = pack(item)
    lengths = tuple(len(array) for array in arrays)
    if sum(lengths) <= INLINE:
        return Parcel(weight, body, lengths, b"".join(arrays)), None
    spans, size = _spans(lengths)
    block = Block.new(size)
    for array, start in zip(arrays, spans, strict=True):
        block.view[start : start + len(array)] = array
    return Parcel(weight, body, lengths, None), block


def unwrap(parcel: Parcel, wire: Wire) -> Any:
    """The item; its arrays stand in memory that is this process's own."""
    if parcel.inline is not None:
        starts = np.cumsum((0, *parcel.lengths)).tolist()
        rooms = [bytearray(parcel.inline[a:b]) for a, b in pairwise(starts)]
        return unpack(parcel.body, rooms)
    block = Block.receive(wire)
    spans, _ = _spans(parcel.lengths)
    views = [block.view[start : start + length] for start, length in zip(spans, parcel.lengths, strict=True)]
    item = unpack(parcel.body, views)
    block.let_go()
    return item


def _spans(lengths: tuple[int, ...]) -> tuple[list[int], int]:
    """Where each array starts, and how large the whole is."""
    rooms = [-(-length // _ALIGN) * _ALIGN for length in lengths]
    ends = np.cumsum(rooms).tolist()
    return [end - room for end, room in zip(ends, rooms, strict=True)], max(1, ends[-1])
