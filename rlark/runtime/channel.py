"""Named queues between the ranks of a run, and the driver.

RLinf's Channel, with its names where they mean the same: items are put and taken under a key, first
in, first out for each key, and a channel with a `maxsize` holds its producers back. Other than
there, every wait has a deadline and a channel can be closed: then what is left is taken, and who
waits for more is told.

An item is anything that pickles, with numpy arrays and torch tensors in it. A large one is written
once into memory that the taker then has as its own; nobody in between copies it. A tensor on a GPU
comes to the taker's CPU: who takes it is not known when it is put.
"""

from __future__ import annotations

import math
import pickle
import threading
from collections.abc import Hashable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from rlark.host.open_files import allow_many
from rlark.runtime.codec import pack, unpack
from rlark.runtime.shared_memory import Block
from rlark.runtime.wire import Wire, connect

HOST = "channels"
"""Who hosts the channels of a run, in the names of its endpoints."""
INLINE = 64 * 1024
"""Bytes up to which an item goes through the sockets."""
DEFAULT_KEY = "default"
TIMEOUT_S = 1800.0
GRACE_S = 60.0
"""How much later than asked the host may answer, on a busy machine."""
_FOREVER_S = 1e9
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
        lengths: bytes of each of its parts: its body, and then its arrays.
        inline: the parts, where they are small; None where they lie in a block that comes with it.
    """

    weight: float
    lengths: tuple[int, ...]
    inline: bytes | None


class Request(NamedTuple):
    """What is asked of the host.

    Attributes:
        verb: `create`, `connect`, `put`, `get`, `batch`, `size`, `close` or `barrier`.
        name: of the channel, or of the group whose ranks meet.
        key: of the queue.
        number: room at creation, weight that a batch may have, or ranks that meet.
        parcel: what is put; its block comes with it where it has one.
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
        self._wire: Wire | None = None
        self._in_use = threading.Lock()
        allow_many()  # a taker that keeps large items keeps as many files open

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
            OSError: there is no memory for it, or no room in the driver for more large items.
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
        return int(self._ask(Request("size", self.name, key))[0].value)

    def empty(self, key: Hashable = DEFAULT_KEY) -> bool:
        """Whether a queue holds nothing."""
        return self.qsize(key) == 0

    def full(self, key: Hashable = DEFAULT_KEY) -> bool:
        """Whether a queue has no room."""
        return bool(self._ask(Request("size", self.name, key, number=1))[0].value)

    def close(self) -> None:
        """Nothing more goes in, from anybody: what is left can be taken, and who waits for more is told."""
        self._ask(Request("close", self.name))

    def disconnect(self) -> None:
        """Let go of it; the channel lives on."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    def _put(self, item: object, weight: float, key: Hashable, wait_s: float) -> None:
        if not isinstance(weight, int | float) or math.isnan(weight):
            raise TypeError(f"{weight!r} cannot be the weight of an item: it is a number")
        parcel, block = wrap(item, weight)
        try:
            self._ask(Request("put", self.name, key, parcel=parcel, wait_s=wait_s), block)
        finally:
            if block is not None:
                block.close()

    def _taken(self, request: Request) -> list[Any]:
        answer, blocks = self._ask(request)
        try:
            return [unwrap(parcel, block) for parcel, block in zip(answer.parcels, blocks, strict=True)]
        finally:
            for block in blocks:
                if block is not None:
                    block.let_go()

    def _ask(self, request: Request, block: Block | None = None) -> tuple[Answer, list[Block | None]]:
        """Ask the host, and hear what it says.

        Raises:
            RuntimeError: another thread is asking.
            Exception: what the host says.
        """
        _check(request)
        if not self._in_use.acquire(blocking=False):
            raise RuntimeError(
                f"another thread is using this end of the channel {self.name}: each thread connects for itself"
            )
        try:
            answer, blocks = self._converse(request, block)
        except BaseException:  # half a conversation: its rest would be taken for the next one's answer
            self.disconnect()
            raise
        finally:
            self._in_use.release()
        if answer.error is not None:
            raise answer.error
        return answer, blocks

    def _converse(self, request: Request, block: Block | None) -> tuple[Answer, list[Block | None]]:
        wire = self._wire
        if wire is None:
            self._wire = wire = connect(f"{self._run}/{HOST}", self._caller, "the host of the channels")
        wire.have_patience(min(request.wait_s, _FOREVER_S) + GRACE_S)
        wire.send(pickle.dumps(request, protocol=5), descriptor=None if block is None else block.fileno())
        answer: Answer = wire.receive_object()
        blocks: list[Block | None] = []
        try:
            blocks += (None if parcel.inline is not None else Block.receive(wire) for parcel in answer.parcels)
        except BaseException:
            for one in blocks:
                if one is not None:
                    one.close()
            raise
        return answer, blocks


def _check(request: Request) -> None:
    """Refuse what the host could not use.

    Raises:
        TypeError: the key cannot name a queue.
        ValueError: it waits for no number of seconds.
    """
    try:
        hash(request.key)
    except TypeError:
        told = f"{request.key!r} cannot be the key of a queue: use text, a number or a tuple of them"
        raise TypeError(told) from None
    if not isinstance(request.wait_s, int | float) or not request.wait_s >= 0:
        raise ValueError(f"timeout_s is {request.wait_s!r} where it has to be a number of seconds, 0 or more")


def wrap(item: object, weight: float) -> tuple[Parcel, Block | None]:
    """An item ready to be sent, and the block that it lies in where it is large."""
    body, arrays = pack(item)
    parts: tuple[bytes | memoryview, ...] = (body, *arrays)
    lengths = tuple(len(part) for part in parts)
    if sum(lengths) <= INLINE:
        return Parcel(weight, lengths, b"".join(parts)), None
    starts, size = _spans(lengths)
    block = Block.new(size)
    for part, start in zip(parts, starts, strict=True):
        block.view[start : start + len(part)] = part
    return Parcel(weight, lengths, None), block


def unwrap(parcel: Parcel, block: Block | None) -> Any:
    """The item; its arrays stand in memory that is this process's own."""
    parts: list[memoryview | bytearray]
    if block is None or parcel.inline is not None:
        starts = np.cumsum((0, *parcel.lengths)).tolist()
        parts = [bytearray((parcel.inline or b"")[a:b]) for a, b in pairwise(starts)]
        return unpack(parts[0], parts[1:])
    starts, _ = _spans(parcel.lengths)
    parts = [block.view[start : start + length] for start, length in zip(starts, parcel.lengths, strict=True)]
    return unpack(parts[0], parts[1:])


def _spans(lengths: tuple[int, ...]) -> tuple[list[int], int]:
    """Where each part starts, and how large the whole is."""
    rooms = [-(-length // _ALIGN) * _ALIGN for length in lengths]
    ends = np.cumsum(rooms).tolist()
    return [end - room for end, room in zip(ends, rooms, strict=True)], max(1, ends[-1])
