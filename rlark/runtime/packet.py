"""Arrays on the wire: fixed shapes in one buffer, so that nothing is pickled and nothing allocated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rlark.runtime.component import Array
from rlark.runtime.wire import Wire

_ALIGN = 16


class Packet:
    """Arrays of fixed shapes in one buffer, sent and received without a copy of their own.

    Attributes:
        arrays: by field, views into the buffer.
    """

    def __init__(self, fields: Mapping[str, tuple[Sequence[int], type]]) -> None:
        """Lay the fields out one after the other.

        Args:
            fields: name -> (shape, type), in the order in which they are sent.
        """
        self._ends: dict[str, int] = {}
        starts, end = {}, 0
        for name, (shape, kind) in fields.items():
            starts[name] = -(-end // _ALIGN) * _ALIGN
            end = starts[name] + int(np.prod(shape)) * np.dtype(kind).itemsize
            self._ends[name] = end
        self._buffer = memoryview(bytearray(end))
        self.arrays: dict[str, Array] = {
            name: np.frombuffer(self._buffer[starts[name] : self._ends[name]], kind).reshape(shape)
            for name, (shape, kind) in fields.items()
        }

    def send(self, wire: Wire, upto: str | None = None) -> None:
        """Send all fields, or those up to and including one.

        Raises:
            PeerLost: nobody takes them.
        """
        wire.send(self._buffer if upto is None else self._buffer[: self._ends[upto]])

    def receive(self, wire: Wire) -> int:
        """Receive what the peer's packet sent; `has` tells which fields came.

        Raises:
            PeerLost: nothing comes.
        """
        return wire.receive_into(self._buffer)

    def has(self, length: int, field: str) -> bool:
        """Whether a received length covers a field."""
        return length >= self._ends[field]
