"""Leases: one detached placement group with one bundle an attempt, probed once for its GPUs.

A group's name holds job and attempt, so a duplicate is refused by Ray itself, a restarted
controller finds it again, and whoever looks at the Ray dashboard sees who holds what.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ray
from ray._private.state import available_resources_per_node  # the public one sums over all nodes
from ray.exceptions import RayError
from ray.util.placement_group import (
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from rlark.cluster.on_ray.nodes import MIB, SHM, RayNode, in_order
from rlark.errors import ClusterError, PlacementError
from rlark.plan.plan import Ask

DECIDE_S = 5.0
PROBE_S = 60.0
REMOVE_S = 10.0
SETTLE_S = 1.0
_NAME = re.compile(r"rlark-(?P<job>.+)-(?P<attempt>\d+)")
_GONE = "REMOVED"


@dataclass(frozen=True)
class Group:
    """A placement group of ours.

    Attributes:
        id: Ray's id, hexadecimal.
        name: `rlark-<job>-<attempt>`.
        job: the Job's name.
        attempt: its try.
        state: Ray's word: PENDING, CREATED, ...
        scheduling: Ray's word on why it is not created yet: NO_RESOURCES, INFEASIBLE, ...
        node_id: where its bundle lies; empty while pending.
        bundle: resource -> amount.
    """

    id: str
    name: str
    job: str
    attempt: int
    state: str
    scheduling: str
    node_id: str
    bundle: dict[str, float]

    @property
    def gpus(self) -> int:
        """How many GPUs it holds."""
        return int(self.bundle.get("GPU", 0))


def group_name(job: str, attempt: int) -> str:
    """What the placement group of an attempt is called."""
    return f"rlark-{job}-{attempt}"


def groups() -> Iterator[Group]:
    """Every placement group of ours that is not removed."""
    for raw in placement_group_table().values():
        match = _NAME.fullmatch(raw["name"] or "")
        if match and raw["state"] != _GONE:
            yield _typed(raw, match["job"], int(match["attempt"]))


def _typed(raw: dict[str, Any], job: str, attempt: int) -> Group:
    node_id = raw["bundles_to_node_id"].get(0, "")
    return Group(
        id=raw["placement_group_id"],
        name=raw["name"],
        job=job,
        attempt=attempt,
        state=raw["state"],
        scheduling=raw["stats"]["scheduling_state"],
        node_id="" if set(node_id) == {"f"} else node_id,  # Ray's nil id
        bundle=dict(raw["bundles"].get(0, {})),
    )


def find(name: str) -> Group | None:
    """The group of that name, unless it is removed."""
    return next((group for group in groups() if group.name == name), None)


def bundle(ask: Ask, node: RayNode) -> dict[str, float]:
    """What a Job asks, in Ray's resources; a Job that asks for nothing takes a sliver of a CPU."""
    wanted: dict[str, float] = {"CPU": ask.cpus, "GPU": ask.gpus, "memory": ask.memory}
    if SHM in node.total:
        wanted[SHM] = ask.shm / MIB
    return {name: amount for name, amount in wanted.items() if amount > 0} or {"CPU": 0.001}


def check_possible(ask: Ask, node: RayNode, name: str) -> None:
    """Refuse what the node can never offer.

    Raises:
        PlacementError: naming each resource of which there is too little.
    """
    short = [
        f"{_amount(resource, wanted)} asked, {_amount(resource, node.total.get(resource, 0))} there"
        for resource, wanted in bundle(ask, node).items()
        if wanted > node.total.get(resource, 0)
    ]
    if short:
        raise PlacementError(
            f"Node {name} can never offer this: {'; '.join(short)}.",
            hint="ask for less in spec.tasks[0].ray.resources, or choose another node",
        )


def _amount(resource: str, value: float) -> str:
    if resource == "memory":
        return f"{value / 1024 / MIB:.1f} GiB memory"
    if resource == SHM:
        return f"{value:.0f} MiB shm"
    return f"{value:g} {resource}{'s' if value != 1 else ''}"


def acquire(name: str, ask: Ask, node: RayNode) -> Group | None:
    """Create the group of that name on that node.

    Returns:
        The created group; None, and nothing is left, when others hold the capacity.

    Raises:
        PlacementError: Ray says that it can never be created.
        ClusterError: Ray does not decide in time.
    """
    try:
        made = placement_group(
            [bundle(ask, node)],
            strategy="STRICT_PACK",
            name=name,
            lifetime="detached",
            bundle_label_selector=[{"ray.io/node-id": node.id}],
        )
    except RayError as error:
        raise ClusterError(f"Ray refused the lease {name}: {error}") from error
    group = _decided(name)
    if group is not None and group.state == "CREATED":
        return group
    remove_placement_group(made)
    if group is None:
        raise ClusterError(f"Ray did not decide on the lease {name} within {DECIDE_S:.0f} s.")
    if group.scheduling == "INFEASIBLE":
        raise PlacementError(f"Node {node.host} can never offer {group.bundle}, says Ray (INFEASIBLE).")
    return None


def _decided(name: str) -> Group | None:
    """The group once Ray has created it, or said why not."""
    until = time.monotonic() + DECIDE_S
    while time.monotonic() < until:
        group = find(name)
        if group is not None and (group.state == "CREATED" or group.scheduling in ("NO_RESOURCES", "INFEASIBLE")):
            return group
        time.sleep(0.005)
    return None


def probe(group: Group) -> list[str]:
    """Ask a created group which GPUs it has.

    Returns:
        Their ids as CUDA_VISIBLE_DEVICES takes them, in ascending order; empty without GPUs.

    Raises:
        ClusterError: no answer in time; the group stays.
    """
    if not group.gpus:
        return []
    try:
        inside = PlacementGroupSchedulingStrategy(get_placement_group(group.name), placement_group_bundle_index=0)
        asking = ray.remote(_gpu_ids).options(
            name=f"lease {group.job}", num_cpus=0, num_gpus=group.gpus, scheduling_strategy=inside, max_retries=1
        )
        return in_order(ray.get(asking.remote(), timeout=PROBE_S))
    except (RayError, ValueError) as error:  # ValueError: the group is gone
        raise ClusterError(f"The lease {group.name} does not say which GPUs it has: {error}") from error


def _gpu_ids() -> list[str]:
    return [str(one) for one in ray.get_gpu_ids()]


def remove(name: str) -> None:
    """Give a group's capacity back, and see it free. No such group is harmless.

    Raises:
        ClusterError: Ray does not remove it.
    """
    group = find(name)
    if group is None:
        return
    before = _free(group.node_id)
    until = time.monotonic() + REMOVE_S
    while find(name) is not None:
        try:
            remove_placement_group(get_placement_group(name))
        except ValueError:  # gone between the two calls
            break
        if time.monotonic() > until:
            raise ClusterError(f"Ray does not remove the placement group {name}.")
        time.sleep(0.02)
    if group.state == "CREATED":
        _see_free(group, before)


def _free(node_id: str) -> dict[str, float]:
    return dict(available_resources_per_node().get(node_id, {}))


def _see_free(group: Group, before: dict[str, float]) -> None:
    """Wait until Ray's view of the node shows what was given back: it lags by a tenth of a second.

    Without that the next Job would be told that strangers hold its GPUs.
    """
    until = time.monotonic() + SETTLE_S
    while time.monotonic() < until:
        now = _free(group.node_id)
        if not now or all(now.get(name, 0) > before.get(name, 0) for name in group.bundle):
            return
        time.sleep(0.02)
