"""Ray's nodes as an inventory: stable names, labels, what is there and what is free."""

from __future__ import annotations

import itertools
import logging
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
from ray._private.state import available_resources_per_node  # the public one sums over all nodes
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rlark.host import device
from rlark.host.device import DeviceReport
from rlark.plan.node import NODE_NAME, Device, Inventory, Node, default_labels

SHM = "shm"
"""The custom Ray resource by which /dev/shm is counted, in MiB, on a head of ours."""

MIB = 1024 * 1024
ANSWER_S = 1.0
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RayNode:
    """One entry of `ray.nodes()`, typed.

    Attributes:
        id: Ray's id, new with every start.
        host: the machine's name.
        address: its IP.
        port: where its raylet answers; 0 when unknown.
        labels: Ray's labels, `up --labels` among them.
        total: resource -> amount.
        free: resource -> amount not in use; empty when Ray does not say.
    """

    id: str
    host: str
    address: str
    labels: Mapping[str, str] = field(default_factory=dict)
    total: Mapping[str, float] = field(default_factory=dict)
    free: Mapping[str, float] = field(default_factory=dict)
    port: int = 0

    @property
    def is_head(self) -> bool:
        """Whether it is the node of the Ray head."""
        return "node:__internal_head__" in self.total

    @property
    def gpus(self) -> int:
        """How many GPUs Ray may hand out here."""
        return int(self.total.get("GPU", 0))


def live_nodes() -> list[RayNode]:
    """Every node that Ray counts as alive; `ray.init` must have run."""
    free = available_resources_per_node()
    return [_typed(raw, free.get(raw["NodeID"], {})) for raw in ray.nodes() if raw.get("Alive")]


def _typed(raw: Mapping[str, Any], free: Mapping[str, float]) -> RayNode:
    return RayNode(
        id=raw["NodeID"],
        host=raw.get("NodeManagerHostname", ""),
        address=raw.get("NodeManagerAddress", ""),
        labels=dict(raw.get("Labels") or {}),
        total=dict(raw.get("Resources") or {}),
        free=free,
        port=int(raw.get("NodeManagerPort") or 0),
    )


def stable_names(nodes: Sequence[RayNode], known: Mapping[str, str] | None = None) -> dict[str, str]:
    """A name for each node id that survives restarts: the label `rlark.io/node`, else the host's name.

    Where several nodes would have one name, all but the first get a number: the head's is the first,
    then they go by the addresses and ports of their raylets.

    Args:
        nodes: all that live.
        known: names that were given before; a node keeps its own when another goes away.
    """
    kept = {node.id: known[node.id] for node in nodes if known and node.id in known}
    names, taken = dict(kept), set(kept.values())
    for node in sorted(nodes, key=lambda one: (not one.is_head, one.address, one.port, one.id)):
        if node.id not in names:
            name = node.labels.get(NODE_NAME) or node.host or node.address
            numbered = (f"{name}-{number}" for number in itertools.count(2))
            names[node.id] = next(free for free in itertools.chain([name], numbered) if free not in taken)
            taken.add(names[node.id])
    return names


def answers(node: RayNode) -> bool:
    """Whether a node's raylet still takes connections; Ray itself notices a dead one after some 15 seconds."""
    try:
        with socket.create_connection((node.address, node.port), ANSWER_S):
            return True
    except OSError:
        return not node.port


def inventory(
    nodes: Sequence[RayNode],
    names: Mapping[str, str],
    reports: Mapping[str, DeviceReport],
    holders: Mapping[str, Mapping[str, int]],
) -> Inventory:
    """What the nodes offer.

    Args:
        nodes: Ray's live nodes.
        names: node id -> its stable name.
        reports: node id -> what its machine really has, where that is known yet.
        holders: node id -> job -> GPUs it leases there.
    """
    described = [describe(one, names[one.id], reports.get(one.id), holders.get(one.id, {})) for one in nodes]
    return Inventory(nodes=sorted(described, key=lambda one: one.name), source="ray")


