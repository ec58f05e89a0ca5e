"""Whoever uses the channels of a run, as their host sees it: it is never waited for."""

from __future__ import annotations

import os
from collections import deque
from typing import Any

from rlark.runtime.mailbox import Mailbox
from rlark.runtime.wire import Wire


class Caller(Mailbox):
    """A mailbox through which open files pass too: in with a message, out after one.

    Attributes:
        arrived: the descriptors that came with messages not yet collected, or with the last one.
        watched: whether its host looks for room to send what waits.
    """

    def __init__(self, wire: Wire) -> None:
        """Take over the wire to it."""
        super().__init__(wire)
        self.arrived: deque[int] = deque()
        self.watched = False

    def hand_over(self, descriptor: int) -> None:
        """Send an open file after what was posted; the descriptor is closed once it has gone.

        Raises:
            PeerLost: nobody takes it.
        """
        self._outgoing.append(descriptor)
        self.flush()

    def close(self) -> None:
        """Hang up, and let go of the files on their way."""
        for descriptor in (*self.arrived, *(part for part in self._outgoing if isinstance(part, int))):
            os.close(descriptor)
        self.arrived.clear()
        self._outgoing.clear()
        self.wire.close()

    def _send(self, part: Any) -> Any:
        if not isinstance(part, int):
            return super()._send(part)
        if not self.wire.send_descriptor_at_once(part):
            return part
        os.close(part)
        return None

    def _receive(self, room: memoryview) -> int:
        if self._frame is not None:
            return super()._receive(room)  # a file comes with the first bytes of a message
        count, descriptor = self.wire.receive_some_and_descriptor(room)
        if descriptor is not None:
            self.arrived.append(descriptor)
        return count
