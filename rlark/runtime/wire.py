"""A wire between two processes of a run: frames of bytes over a Unix socket.

A frame is eight bytes of length and then that many bytes. The socket itself gives the rest: a full
buffer holds the sender back, and the end of the stream tells that the peer is gone. An open file
(a piece of shared memory, say) can be handed over too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import secrets
import socket
import struct
from typing import Any

PATIENCE_S = 1800.0
"""How long a live peer may stay silent; a dead one is noticed at once."""
EXCHANGE = "RLARK_EXCHANGE_TIMEOUT"
"""The variable by which a Job sets how many seconds the ranks of a run wait for each other."""
HEADER = struct.Struct("<Q")
"""A frame's length, before it."""
_CREDENTIALS = struct.Struct("3i")
_DESCRIPTOR = struct.Struct("i")
_BUFFER = 1 << 20


class PeerLost(Exception):
    """The process at the other end of a wire is gone, or silent for too long."""


class Wire:
    """One end of a wire to one peer. Not for two threads at a time."""

    def __init__(
        self, connection: socket.socket, peer: str = "the other process", patience_s: float = PATIENCE_S
    ) -> None:
        """Take over a connected stream socket.

        Args:
            connection: the socket; it is closed with the wire.
            peer: who is at the other end, for messages.
            patience_s: seconds to wait for it at most; 0 for as long as it lives.
        """
        self.peer = peer
        self._socket = connection
        self._length = bytearray(HEADER.size)
        self._patience_s = 0.0
        connection.setblocking(True)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            connection.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        self.have_patience(patience_s)

    def have_patience(self, seconds: float) -> None:
        """How long to wait for the peer from now on; 0 for as long as it lives."""
        if seconds == self._patience_s:
            return
        self._patience_s = seconds
        whole, part = divmod(seconds, 1)
        limit = struct.pack("@ll", int(whole), int(part * 1e6))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):  # in the kernel: settimeout costs a poll a call
            self._socket.setsockopt(socket.SOL_SOCKET, option, limit)

    def fileno(self) -> int:
        """The socket's descriptor, for `selectors`."""
        return self._socket.fileno()

    @property
    def peer_pid(self) -> int:
        """The process at the other end, as the kernel knows it."""
        return self._credentials[0]

    @property
    def peer_user(self) -> int:
        """The user that process belongs to, as the kernel knows it."""
        return self._credentials[1]

    @property
    def _credentials(self) -> tuple[int, int, int]:
        told = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        process, user, group = _CREDENTIALS.unpack(told)
        return process, user, group

    def send(self, *parts: memoryview | bytes, descriptor: int | None = None) -> None:
        """Send one frame made of the parts, one after the other.

        Args:
            parts: the frame's.
            descriptor: an open file that goes with its first byte, to a peer that takes it there
                (`receive_some_and_descriptor`).

        Raises:
            PeerLost: nobody takes it.
        """
        total = sum(len(part) for part in parts)
        header = HEADER.pack(total)
        try:
            if descriptor is not None:
                sent = socket.send_fds(self._socket, [header, *parts], [descriptor])
                self._socket.sendall(memoryview(b"".join((header, *parts)))[sent:])
                return
            if total <= _BUFFER:  # one write for what fits, so that the peer wakes once
                self._socket.sendall(b"".join((header, *parts)))
                return
            self._socket.sendall(header)
            for part in parts:
                self._socket.sendall(part)
        except OSError as error:
            raise self._lost(error) from error

    def receive(self) -> bytearray:
        """The next frame in a buffer of its own.

        Raises:
            PeerLost: none comes.
        """
        frame = bytearray(self._next_length())
        self._fill(memoryview(frame))
        return frame

    def receive_into(self, room: memoryview) -> int:
        """Put the next frame at the beginning of a buffer.

        Returns:
            The frame's length in bytes.

        Raises:
            PeerLost: none comes.
            ValueError: it does not fit.
        """
        length = self._next_length()
        if length > len(room):
            raise ValueError(f"{self.peer} sent {length} bytes where at most {len(room)} were agreed")
        self._fill(room[:length])
        return length

    def send_object(self, value: object) -> None:
        """Send anything that pickles: control messages, between processes of one run only."""
        self.send(pickle.dumps(value, protocol=5))

    def receive_object(self) -> Any:
        """What `send_object` sent."""
        return pickle.loads(self.receive())  # noqa: S301  the peer is a process of this run and user

    def send_some(self, data: memoryview) -> int:
        """Send as many bytes as there is room for now.

        Returns:
            How many; 0 when there is none.

        Raises:
            PeerLost: nobody takes them.
        """
        try:
            return self._socket.send(data, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._lost(error) from error

    def receive_some(self, room: memoryview) -> int:
        """Put the bytes that are there now at the beginning of a buffer.

        Returns:
            How many; 0 when there are none.

        Raises:
            PeerLost: none will come.
        """
        try:
            count = self._socket.recv_into(room, flags=socket.MSG_DONTWAIT)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise self._lost(error) from error
        if count == 0:
            raise PeerLost(f"{self.peer} hung up: its process ended")
        return count

    def receive_some_and_descriptor(self, room: memoryview) -> tuple[int, int | None]:
        """As `receive_some`, and the open file that came with those bytes; the caller closes it.

        Raises:
            PeerLost: nothing will come.
        """
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        try:
            count, ancillary, _, _ = self._socket.recvmsg_into([room], socket.CMSG_SPACE(_DESCRIPTOR.size), flags)
        except BlockingIOError:
            return 0, None
        except OSError as error:
            raise self._lost(error) from error
        if count == 0:
            raise PeerLost(f"{self.peer} hung up: its process ended")
        return count, _DESCRIPTOR.unpack(ancillary[0][2])[0] if ancillary else None

    def send_descriptor_at_once(self, descriptor: int) -> bool:
        """As `send_descriptor`, if there is room now.

        Returns:
            Whether there was.

        Raises:
            PeerLost: nobody takes it.
        """
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, _DESCRIPTOR.pack(descriptor))
        try:
            self._socket.sendmsg([b"\0"], [rights], socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError as error:
            raise self._lost(error) from error
        return True

    def send_descriptor(self, descriptor: int) -> None:
        """Hand an open file over; the peer gets a descriptor of its own.

        Raises:
            PeerLost: nobody takes it.
        """
        try:
            socket.send_fds(self._socket, [b"\0"], [descriptor])
        except OSError as error:
            raise self._lost(error) from error

    def receive_descriptor(self) -> int:
        """The open file that the peer hands over next; the caller closes it.

        Raises:
            PeerLost: none comes.
            OSError: this process has too many files open already.
        """
        try:
            told, descriptors, _, _ = socket.recv_fds(self._socket, 1, 1, socket.MSG_CMSG_CLOEXEC)
        except OSError as error:
            raise self._lost(error) from error
        if not told:
            raise PeerLost(f"{self.peer} hung up: its process ended")
        if not descriptors:  # the kernel drops what the process has no number left for
            raise OSError(errno.EMFILE, f"{os.strerror(errno.EMFILE)}; what {self.peer} handed over is lost")
        return descriptors[0]

    def close(self) -> None:
        """Hang up; the peer sees the end of the stream. Closing twice is harmless."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _next_length(self) -> int:
        self._fill(memoryview(self._length))
        return int(HEADER.unpack(self._length)[0])

    def _fill(self, room: memoryview) -> None:
        try:
            while room:
                count = self._socket.recv_into(room)
                if count == 0:
                    raise PeerLost(f"{self.peer} hung up: its process ended")
                room = room[count:]
        except OSError as error:
            raise self._lost(error) from error

    def _lost(self, error: OSError) -> PeerLost:
        if isinstance(error, BlockingIOError):
            return PeerLost(f"{self.peer} was silent for {self._patience_s:g} s")
        return PeerLost(f"{self.peer} is gone: {error.strerror or error}")


class Endpoint:
    """A name at which the processes of a run can be met.

    It is an abstract Unix socket: a name of the kernel's and no file, so nothing is left when a process
    is killed. Nobody else's process is let in.
    """

    def __init__(self, name: str, patience_s: float = PATIENCE_S) -> None:
        """Start to listen.

        Args:
            name: `<run>/<who>`; the run's part should be impossible to guess.
            patience_s: seconds to wait for a peer, and for each frame of it.

        Raises:
            OSError: somebody listens there.
        """
        self._name = name
        self._patience_s = patience_s
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind("\0" + name)
        self._socket.listen(1024)

    def fileno(self) -> int:
        """The listening descriptor, for `selectors`."""
        return self._socket.fileno()

    def accept(self, patience_s: float | None = None) -> tuple[str, Wire]:
        """Meet the next peer: the name it gave, and the wire to it.

        Args:
            patience_s: seconds to wait; the endpoint's own by default.

        Raises:
            PeerLost: nobody came in time.
        """
        limit = self._patience_s if patience_s is None else patience_s
        self._socket.settimeout(limit)
        while True:
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                raise PeerLost(f"nobody came to {_who(self._name)} within {limit:g} s") from None
            wire = Wire(connection, patience_s=self._patience_s)
            if wire.peer_user == os.getuid():
                wire.peer = wire.receive().decode()
                return wire.peer, wire
            wire.close()

    def close(self) -> None:
        """Stop listening; wires live on."""
        self._socket.close()


def connect(name: str, caller: str, peer: str, patience_s: float = PATIENCE_S) -> Wire:
    """Meet the peer that listens at a name.

    Args:
        name: the peer's endpoint.
        caller: who calls.
        peer: who is called, for messages.
        patience_s: seconds to wait for each frame; 0 for as long as it lives.

    Raises:
        PeerLost: nobody listens there.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.connect("\0" + name)
    except OSError as error:
        connection.close()
        raise PeerLost(f"{peer} does not answer at {_who(name)}: {error.strerror}") from error
    wire = Wire(connection, peer, patience_s)
    if wire.peer_user != os.getuid():
        wire.close()
        raise PeerLost(f"{peer} does not answer at {_who(name)}: another user's process does")
    wire.send(caller.encode())
    return wire


def exchange_patience() -> float:
    """How long the ranks of a run wait for each other, in seconds."""
    try:
        wanted = float(os.environ.get(EXCHANGE, ""))
    except ValueError:
        return PATIENCE_S
    return wanted if wanted > 0 else PATIENCE_S


def new_run() -> str:
    """A run's part of its endpoints' names, which nobody can guess."""
    return f"rlark-{secrets.token_hex(16)}"


def _who(name: str) -> str:
    return name.rpartition("/")[2]
