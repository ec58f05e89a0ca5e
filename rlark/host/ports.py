"""Ports: claimed in blocks so that heads never meet, probed, and their holders named.

Blocks lie below the kernel's ephemeral range, where no outgoing connection can take a port from
under us. A block is claimed by an abstract unix socket: it has exactly the reach that ports have
(the network namespace, every user in it) and the kernel drops it with its process.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from rlark.errors import ClusterError
from rlark.host import process

BLOCK = 500
FIRST = 12000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LISTEN = "0A"


@dataclass(frozen=True)
class Listener:
    """A listening TCP socket.

    Attributes:
        port: its number.
        address: as /proc shows it: `127.0.0.1`, `0.0.0.0`, `::`.
        inode: the socket's number among all sockets.
        uid: the user it belongs to.
    """

    port: int
    address: str
    inode: str
    uid: int


class PortBlock:
    """A range of ports that no other head of this host will use; hold it as long as they are in use."""

    def __init__(self, first: int, claim: socket.socket) -> None:
        """Take over a claimed range.

        Args:
            first: its lowest port.
            claim: the bound socket that keeps it ours.
        """
        self.first = first
        self._next = first
        self._claim = claim

    def take(self) -> int:
        """The next free port.

        Raises:
            ClusterError: every port of the block is in use.
        """
        while self._next < self.first + BLOCK:
            self._next += 1
            if free(self._next - 1):
                return self._next - 1
        raise ClusterError(f"No free port is left between {self.first} and {self.first + BLOCK - 1}.")

    def rest(self) -> tuple[int, int]:
        """What `take` has not given out, as lowest and highest port; for a range of worker ports."""
        return self._next, self.first + BLOCK - 1

    def close(self) -> None:
        """Let others have the block."""
        self._claim.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def claim_block() -> PortBlock:
    """Claim a block of ports for one head.

    Raises:
        ClusterError: all blocks are taken.
    """
    last = _first_ephemeral() - BLOCK
    starts = list(range(FIRST, last + 1, BLOCK))
    turn = os.getuid() % max(1, len(starts))  # users start at different blocks; the claim decides
    for first in starts[turn:] + starts[:turn]:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(f"\0rlark-ports-{first}")
        except OSError:
            claim.close()
            continue
        if all(free(first + offset) for offset in range(20)):
            return PortBlock(first, claim)
        claim.close()  # somebody outside rlark, or an orphaned head, sits here
    raise ClusterError(
        f"All {len(starts)} blocks of ports between {FIRST} and {last + BLOCK} are in use.",
        hint="end a Ray head that is no longer needed: rlark down --home DIR",
    )


def _first_ephemeral() -> int:
    try:
        return max(FIRST + BLOCK, int(_EPHEMERAL.read_text(encoding="ascii").split()[0]))
    except (OSError, ValueError, IndexError):
        return 32768


def free(port: int, host: str = "0.0.0.0") -> bool:  # noqa: S104 - probed on every interface, and closed at once
    """Whether a listener could take a port now, on IPv4 and, where there is one, on IPv6."""
    families = [(socket.AF_INET, host)]
    if host == "0.0.0.0" and socket.has_ipv6:  # noqa: S104
        families.append((socket.AF_INET6, "::"))
    for family, address in families:
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((address, port))
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                return False
    return True


def free_ports(count: int) -> list[int]:
    """Ports of the ephemeral range that are free now, for a server that is told its port.

    They lie apart from the blocks of `claim_block`, so no head takes them before that server does.
    """
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def listening(host: str, port: int, timeout_s: float = 1.0) -> bool:
    """Whether somebody accepts connections there; never waits longer than the timeout."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return True
    except OSError:
        return False


def listeners() -> Iterator[Listener]:
    """Every listening TCP socket of this network namespace."""
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{name}").read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN:
                    address, port = fields[1].split(":")
                    yield Listener(int(port, 16), _readable(address), fields[9], int(fields[7]))


def _readable(raw: str) -> str:
    """The address of /proc/net/tcp: hexadecimal, each 32-bit word in the machine's byte order."""
    packed = b"".join(bytes.fromhex(raw[i : i + 8])[::-1] for i in range(0, len(raw), 8))
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)


def holder(port: int) -> str | None:
    """Who listens on a port, for people; None when nobody does."""
    held = [listener for listener in listeners() if listener.port == port]
    if not held:
        return None
    pids = socket_owners({listener.inode for listener in held})
    if pids:
        return ", ".join(f"process {process.describe(one)}" for one in pids)
    return f"a process of another user ({_user(held[0].uid)})"


def held_by(port: int, one: process.ProcessId) -> bool:
    """Whether that very process, and not somebody else, listens on a port."""
    inodes = {f"socket:[{listener.inode}]" for listener in listeners() if listener.port == port}
    return bool(inodes) and process.alive(one) and _opens(f"/proc/{one.pid}", inodes)


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def socket_owners(inodes: set[str]) -> list[process.ProcessId]:
    """The processes, as far as this user may see them, that have one of these sockets open."""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and _opens(entry.path, wanted):
            one = process.identify(int(entry.name))
            if one is not None:
                found.append(one)
    return found


def _opens(folder: str, wanted: set[str]) -> bool:
    try:
        for handle in os.scandir(f"{folder}/fd"):
            with contextlib.suppress(OSError):
                if str(Path(handle.path).readlink()) in wanted:
                    return True
    except OSError:  # another user's process, or one that has just ended
        return False
    return False
