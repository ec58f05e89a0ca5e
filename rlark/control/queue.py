"""Whose turn it is, and why not: pure.

First in, first out within a priority, higher priorities first. On each node the head of the line
keeps its place: nothing behind it starts there before it does, so a big Job is never starved by
small ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rlark.plan.node import Inventory, Node, name_gpus
from rlark.plan.plan import Ask
from rlark.spec.quantity import spell_bytes


@dataclass(frozen=True)
class Waiting:
    """A Job that wants to run.

    Attributes:
        uid: the Job's id.
        job: its name.
        node: where it is planned.
        ask: what it needs there.
        priority: higher runs earlier.
        seq: its place in time.
        ending: True while its previous attempt still holds capacity.
    """

    uid: str
    job: str
    node: str
    ask: Ask
    priority: int = 0
    seq: int = 0
    ending: bool = False


@dataclass(frozen=True)
class Held:
    """Capacity that a Job holds.

    Attributes:
        job: its name.
        node: where.
        cpus: how many.
        memory: bytes; 0 when not counted.
        gpus: the node's ids of its GPUs.
    """

    job: str
    node: str
    cpus: float = 0
    memory: int = 0
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Turn:
    """Where a waiting Job stands.

    Attributes:
        uid: the Job's id.
        job: its name.
        position: counted from 1 over all waiting Jobs.
        reason: why it does not start; empty when it may start now.
        priority: its priority.
    """

    uid: str
    job: str
    position: int
    reason: str
    priority: int = 0

    @property
    def ready(self) -> bool:
        """It may start now."""
        return not self.reason


@dataclass
class _Room:
    """What is left on one node while the line is walked."""

    node: Node
    held: list[Held] = field(default_factory=list)
    blocked_by: str = ""

    def lack(self, ask: Ask) -> str:
        """Why an ask does not fit now; empty when it does."""
        node, holders = self.node, self.held
        if not node.online:
            return f"node {node.name} is offline"
        if node.unschedulable:
            return f"node {node.name} is cordoned"
        if ask.gpus > node.gpus - sum(len(h.gpus) for h in holders):
            return _gpus_held(ask, node, holders)
        free_cpus = node.cpus - sum(h.cpus for h in holders)
        if ask.cpus > free_cpus + 1e-6:
            return _held(f"{ask.cpus:g} CPUs", f"{max(free_cpus, 0):g} of {node.cpus:g}", node, _names(holders, "cpus"))
        free_memory = node.memory - sum(h.memory for h in holders)
        if node.memory and ask.memory > free_memory:
            free = f"{spell_bytes(max(free_memory, 0))} of {spell_bytes(node.memory)}"
            return _held(f"{spell_bytes(ask.memory)} of memory", free, node, _names(holders, "memory"))
        return ""

    def take(self, waiting: Waiting) -> None:
        """Count a Job that may start as started."""
        gpus = tuple(f"next-{i}" for i in range(waiting.ask.gpus))
        self.held.append(Held(waiting.job, self.node.name, waiting.ask.cpus, waiting.ask.memory, gpus))


def turns(
    waiting: Sequence[Waiting], held: Sequence[Held], inventory: Inventory, refused: Mapping[str, str] | None = None
) -> list[Turn]:
    """Every waiting Job in the order it will run, each with its reason.

    Args:
        waiting: the Jobs, in any order.
        held: what other Jobs hold, as the ledger knows it.
        inventory: the nodes there are.
        refused: uid -> reason of Jobs that the cluster itself just refused as busy.

    Returns:
        In order; those with an empty reason may start now, all of them together.
    """
    refused = refused or {}
    rooms = {node.name: _Room(node, [h for h in held if h.node == node.name]) for node in inventory.nodes}
    line = []
    ordered = sorted(waiting, key=lambda w: (-w.priority, w.seq))
    for position, job in enumerate(ordered, start=1):
        room = rooms.get(job.node)
        reason = _reason(job, room, refused)
        if room and reason:
            room.blocked_by = room.blocked_by or job.job
        elif room:
            room.take(job)
        line.append(Turn(job.uid, job.job, position, reason, job.priority))
    return line


def _reason(job: Waiting, room: _Room | None, refused: Mapping[str, str]) -> str:
    if room is None:
        return f"node {job.node} is not there"
    if room.blocked_by:
        return f"waits behind job {room.blocked_by}"
    if job.ending:
        return "the previous attempt is still ending"
    return refused.get(job.uid) or room.lack(job.ask)


def _gpus_held(ask: Ask, node: Node, holders: Sequence[Held]) -> str:
    leased = {h.job: [gpu for gpu in h.gpus if not gpu.startswith("next-")] for h in holders}
    named = [f"{name_gpus(gpus, faked=node.gpus_faked)} leased by job {job}" for job, gpus in leased.items() if gpus]
    soon = [f"{len(h.gpus)} GPU next for job {h.job}" for h in holders if any(g.startswith("next-") for g in h.gpus)]
    who = ", ".join(named + soon)
    if not who:
        return f"needs {ask.gpus} GPUs and node {node.name} has {node.gpus}{' (faked)' if node.gpus_faked else ''}"
    all_held = sum(map(len, leased.values())) == node.gpus
    return who if ask.gpus == 1 or all_held else f"{who}; {ask.gpus} are needed"


def _held(wanted: str, free: str, node: Node, holders: str) -> str:
    by = f" leased by {holders}" if holders else ""
    return f"{wanted} wanted, {free} free on node {node.name};{by or ' the rest is in use'}"


def _names(holders: Sequence[Held], what: str) -> str:
    return ", ".join(f"job {h.job}" for h in holders if getattr(h, what))
