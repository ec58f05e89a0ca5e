"""The driver's end of a control wire: it never waits for the rank.

A rank that is busy does not read, and one that answers at length writes as fast as it is read. So
what cannot be sent yet is kept until there is room, and what has come in part until the rest is there.
"""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator
from typing import Any

from rlark.runtime.wire import HEADER, Wire

WHOLE = 1 << 16
"""Bytes up to which a message is copied to be sent with its length."""


class Mailbox:
    """Messages to one rank and from it."""

    def __init__(self, wire: Wire) -> None:
        """Take over the wire to it."""
        self.wire = wire
        self._outgoing: deque[Any] = deque()  # memoryviews; what else a mailbox sends, its kind knows
        self._length = bytearray(HEADER.size)
        self._frame: bytearray | None = None
        self._room = memoryview(self._length)

    def fileno(self) -> int:
        """The socket's descriptor, for `selectors`."""
        return self.wire.fileno()

    @property
    def waiting(self) -> bool:
        """Whether something is still to be sent: `flush` when the socket can be written to."""
        return bool(self._outgoing)

    def post(self, frame: bytes) -> None:
        """Send a pickled message, after those that wait.

        Raises:
            PeerLost: nobody takes it.
        """
        header = HEADER.pack(len(frame))
        whole = len(frame) <= WHOLE  # one write for what fits, so that the peer wakes once
        self._outgoing += (memoryview(header + frame),) if whole else (memoryview(header), memoryview(frame))
        self.flush()

    def flush(self) -> None:
        """Send what there is room for.

        Raises:
            PeerLost: nobody takes it.
        """
        while self._outgoing:
            left = self._send(self._outgoing[0])
            if left is not None:
                self._outgoing[0] = left
                return
            self._outgoing.popleft()

    def collect(self) -> Iterator[Any]:
        """Every message that is there as a whole.

        Raises:
            PeerLost: the rank's process ended; what it said before comes first.
        """
        while self._filled():
            if self._frame is None:
                self._frame = bytearray(HEADER.unpack(self._length)[0])
                self._room = memoryview(self._frame)
                continue
            frame, self._frame = self._frame, None
            self._room = memoryview(self._length)
            yield pickle.loads(frame)  # noqa: S301  the peer is a rank of this run

    def _send(self, part: Any) -> Any:
        """Send what there is room for of a part; what is left of it, or None."""
        sent = self.wire.send_some(part)
        return part[sent:] if sent < len(part) else None

    def _receive(self, room: memoryview) -> int:
        return self.wire.receive_some(room)

    def _filled(self) -> bool:
        """Whether what is being read is there to its end."""
        while self._room:
            count = self._receive(self._room)
            if count == 0:
                return False
            self._room = self._room[count:]
        return True
