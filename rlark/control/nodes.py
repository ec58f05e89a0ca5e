"""The nodes as the controller knows them: seen on the cluster, dressed with what people set."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from rlark.cluster.base import Cluster
from rlark.control.capacity import dressed
from rlark.control.ledger import Ledger
from rlark.control.record import JobRecord, JsonObject
from rlark.errors import ClusterError, NotFound, RlarkError, UsageError
from rlark.host.clock import Clock
from rlark.plan.node import Inventory

log = logging.getLogger(__name__)
REFRESH_S = 2.0
REMEMBERED_S = 24 * 3600.0
"""How long a node that went away is still told of, as offline."""


class Nodes:
    """Keeps a fresh inventory, and its snapshot in the ledger so that readers need no controller.

    Attributes:
        trouble: why the cluster does not answer; empty while it does.
    """

    def __init__(self, cluster: Cluster, ledger: Ledger, clock: Clock) -> None:
        """Start with what the controller before this one saw."""
        self._cluster, self._ledger, self._clock = cluster, ledger, clock
        self._seen = ledger.seen()
        self._gone_since: dict[str, float] = {}
        self._overrides = ledger.overrides()
        self._due = float("-inf")
        self.trouble = "the cluster has not been looked at yet"

    def refresh(self, *, now: bool = False) -> bool:
        """Look at the cluster, at most every two seconds.

        Args:
            now: look even if the last look is fresh.

        Returns:
            True when something changed.
        """
        time = self._clock.monotonic()
        if time < self._due and not now:
            return False
        self._due = time + REFRESH_S
        try:
            seen = self._with_those_gone(self._cluster.inventory(), time)
        except ClusterError as error:
            log.warning("the cluster does not answer: %s", error)
            self.trouble = error.message
            return False
        recovered, self.trouble = bool(self.trouble), ""
        if seen == self._seen and not recovered:
            return False
        changed = seen != self._seen
        self._seen = seen
        if changed:
            self._ledger.write_nodes(seen.nodes)
        return True

    def _with_those_gone(self, seen: Inventory, time: float) -> Inventory:
        """The nodes that are there, and as offline those that were: whoever runs there must be able to see it."""
        here = {node.name for node in seen.nodes}
        gone = [node for node in self._seen.nodes if node.name not in here]
        self._gone_since = {node.name: self._gone_since.get(node.name, time) for node in gone}
        kept = [
            node.model_copy(update={"online": False, "free_cpus": 0.0, "free_gpus": 0, "free_memory": 0, "holders": {}})
            for node in gone
            if time < self._gone_since[node.name] + REMEMBERED_S
        ]
        return seen.model_copy(update={"nodes": sorted([*seen.nodes, *kept], key=lambda node: node.name)})

    def inventory(self, records: Iterable[JobRecord]) -> Inventory:
        """The nodes with labels, cordons, and what these records' leases leave free."""
        return dressed(self._seen, self._overrides, records)

    def patch(self, name: str, change: JsonObject) -> None:
        """Cordon or label a node; the wish is kept under its stable name.

        Args:
            name: the node.
            change: `{"spec": {"unschedulable": bool}, "metadata": {"labels": {key: text | null}}}`.

        Raises:
            NotFound: there is no such node.
            UsageError: the change asks for something else.
        """
        known = {node.name for node in self._seen.nodes} | set(self._overrides)
        if name not in known:
            raise NotFound(f"there is no node {name!r}; there are {', '.join(sorted(known)) or 'none'}")
        labels, cordoned = self._overrides.get(name, ({}, None))
        new_labels, new_cordon = _read(change)
        labels = {**labels, **new_labels}
        cordoned = cordoned if new_cordon is None else new_cordon
        self._ledger.write_override(name, labels, cordoned)
        self._overrides = {**self._overrides, name: (labels, cordoned)}


def _read(change: JsonObject) -> tuple[dict[str, str | None], bool | None]:
    """The labels and the cordon that a change asks for."""
    spec, metadata = _part(change, "spec"), _part(change, "metadata")
    _only(change, {"spec", "metadata"}, "")
    _only(spec, {"unschedulable"}, "spec.")
    _only(metadata, {"labels"}, "metadata.")
    cordoned = spec.get("unschedulable")
    if cordoned is not None and not isinstance(cordoned, bool):
        raise _unreadable(f"spec.unschedulable is {cordoned!r}; it is true or false")
    labels = _part(metadata, "labels")
    for key, value in labels.items():
        if value is not None and not isinstance(value, str):
            raise _unreadable(f"the label {key!r} is {value!r}; a label is a text, or null to take it away")
        if not 0 < len(key) <= 253 or len(value or "") > 253:
            raise _unreadable(f"the label {key[:40]!r} is empty or too long: at most 253 characters")
    return labels, cordoned


def _part(change: JsonObject, key: str) -> JsonObject:
    part = change.get(key)
    if part is None:
        return {}
    if not isinstance(part, dict):
        raise _unreadable(f"{key} is {part!r}; it is an object")
    return part


def _only(part: JsonObject, allowed: set[str], path: str) -> None:
    for key in part:
        if key not in allowed:
            raise _unreadable(f"{path}{key} of a node cannot be changed")


def _unreadable(message: str) -> RlarkError:
    return UsageError(
        message, hint='send {"spec": {"unschedulable": true}} or {"metadata": {"labels": {"key": "value"}}}'
    )
