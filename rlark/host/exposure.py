"""What of a set of processes can be reached from other machines, and the firewall line that closes it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from rlark.host import ports, process
from rlark.host.process import ProcessId


@dataclass(frozen=True)
class Exposure:
    """A socket that listens on more than the loopback interface.

    Attributes:
        port: its number.
        address: as /proc shows it: `0.0.0.0`, `::` or the address of a network card.
        pid: the process that listens.
        command: its command line, short.
    """

    port: int
    address: str
    pid: int
    command: str


def exposed(processes: Iterable[ProcessId]) -> list[Exposure]:
    """Listening sockets of these processes that other machines can reach, by port."""
    owners = {inode: one.pid for one in processes for inode in _sockets(one.pid)}
    found = {
        (listener.port, listener.address): Exposure(
            listener.port, listener.address, owners[listener.inode], process.command(owners[listener.inode])
        )
        for listener in ports.listeners()
        if listener.inode in owners and not is_loopback(listener.address)
    }
    return [found[key] for key in sorted(found)]


def is_loopback(address: str) -> bool:
    """True for 127.0.0.0/8 and ::1, also when IPv4 is written as IPv6."""
    ip = ip_address(address)
    mapped = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_loopback


def _sockets(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for handle in os.scandir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = str(Path(handle.path).readlink())
                if target.startswith("socket:["):
                    found.add(target[8:-1])
    return found


def firewall_line(port_numbers: Iterable[int]) -> str:
    """The nftables command that keeps other machines from these ports; this machine still reaches them."""
    closed = ", ".join(_ranges(sorted(set(port_numbers))))
    rule = f'iifname != "lo" tcp dport {{ {closed} }} drop;'
    return f"echo 'table inet rlark {{ chain input {{ type filter hook input priority 0; {rule} }} }}' | sudo nft -f -"


def _ranges(numbers: list[int]) -> list[str]:
    """Neighbours joined: [1, 2, 3, 7] as `1-3`, `7`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
