"""Weights on their way from the Actor to the Rollouts.

The Actor writes them once into memory that all Rollouts see, however many there are; what did not
change since the last publication is not written, and no Rollout copies it again. That memory holds
one copy of the weights, in pieces of at most a bucket. Each Rollout copies what changed and says
so, and only then does the Actor go on: nobody writes what somebody reads.

Weights of a few kilobytes go through the socket, which is faster.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from rlark.runtime.codec import pack, same, unpack
from rlark.runtime.component import Weights
from rlark.runtime.shared_memory import Block
from rlark.runtime.wire import Wire

INLINE = 64 * 1024
"""Bytes of arrays up to which weights go through the socket."""
BUCKET = 128 * 1024 * 1024
"""Bytes of shared memory that are reserved at a time, but for an array that is larger."""
_ALIGN = 64
_READ = b"read"


class _Span(NamedTuple):
    """Where an array lies: in which block, from where, how many bytes."""

    block: int
    start: int
    length: int


class _Note(NamedTuple):
    """What is said of a publication.

    Attributes:
        version: counted from 1.
        body: the weights without their arrays.
        inline: the arrays, where they are small.
        layout: where the arrays lie from now on; None when that is known.
        blocks: how many blocks of shared memory follow, all of them new.
        changed: the arrays that were written.
    """

    version: int
    body: bytes
    inline: tuple[bytes, ...] | None
    layout: tuple[_Span, ...] | None = None
    blocks: int = 0
    changed: tuple[int, ...] = ()


class Publisher:
    """Gives the weights of Actor rank 0 to every Rollout.

    Attributes:
        version: publications so far.
        written: bytes of arrays that the last publication wrote.
    """

    def __init__(self, wires: Sequence[Wire], sees: Collection[str] = (), bucket: int = BUCKET) -> None:
        """Take the wires to the Rollouts.

        Args:
            wires: to a `Subscriber` each.
            sees: the physical GPUs that all of them see.
            bucket: bytes of shared memory that are reserved at a time.
        """
        self._wires, self._sees, self._bucket = wires, sees, bucket
        self.version, self.written = 0, 0
        self._layout: tuple[_Span, ...] = ()
        self._blocks: list[Block] = []

    def publish(self, weights: Weights) -> None:
        """Give a snapshot, and wait until everybody has it.

        Raises:
            PeerLost: a Rollout is gone.
            OSError: there is no memory for them.
        """
        body, arrays = pack(weights, self._sees)
        self.version += 1
        total = sum(len(array) for array in arrays)
        if total <= INLINE:
            self.written = total
            self._tell(_Note(self.version, body, tuple(bytes(array) for array in arrays)), [])
            return
        lengths = [len(array) for array in arrays]
        new = lengths != [span.length for span in self._layout]
        if new:
            self._lay_out(lengths)
        changed = tuple(i for i, array in enumerate(arrays) if new or not same(array, self._room(i)))
        for i in changed:
            self._room(i)[:] = arrays[i]
        self.written = sum(lengths[i] for i in changed)
        blocks = self._blocks if new else []
        self._tell(_Note(self.version, body, None, self._layout if new else None, len(blocks), changed), blocks)

    def _room(self, index: int) -> memoryview:
        span = self._layout[index]
        return self._blocks[span.block].view[span.start : span.start + span.length]

    def _lay_out(self, lengths: Sequence[int]) -> None:
        for block in self._blocks:
            block.close()
        self._blocks, sizes, spans = [], [0], []
        for length in lengths:
            room = -(-length // _ALIGN) * _ALIGN
            if sizes[-1] and sizes[-1] + room > self._bucket:
                sizes.append(0)
            spans.append(_Span(len(sizes) - 1, sizes[-1], length))
            sizes[-1] += room
        self._layout = tuple(spans)
        for size in sizes:
            self._blocks.append(Block.new(size))

    def _tell(self, note: _Note, blocks: Sequence[Block]) -> None:
        for wire in self._wires:
            wire.send_object(note)
            for block in blocks:
                block.send(wire)
        for wire in self._wires:
            wire.receive()


class Subscriber:
    """Takes the weights at a Rollout.

    Attributes:
        version: the publication it holds.
    """

    def __init__(self, wire: Wire) -> None:
        """Take the wire to Actor rank 0."""
        self._wire = wire
        self.version = 0
        self._layout: tuple[_Span, ...] = ()
        self._blocks: list[Block] = []
        self._own: list[bytearray] = []

    def receive(self) -> Weights:
        """The next weights.

        Their arrays are this process's own, to be read until the next `receive`: what did not change
        then is the same memory as before. A tensor on a shared GPU is the Actor's own until `done`.

        Raises:
            PeerLost: none come.
        """
        note: _Note = self._wire.receive_object()
        if note.version != self.version + 1 and self.version:
            raise RuntimeError(f"{self._wire.peer} published version {note.version} after {self.version}")
        self.version = note.version
        if note.inline is not None:
            return unpack(note.body, [bytearray(array) for array in note.inline])
        if note.layout is not None:
            for block in self._blocks:
                block.close()
            self._blocks = [Block.receive(self._wire) for _ in range(note.blocks)]
            self._layout, self._own = note.layout, [bytearray(span.length) for span in note.layout]
        for i in note.changed:
            at, start, length = self._layout[i]
            self._own[i][:] = self._blocks[at].view[start : start + length]
        return unpack(note.body, self._own)

    def done(self) -> None:
        """The weights are in use: the Actor may go on.

        Raises:
            PeerLost: it is gone.
        """
        self._wire.send(_READ)
