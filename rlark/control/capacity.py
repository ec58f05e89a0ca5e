"""Capacity: what the ledger's leases hold of a node, what is left, and how both are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rlark.control.queue import Held
from rlark.control.record import JobRecord, JsonObject
from rlark.plan.node import Inventory, Lease, Node

Overrides = Mapping[str, tuple[Mapping[str, str | None], bool | None]]
"""Node -> the labels that people set (None: taken away), and whether they cordoned it."""


def dressed(
    seen: Inventory,
    overrides: Overrides,
    records: Iterable[JobRecord],
) -> Inventory:
    """An inventory with what people set on its nodes, and with what the ledger's leases hold."""
    held = [hold for record in records if (hold := holding(record))]
    return seen.model_copy(update={"nodes": [_dressed(node, overrides, held) for node in seen.nodes]})


def _dressed(node: Node, overrides: Overrides, held: Sequence[Held]) -> Node:
    labels, cordoned = overrides.get(node.name, ({}, None))
    here = [hold for hold in held if hold.node == node.name]
    cpus = node.cpus - sum(h.cpus for h in here)
    gpus = node.gpus - sum(len(h.gpus) for h in here)
    memory = node.memory - sum(h.memory for h in here)
    return node.model_copy(
        update={
            "labels": {k: v for k, v in {**node.labels, **labels}.items() if v is not None},
            "unschedulable": node.unschedulable if cordoned is None else cordoned,
            "free_cpus": max(0.0, min(cpus, cpus if node.free_cpus is None else node.free_cpus)),
            "free_gpus": max(0, min(gpus, gpus if node.free_gpus is None else node.free_gpus)),
            "free_memory": max(0, min(memory, memory if node.free_memory is None else node.free_memory)),
            "holders": {h.job: len(h.gpus) for h in here if h.gpus} or dict(node.holders),
        }
    )


def holding(record: JobRecord) -> Held | None:
    """What a Job holds, for the queue; None where it holds nothing."""
    lease = record.lease
    if lease is None:
        return None
    gpus = tuple(device.id for device in lease.devices)
    return Held(record.name, lease.node, lease.cpus, lease.memory, gpus)


def node_json(node: Node, leases: Sequence[Lease]) -> JsonObject:
    """A node on the wire: as in an inventory file, with phase, capacity and leases beside it."""
    phase = "Offline" if not node.online else "Cordoned" if node.unschedulable else "Online"
    capacity = {"cpus": node.cpus, "memory": node.memory, "gpus": node.gpus, "shm": node.shm}
    used = {
        "cpus": sum(lease.cpus for lease in leases),
        "memory": sum(lease.memory for lease in leases),
        "gpus": sum(len(lease.devices) for lease in leases),
    }
    allocatable = {"cpus": node.free_cpus, "memory": node.free_memory, "gpus": node.free_gpus}
    return {
        **node.to_json(),
        "phase": phase,
        "capacity": capacity,
        "allocatable": allocatable,
        "used": used,
        "leases": [_lease_json(lease) for lease in leases],
    }


def _lease_json(lease: Lease) -> JsonObject:
    gpus = [{"logical": logical, **device.to_json()} for logical, device in enumerate(lease.devices)]
    return {
        "job": lease.job,
        "attempt": lease.attempt,
        "cpus": lease.cpus,
        "memory": lease.memory,
        "gpus": gpus,
    }
