"""Arrays on the wire: fixed shapes in one buffer, so that nothing is pickled and nothing allocated.

A small packet goes through the socket. A large one lies in memory that both processes see; then
only a word about it passes through the socket, and nobody copies it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import numpy as np

from rlark.runtime.component import Array
from rlark.runtime.shared_memory import Block
from rlark.runtime.wire import Wire

SHARED_FROM = 32 * 1024
"""Bytes from which a packet lies in shared memory; below, one write to the socket is as fast."""
_ALIGN = 64
_NOTE = struct.Struct("<QQ")
_READ = struct.Struct("<Q")
Fields = Mapping[str, tuple[Sequence[int], type]]
"""name -> (shape, type), in the order in which they are sent."""


class _Plan:
    """Where each field lies in the buffer."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.spans: dict[str, tuple[int, int]] = {}
        end = 0
        for name, (shape, kind) in fields.items():
            start = -(-end // _ALIGN) * _ALIGN
            end = start + int(np.prod(shape)) * np.dtype(kind).itemsize
            self.spans[name] = (start, end)
        self.size = end

    @property
    def shared(self) -> bool:
        return self.size >= SHARED_FROM

    def arrays(self, buffer: memoryview) -> dict[str, Array]:
        return {
            name: np.frombuffer(buffer[slice(*self.spans[name])], kind).reshape(shape)
            for name, (shape, kind) in self.fields.items()
        }


class Outgoing:
    """Arrays that are sent to one peer, again and again.

    What was sent may lie where the peer still reads it. So `open` before writing makes sure that
    the peer is done with the last one; a run's sides take turns, so it always is, and if it were
    not, that would be a fault of the program and not a reason to wait.
    """

    def __init__(self, wire: Wire, fields: Fields) -> None:
        """Lay the fields out one after the other, and tell the peer where, if they are large.

        Args:
            wire: to the peer, which makes an `Incoming` of the same fields.
            fields: what is sent.

        Raises:
            PeerLost: the peer is gone.
        """
        self._wire, self._plan, self._sent = wire, _Plan(fields), 0
        self._block = Block.new(_ALIGN + self._plan.size) if self._plan.shared else None
        if self._block is None:
            self._buffer = memoryview(bytearray(self._plan.size))
        else:
            self._block.send(wire)
            self._buffer = self._block.view[_ALIGN:]
        self._arrays = self._plan.arrays(self._buffer)

    def open(self) -> dict[str, Array]:
        """The arrays by field, to be written before `send`.

        Raises:
            RuntimeError: the peer has not read the last packet: the two sides are out of step.
        """
        if self._block is not None:
            (read,) = _READ.unpack_from(self._block.view)
            if read != self._sent:
                raise RuntimeError(
                    f"{self._wire.peer} has read {read} of {self._sent} packets: the two sides are out of step"
                )
        return self._arrays

    def send(self, upto: str | None = None) -> None:
        """Send all fields, or those up to and including one.

        Raises:
            PeerLost: nobody takes them.
        """
        length = self._plan.size if upto is None else self._plan.spans[upto][1]
        if self._block is None:
            self._wire.send(self._buffer[:length])
            return
        self._sent += 1
        self._wire.send(_NOTE.pack(length, self._sent))


class Incoming:
    """Arrays that one peer sends, again and again."""

    def __init__(self, wire: Wire, fields: Fields) -> None:
        """Lay the fields out as the peer's `Outgoing` does.

        Raises:
            PeerLost: the peer is gone.
        """
        self._wire, self._plan, self._read = wire, _Plan(fields), 0
        self._block = Block.receive(wire) if self._plan.shared else None
        self._note = bytearray(_NOTE.size)
        if self._block is None:
            self._buffer = memoryview(bytearray(self._plan.size))
        else:
            if len(self._block.view) != _ALIGN + self._plan.size:
                raise ValueError(f"{wire.peer} lays out {len(self._block.view)} bytes where another number was agreed")
            self._buffer = self._block.view[_ALIGN:]
        self.arrays: dict[str, Array] = self._plan.arrays(self._buffer)
        """By field; what `receive` brought, until `release`."""

    def receive(self) -> int:
        """Wait for the next packet; `has` tells which fields came.

        Raises:
            PeerLost: nothing comes.
        """
        if self._block is None:
            return self._wire.receive_into(self._buffer)
        self._wire.receive_into(memoryview(self._note))
        length, self._read = _NOTE.unpack(self._note)
        return int(length)

    def release(self) -> None:
        """Done with what was received: the peer may write the next one there."""
        if self._block is not None:
            _READ.pack_into(self._block.view, 0, self._read)

    def has(self, length: int, field: str) -> bool:
        """Whether a received length covers a field."""
        return length >= self._plan.spans[field][1]
