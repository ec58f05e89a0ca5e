"""Whatever stands in a Job, checking it ends in findings and never in an exception."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlark.spec.codes import CODES
from rlark.spec.yaml import parse

FOLDER = Path(__file__).parent / "broken"
JOB: dict[str, Any] = {
    "apiVersion": "rlinf.io/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "demo", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "spec": {
        "tasks": [
            {
                "name": "worker",
                "head": True,
                "agentType": "Ray",
                "nodeSelector": {"kubernetes.io/hostname": "box"},
                "prepareScript": "true",
                "runScript": "",
                "tensorBoardDir": "tb",
                "ray": {
                    "replicas": 1,
                    "image": "r/i:v1",
                    "head": "platform",
                    "sandbox": "auto",
                    "resources": {"cpu": 1, "memory": "1Gi", "gpu": 1, "shm": "1Gi"},
                    "env": [{"name": "A", "value": "1"}],
                    "mounts": [{"name": "m", "hostPath": "/tmp", "mountPath": "/tmp", "readOnly": False}],
                    "config": {
                        "inline": {
                            "cluster": {
                                "num_nodes": 1,
                                "component_placement": {"actor,rollout": 0, "env": "0:0-1"},
                                "node_groups": [{"label": "g", "node_ranks": 0}],
                            },
                            "runner": {"engine": "walk", "max_epochs": 3},
                            "env": {"train": {"task": "short-walk", "total_num_envs": 8}},
                        },
                        "overrides": ["runner.max_epochs=4"],
                        "origin": {"path": str(FOLDER / "configs" / "good.yaml"), "overrides": []},
                    },
                },
                "expect": {
                    "firstSignal": {"pattern": "x", "within": "5m"},
                    "outputs": [{"path": "a", "minBytes": 1}],
                    "gate": True,
                },
            }
        ],
        "stopped": False,
        "priority": 0,
        "restartPolicy": "Never",
        "backoffLimit": 0,
        "activeDeadline": "2h",
        "terminationGrace": "30s",
        "domain": "",
        "sshPublicKey": "",
    },
    "status": {"phase": "Pending"},
}


OF_RLARK: dict[str, Any] = {
    "apiVersion": "rlinf.io/v1alpha1",
    "kind": "Job",
    "metadata": {"name": "demo"},
    "spec": {
        "tasks": [
            {
                "name": "worker",
                "head": True,
                "agentType": "Kubernetes",
                "nodeSelector": {"kubernetes.io/hostname": "box"},
                "runScript": "cd /x && python train.py --config-name y cluster.num_nodes=1 runner.max_epochs=3",
                "ray": {
                    "head": "job",
                    "config": {"inline": {"cluster": {"num_nodes": 1, "component_placement": {"actor": "0-1"}}}},
                },
                "kubernetes": {
                    "workload": {
                        "kind": "StatefulSet",
                        "replicas": 1,
                        "pvcStorageMap": {"pvc-out": "ceph"},
                        "template": {
                            "metadata": {"labels": {"a": "b"}},
                            "spec": {
                                "containers": [
                                    {
                                        "name": "main",
                                        "image": "r/i:v1",
                                        "env": [
                                            {"name": "A", "value": "1"},
                                            {"name": "B", "value": "$(A)"},
                                            {
                                                "name": "C",
                                                "valueFrom": {
                                                    "secretKeyRef": {"name": "hf", "key": "token", "optional": False}
                                                },
                                            },
                                        ],
                                        "volumeMounts": [
                                            {"name": "data", "mountPath": "/data", "subPath": "a", "readOnly": True},
                                            {"name": "out", "mountPath": "/out"},
                                            {"name": "shm", "mountPath": "/dev/shm"},
                                        ],
                                        "resources": {
                                            "requests": {"nvidia.com/gpu": "2", "cpu": "500m", "memory": "1Gi"},
                                            "limits": {"nvidia.com/gpu": "2"},
                                        },
                                    }
                                ],
                                "volumes": [
                                    {"name": "data", "hostPath": {"path": "/tmp", "type": "Directory"}},
                                    {"name": "out", "persistentVolumeClaim": {"claimName": "pvc-out"}},
                                    {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
                                ],
                            },
                        },
                    }
                },
            }
        ]
    },
}


def places(value: Any, at: tuple = ()) -> list[tuple]:
    inner: list[tuple] = [at] if at else []
    if isinstance(value, dict):
        return inner + [place for key, entry in value.items() for place in places(entry, (*at, key))]
    if isinstance(value, list):
        return inner + [place for index, item in enumerate(value) for place in places(item, (*at, index))]
    return inner


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 10**20)
    | st.just(10**400)
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["all", "0-9", "${x}", "???"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def changes_of(job: Any) -> st.SearchStrategy[list[tuple]]:
    one = st.tuples(st.sampled_from(places(job)), st.sampled_from(["set", "add", "drop"]), ANY)
    return st.lists(one, min_size=1, max_size=3)


def change(job: Any, at: tuple, how: str, value: Any) -> None:
    here = job
    for step in at[:-1]:
        if not (
            (isinstance(here, dict) and step in here)
            or (isinstance(here, list) and isinstance(step, int) and step < len(here))
        ):
            return
        here = here[step]
    if isinstance(here, dict) and isinstance(at[-1], str):
        if how == "drop":
            here.pop(at[-1], None)
        else:
            here[at[-1] if how == "set" else f"{at[-1]}x"] = value
    elif isinstance(here, list) and isinstance(at[-1], int) and at[-1] < len(here):
        if how == "set":
            here[at[-1]] = value
        elif how == "add":
            here.append(value)
        else:
            del here[at[-1]]


def ends_in_findings(check: Any, job: Any, changes: list[tuple]) -> None:
    job = copy.deepcopy(job)
    for at, how, value in changes:
        change(job, at, how, value)
    preview = check(json.dumps(job, ensure_ascii=False), folder=FOLDER)
    assert all(finding.code in CODES and finding.message for finding in preview.findings)
    assert (preview.plan is not None) is (preview.exit_code == 0)
    json.dumps(preview.to_json(), allow_nan=False)
    if preview.yaml:
        assert parse(preview.yaml).findings == []


SETTINGS = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@SETTINGS
@given(changes_of(JOB))
def test_any_value_anywhere_ends_in_findings(check, changes):
    ends_in_findings(check, JOB, changes)


@SETTINGS
@given(changes_of(OF_RLARK))
def test_any_value_anywhere_in_rlarks_form_ends_in_findings(check, changes):
    ends_in_findings(check, OF_RLARK, changes)
