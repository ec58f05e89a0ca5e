"""The schema of a Job's `kubernetes` section, loosely: what RLark's console writes there.

Kubernetes has more words than these, and they are read and told of one by one; so no key is
refused here, and only the kind of what is known is checked.
"""

from __future__ import annotations

from typing import Any

_QUANTITIES = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
_NAMED = {"type": "object", "required": ["name"]}


def _field(description: str, example: Any, **words: Any) -> dict[str, Any]:
    return {"description": description, "examples": [example], **words}


_ENV = _NAMED | {
    "properties": {
        "name": _field("The variable's name.", "WANDB_MODE", type="string"),
        "value": _field("Its value.", "offline", type="string"),
    }
}
_VOLUME_MOUNT = _NAMED | {
    "properties": {
        "name": _field("The volume's name.", "mnt-dataset", type="string"),
        "mountPath": _field("Where the Job sees it.", "/mnt/dataset", type="string"),
        "readOnly": _field("True when the Job must not write there.", True, type="boolean"),
    }
}
_RESOURCES = {
    "type": "object",
    "properties": {
        "requests": _field("What the Job takes of its node.", {"nvidia.com/gpu": "8"}, **_QUANTITIES),
        "limits": _field("The most it may take.", {"nvidia.com/gpu": "8"}, **_QUANTITIES),
    },
}
_CONTAINER = _NAMED | {
    "properties": {
        "name": _field("The container's name; `main` is the one that runs.", "main", type="string"),
        "image": _field(
            "An image with an explicit tag or a digest.", "registry.example.com/rlinf:v0.3.0", type="string"
        ),
        "env": _field("Environment variables.", [{"name": "WANDB_MODE", "value": "offline"}], type="array", items=_ENV),
        "volumeMounts": _field(
            "Where the volumes are seen.",
            [{"name": "mnt-dataset", "mountPath": "/mnt/dataset"}],
            type="array",
            items=_VOLUME_MOUNT,
        ),
        "resources": _field("What is taken of the node.", {"requests": {"nvidia.com/gpu": "8"}}, **_RESOURCES),
    }
}
_VOLUME = _NAMED | {
    "properties": {
        "name": _field("The volume's name.", "mnt-dataset", type="string"),
        "hostPath": _field("A folder of the node.", {"path": "/data/inputs"}, type="object", required=["path"]),
        "emptyDir": _field("An empty folder that each attempt gets anew.", {}, type="object"),
        "persistentVolumeClaim": _field(
            "A folder that is kept, by its claim.", {"claimName": "pvc-demo"}, type="object", required=["claimName"]
        ),
    }
}
_POD = {
    "type": "object",
    "properties": {
        "containers": _field(
            "The containers of the worker.", [{"name": "main"}], type="array", minItems=1, items=_CONTAINER
        ),
        "volumes": _field(
            "The folders it may mount.",
            [{"name": "mnt-dataset", "hostPath": {"path": "/data/inputs"}}],
            type="array",
            items=_VOLUME,
        ),
    },
}
_TEMPLATE = {
    "type": "object",
    "properties": {
        "metadata": _field("Labels and annotations of the worker.", {"labels": {"team": "navigation"}}, type="object"),
        "spec": _field("What runs.", {"containers": [{"name": "main"}]}, **_POD),
    },
}
_WORKLOAD = {
    "type": "object",
    "properties": {
        "kind": _field("What keeps the worker.", "StatefulSet", type="string"),
        "replicas": _field("How many workers; 1 on a single node.", 1, type="integer"),
        "pvcStorageMap": _field(
            "Claims and their storage class; each becomes a folder that is kept.",
            {"pvc-demo": "ceph-rbd"},
            type="object",
            additionalProperties={"type": "string"},
        ),
        "template": _field("The worker.", {"spec": {"containers": [{"name": "main"}]}}, **_TEMPLATE),
    },
}
KUBERNETES = {
    "type": "object",
    "properties": {"workload": _field("The workload that RLark makes.", {"kind": "StatefulSet"}, **_WORKLOAD)},
}
"""What the `kubernetes` section is."""
