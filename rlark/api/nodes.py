"""Nodes, clusters and the queue: what there is, who holds it, and who waits."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter

from rlark.api import answers
from rlark.api.body import Change
from rlark.api.commands import Commands, JsonObject
from rlark.api.room import MERGE_PATCH, PREFIX, room, takes, told
from rlark.control.reader import LedgerReader
from rlark.errors import NotFound
from rlark.plan.node import CATEGORY, GPU_MODEL

LOCAL = "local"
"""The one cluster there is: the head that serves this API."""


def router(commands: Commands, reader: LedgerReader) -> APIRouter:
    """The routes of nodes, clusters and the queue."""
    routes = room("nodes")

    @routes.get(f"{PREFIX}/nodes", response_model=None, responses=told(answers.NodeList))
    def list_nodes() -> JsonObject:
        """Every node with phase, labels, capacity, what is free, and its leases."""
        return {"items": reader.nodes()}

    @routes.get(f"{PREFIX}/nodes/{{name}}", response_model=None, responses=told(answers.NodeState, 404))
    def get_node(name: str) -> JsonObject:
        """One node."""
        nodes = {node["name"]: node for node in reader.nodes()}
        if name not in nodes:
            raise NotFound(f"there is no node {name[:100]!r}", hint=f"there are {', '.join(nodes) or 'none'}")
        return nodes[name]

    @routes.patch(
        f"{PREFIX}/nodes/{{name}}",
        response_model=None,
        responses=told(answers.NodeState, 404, 413),
        openapi_extra=takes("what to change", MERGE_PATCH, "application/json"),
    )
    def patch_node(name: str, change: Change) -> JsonObject:
        """Cordon (`{"spec": {"unschedulable": true}}`) or label (`{"metadata": {"labels": {...}}}`) a node."""
        return commands.patch_node(name, change)

    @routes.get("/api/v1/queue", response_model=None, responses=told(answers.Queue))
    def list_queue() -> JsonObject:
        """The waiting Jobs in order, each with its reason."""
        return {"items": reader.queue()}

    @routes.get("/api/v1/clusters", response_model=None, responses=told(answers.ClusterList))
    def list_clusters() -> JsonObject:
        """The places where Jobs run, summed up."""
        return {"items": [_cluster(reader.nodes(), reader.phases().get("Running", 0))]}

    return routes


def _cluster(nodes: Sequence[JsonObject], running: int) -> JsonObject:
    online = [node for node in nodes if node["online"]]
    total = {what: sum(node["capacity"][what] for node in online) for what in ("cpus", "gpus", "memory")}
    used = {what: sum(node["used"][what] for node in online) for what in total}
    return {
        "id": LOCAL,
        "name": LOCAL,
        "type": "Cloud",
        "phase": _phase(len(online), len(nodes)),
        "totalNodes": len(nodes),
        "onlineNodes": len(online),
        "offlineNodes": len(nodes) - len(online),
        "cloudNodes": sum(node["labels"].get(CATEGORY) == "cloud" for node in nodes),
        "gpuModels": sorted({node["gpuModel"] or node["labels"].get(GPU_MODEL, "") for node in online} - {""}),
        "gpus": total["gpus"],
        "gpusFaked": any(node["gpusFaked"] for node in online),
        "gpuUsage": used["gpus"] / total["gpus"] if total["gpus"] else 0.0,
        "cpus": total["cpus"],
        "cpuUsage": used["cpus"] / total["cpus"] if total["cpus"] else 0.0,
        "memory": total["memory"],
        "runningJobs": running,
    }


def _phase(online: int, nodes: int) -> str:
    if online == 0:
        return "Offline"
    return "Online" if online == nodes else "Degraded"
