"""A block of memory that two processes see: an unnamed file of the kernel's, handed over a wire.

It has no name, so nobody else can open it and nothing has to be removed: it goes with the last
process that holds it. (`multiprocessing.shared_memory` has names, and on Python 3.11 a reader that
ends takes the block away from its owner.)
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os

from rlark.runtime.wire import Wire

_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class Block:
    """Shared memory of a fixed size.

    Attributes:
        view: its bytes, the same in every process that holds it.
    """

    def __init__(self, descriptor: int) -> None:
        """Map what a descriptor stands for, and take the descriptor over."""
        self._descriptor = descriptor
        self._map = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
        self.view = memoryview(self._map)

    @classmethod
    def new(cls, size: int) -> Block:
        """A block of zeros.

        Args:
            size: bytes, at least one.

        Raises:
            OSError: there is no memory for it.
        """
        descriptor = os.memfd_create("rlark", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.posix_fallocate(descriptor, 0, size)  # now, and with an error: a page that fails later kills
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)  # a peer that shrank it would kill the other
            return cls(descriptor)
        except BaseException:
            os.close(descriptor)
            raise

    def fileno(self) -> int:
        """Its descriptor."""
        return self._descriptor

    def send(self, wire: Wire) -> None:
        """Share it with the peer.

        Raises:
            PeerLost: nobody takes it.
        """
        wire.send_descriptor(self._descriptor)

    @classmethod
    def receive(cls, wire: Wire) -> Block:
        """The block that the peer shares.

        Raises:
            PeerLost: none comes.
        """
        return cls(wire.receive_descriptor())

    def let_go(self) -> None:
        """Keep nothing but what arrays look into: the memory goes with the last of them."""
        self.view = memoryview(b"")
        os.close(self._descriptor)

    def close(self) -> None:
        """Let go of it; arrays that look into it keep it alive until they are gone too."""
        with contextlib.suppress(BufferError):  # somebody still looks into it
            self.view.release()
            self._map.close()
        os.close(self._descriptor)
