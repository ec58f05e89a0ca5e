"""Jobs in RLark's Kubernetes form, and what is found in them."""

from __future__ import annotations

import json
from typing import Any

from rlark.spec import Source, load

POD = "spec.tasks[0].kubernetes.workload.template.spec"
MAIN = f"{POD}.containers[0]"
WORKLOAD = "spec.tasks[0].kubernetes.workload"


def read(
    container: dict[str, Any] | None = None,
    volumes: list[Any] | None = None,
    *,
    pod: dict[str, Any] | None = None,
    ray: Any = None,
    **workload: Any,
) -> Source:
    """A Job in the Kubernetes form."""
    spec = {"containers": [{"name": "main", **(container or {})}], "volumes": volumes or [], **(pod or {})}
    task = {
        "name": "worker",
        "head": True,
        "agentType": "Kubernetes",
        "runScript": "true",
        "kubernetes": {"workload": {"template": {"spec": spec}, **workload}},
    }
    if ray is not None:
        task["ray"] = ray
    job = {"apiVersion": "rlinf.io/v1alpha1", "kind": "Job", "metadata": {"name": "demo"}, "spec": {"tasks": [task]}}
    return load(json.dumps(job), file="job.json")


def told(source: Source) -> list[tuple[str, str, str]]:
    return [(found.severity, found.code, found.path) for found in source.findings]


def ray_of(source: Source) -> Any:
    assert source.draft is not None
    return source.draft.worker.ray
