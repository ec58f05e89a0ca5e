"""Weights on their way from the Actor to the Rollouts: packed once, sent to each."""

from __future__ import annotations

import pickle
import struct

from rlark.runtime.channel import Channel
from rlark.runtime.component import Weights

_COUNT = struct.Struct("<Q")
_ALIGN = 16


class Packed:
    """A snapshot of weights, ready to be sent to any number of Rollouts.

    Large arrays are not copied into the pickle but follow it as they are (pickle protocol 5).
    """

    def __init__(self, weights: Weights) -> None:
        """Pack what `Actor.weights` gave."""
        buffers: list[pickle.PickleBuffer] = []
        body = pickle.dumps(weights, protocol=5, buffer_callback=buffers.append)
        arrays = [buffer.raw() for buffer in buffers]
        lengths = [len(body), *(len(array) for array in arrays)]
        head = b"".join(_COUNT.pack(number) for number in (len(lengths), *lengths))
        parts: list[bytes | memoryview] = [head, body, *arrays]
        self._parts = [piece for part in parts for piece in (part, bytes(-len(part) % _ALIGN))]

    def send(self, channel: Channel) -> None:
        """Send them to one Rollout.

        Raises:
            PeerLost: it is gone.
        """
        channel.send(*self._parts)


def receive(channel: Channel) -> Weights:
    """The weights that a peer sent; their arrays are writable and this process's own.

    Raises:
        PeerLost: none come.
    """
    frame = memoryview(channel.receive())
    (count,) = _COUNT.unpack_from(frame)
    lengths = [_COUNT.unpack_from(frame, _COUNT.size * (1 + i))[0] for i in range(count)]
    parts, start = [], _aligned(_COUNT.size * (1 + count))
    for length in lengths:
        parts.append(frame[start : start + length])
        start += _aligned(length)
    return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301  an Actor of this run sent them


def _aligned(length: int) -> int:
    return -(-length // _ALIGN) * _ALIGN