def describe(node: RayNode, name: str, report: DeviceReport | None, holders: Mapping[str, int]) -> Node:
    """One Ray node as Jobs see it."""
    faked = _fakes(node, report)
    cards = report.gpus if report is not None and node.gpus and not faked else []
    model = cards[0].name if cards else ""
    shm = int(node.total[SHM] * MIB) if SHM in node.total else (report.shm if report else 0)
    own = {key: value for key, value in node.labels.items() if not key.startswith("ray.io/") and key != NODE_NAME}
    return Node(
        name=name,
        id=node.id,
        labels=default_labels(name, model) | own,
        cpus=node.total.get("CPU", 0),
        memory=int(node.total.get("memory", 0)),
        shm=shm,
        gpus=node.gpus,
        gpu_model=model,
        gpus_faked=faked,
        free_cpus=node.free.get("CPU", 0),
        free_gpus=int(node.free.get("GPU", 0)),
        free_memory=int(node.free.get("memory", 0)),
        free_shm=int(node.free.get(SHM, 0) * MIB) if SHM in node.total else None,
        devices=_cards(node, report),
        holders=_with_strangers(node, holders),
    )


def _with_strangers(node: RayNode, holders: Mapping[str, int]) -> dict[str, int]:
    """Who leases GPUs, those that no lease of ours explains included."""
    unexplained = node.gpus - int(node.free.get("GPU", 0)) - sum(holders.values())
    return dict(holders) | ({"(outside rlark)": unexplained} if node.free and unexplained > 0 else {})


def _fakes(node: RayNode, report: DeviceReport | None) -> bool:
    """Whether a node claims more GPUs than its machine has; then none of them stands for a card."""
    return report is not None and node.gpus > len(report.gpus)


def _cards(node: RayNode, report: DeviceReport | None) -> list[Device]:
    """Every GPU that Ray may hand out on a node; none while its machine has not said what it has."""
    if report is None:
        return []
    cards = [] if _fakes(node, report) else report.gpus[: node.gpus]
    ids = [str(card.index) for card in cards] or [str(number) for number in range(node.gpus)]
    return devices(ids, node, report)


def devices(ids: Iterable[str], node: RayNode | None, report: DeviceReport | None) -> list[Device]:
    """Ray's GPU ids as devices with UUIDs.

    Args:
        ids: in the order in which the Job counts them.
        node: that they belong to; None when it is gone.
        report: of the node's machine; None when it is not known.
    """
    if node is not None and _fakes(node, report):
        return [Device(id=one, faked=True) for one in ids]
    cards = {one: report.gpu(one) if report is not None else None for one in ids}
    return [Device(id=one, uuid=card.uuid, model=card.name) if card else Device(id=one) for one, card in cards.items()]


def in_order(ids: Iterable[object]) -> list[str]:
    """GPU ids as text, numbers in numeric order: Ray promises neither order nor contiguity."""
    return sorted((str(one) for one in ids), key=lambda text: (0, int(text), "") if text.isdigit() else (1, 0, text))


class Reports:
    """The device report of each node: this machine's at once, another's when its probe has answered."""

    def __init__(self, look: Callable[[], DeviceReport]) -> None:
        """Take the function that looks at the machine it runs on; it must cross to other machines."""
        self._look = look
        self._own_host = socket.gethostname()
        self._known: dict[str, DeviceReport] = {}
        self._asked: dict[str, Any] = {}
        self._here: DeviceReport | None = None

    def of(self, nodes: Iterable[RayNode]) -> dict[str, DeviceReport]:
        """What is known by now, by node id; never waits for another machine."""
        for node in nodes:
            if node.id in self._known:
                continue
            if node.host == self._own_host:
                self._here = self._here or self._look()
                self._known[node.id] = self._here
            else:
                self._ask(node)
        return self._known

    def _ask(self, node: RayNode) -> None:
        if node.id not in self._asked:
            pinned = NodeAffinitySchedulingStrategy(node.id, soft=True)
            probe = ray.remote(self._look)
            self._asked[node.id] = probe.options(num_cpus=0, scheduling_strategy=pinned).remote()
        asked = self._asked[node.id]
        if asked is None or not ray.wait([asked], timeout=0)[0]:
            return
        try:
            self._known[node.id] = ray.get(asked)
        except RayError as error:  # without rlark there, or just going down: it stays a node of which little is known
            _logger.warning("node %s does not say what it has: %s", node.host, str(error).splitlines()[-1])
            self._asked[node.id] = None


def look_here() -> DeviceReport:
    """The report of the machine this runs on, its GPUs limited by the node's own CUDA_VISIBLE_DEVICES."""
    return device.report(Path.cwd())
