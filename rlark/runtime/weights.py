"""Weights on their way from the Actor to the Rollouts: packed once, sent to each."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from rlark.runtime.codec import pack, unpack
from rlark.runtime.component import Weights
from rlark.runtime.wire import Wire

_COUNT = struct.Struct("<Q")
_ALIGN = 16


class Publisher:
    """Sends the weights of Actor rank 0 to every Rollout."""

    def __init__(self, wires: Sequence[Wire]) -> None:
        """Take the wires to the Rollouts."""
        self._wires = wires

    def publish(self, weights: Weights) -> None:
        """Send a snapshot.

        Raises:
            PeerLost: a Rollout is gone.
        """
        body, arrays = pack(weights)
        lengths = [len(body), *(len(array) for array in arrays)]
        head = b"".join(_COUNT.pack(number) for number in (len(lengths), *lengths))
        parts: list[bytes | memoryview] = [head, body, *arrays]
        pieces = [piece for part in parts for piece in (part, bytes(-len(part) % _ALIGN))]
        for wire in self._wires:
            wire.send(*pieces)


class Subscriber:
    """Takes the weights at a Rollout."""

    def __init__(self, wire: Wire) -> None:
        """Take the wire to Actor rank 0."""
        self._wire = wire

    def receive(self) -> Weights:
        """The next weights; their arrays are writable and this process's own.

        Raises:
            PeerLost: none come.
        """
        frame = memoryview(self._wire.receive())
        (count,) = _COUNT.unpack_from(frame)
        lengths = [_COUNT.unpack_from(frame, _COUNT.size * (1 + i))[0] for i in range(count)]
        parts, start = [], _aligned(_COUNT.size * (1 + count))
        for length in lengths:
            parts.append(frame[start : start + length])
            start += _aligned(length)
        return unpack(parts[0], parts[1:])


def _aligned(length: int) -> int:
    return -(-length // _ALIGN) * _ALIGN
