from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from rlark.spec import load
from rlark.spec.emit import emit
from rlark.spec.generator import to_rlark
from rlark.spec.job import Job

RAY = """\
apiVersion: rlinf.io/v1alpha1
kind: Job
metadata:
  name: demo
  labels: {team: navigation}
spec:
  sshPublicKey: ssh-ed25519 AAAA
  tasks:
    - name: worker
      head: true
      nodeSelector: {kubernetes.io/hostname: box}
      prepareScript: |
        source .venv/bin/activate
      ray:
        image: registry.example.com/rlinf:v0.3.0
        resources: {cpu: 2, memory: 4Gi, gpu: 1, shm: 2Gi}
        env:
          - {name: MUJOCO_GL, value: egl}
          - {name: HF_TOKEN, valueFrom: {secretRef: {name: huggingface, key: token}}}
          - {name: RLARK_TASK_ROLE, value: other}
        mounts:
          - {name: data, hostPath: /data/inputs, mountPath: /mnt/dataset, readOnly: true}
          - {name: out, volume: goalnav-out, mountPath: /mnt/checkpoints}
          - {scratch: true, mountPath: /}
      runScript: |
        cd /workspace
        python train.py
      tensorBoardDir: /mnt/checkpoints/tb
"""
TASK = {
    "name": "worker",
    "head": True,
    "agentType": "Kubernetes",
    "role": "Actor",
    "nodeSelector": {"kubernetes.io/hostname": "box"},
    "prepareScript": "source .venv/bin/activate\n",
    "runScript": "cd /workspace\npython train.py\n",
    "tensorBoardDir": "/mnt/checkpoints/tb",
}
POD = {
    "containers": [
        {
            "name": "main",
            "image": "registry.example.com/rlinf:v0.3.0",
            "env": [
                {"name": "MUJOCO_GL", "value": "egl"},
                {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "huggingface", "key": "token"}}},
                {"name": "RLARK_TASK_ROLE", "value": "worker"},
            ],
            "volumeMounts": [
                {"name": "mnt-dataset", "mountPath": "/mnt/dataset", "readOnly": True},
                {"name": "mnt-checkpoints", "mountPath": "/mnt/checkpoints"},
                {"name": "vol", "mountPath": "/"},
                {"name": "dev-shm", "mountPath": "/dev/shm"},
            ],
            "resources": {
                "requests": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"},
                "limits": {"nvidia.com/gpu": "1"},
            },
        }
    ],
    "volumes": [
        {"name": "mnt-dataset", "hostPath": {"path": "/data/inputs"}},
        {"name": "mnt-checkpoints", "persistentVolumeClaim": {"claimName": "goalnav-out"}},
        {"name": "vol", "emptyDir": {}},
        {"name": "dev-shm", "emptyDir": {"medium": "Memory", "sizeLimit": "2Gi"}},
    ],
}


def job_of(text: str) -> Job:
    job = load(text).job
    assert job is not None
    return job


def export(text: str) -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    source = load(text)
    assert source.job is not None
    made, left_out = to_rlark(source.job, source.data)
    return made, [(found.severity, found.code, found.path) for found in left_out]


def test_a_job_of_ours_becomes_what_the_console_would_generate():
    made, left_out = export(RAY)
    workload = {
        "kind": "StatefulSet",
        "replicas": 1,
        "pvcStorageMap": {"goalnav-out": ""},
        "template": {"spec": POD},
    }
    assert made == {
        "apiVersion": "rlinf.io/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "demo", "labels": {"team": "navigation"}},
        "spec": {"tasks": [TASK | {"kubernetes": {"workload": workload}}], "sshPublicKey": "ssh-ed25519 AAAA"},
    }
    assert list(made["spec"]["tasks"][0]) == [*TASK, "kubernetes"]
    assert left_out == [("warning", "RL058", "spec.tasks[0].ray.mounts[1].volume")]


def test_what_was_exported_is_read_as_the_same_job():
    made, _ = export(RAY)
    again, before = job_of(emit(made)).worker.ray, job_of(RAY).worker.ray
    assert again.resources == before.resources.model_copy(update={"cpu": "2"})
    assert again.env == before.env[:2]
    assert [mount.model_copy(update={"name": ""}) for mount in again.mounts] == [
        mount.model_copy(update={"name": ""}) for mount in before.mounts
    ]
    assert (again.image, again.replicas) == (before.image, before.replicas)


@pytest.mark.parametrize("name", ["rlark-single-node-worker", "rlark-no-mounts"])
def test_a_job_of_the_console_comes_back_without_loss(shared, name):
    text = (shared / "cases" / f"{name}.json").read_text()
    made, left_out = export(text)
    assert (made, left_out) == (json.loads(text), [])
    assert yaml.safe_load(emit(made)) == json.loads(text)
    assert list(made["spec"]["tasks"][0]) == list(json.loads(text)["spec"]["tasks"][0])


def test_the_console_would_generate_its_own_job_again(shared):
    """The Ray form of the console's example, exported, is what the console posted."""
    data = json.loads((shared / "cases/rlark-single-node-worker.json").read_text())
    worker = job_of(json.dumps(data)).worker
    ray = worker.ray.model_dump(by_alias=True, exclude_defaults=True)
    ours = {key: value for key, value in data["spec"]["tasks"][0].items() if key not in {"kubernetes", "agentType"}}
    made, _ = export(json.dumps(data | {"spec": {"tasks": [ours | {"ray": ray}]}}))
    claims = made["spec"]["tasks"][0]["kubernetes"]["workload"]["pvcStorageMap"]
    claims[next(iter(claims))] = "ceph-rbd"
    assert made == data


OURS = """\
  priority: 3
  restartPolicy: OnFailure
  backoffLimit: 2
  activeDeadline: 2h
  terminationGrace: 1m
"""


@pytest.mark.parametrize("kubernetes", [False, True])
def test_what_rlark_cannot_carry_is_named_and_left_out(kubernetes):
    made, _ = export(RAY)
    text = emit(made) if kubernetes else RAY
    data = yaml.safe_load(text)
    data["spec"] |= yaml.safe_load(OURS)
    task = data["spec"]["tasks"][0]
    task["expect"] = {"gate": True}
    beside = {"config": {"inline": {"cluster": {"num_nodes": 1}}}, "head": "job", "sandbox": "none"}
    task["ray"] = task.get("ray", {}) | beside
    exported, left_out = export(json.dumps(data))
    assert exported == made
    keys = ("priority", "restartPolicy", "backoffLimit", "activeDeadline", "terminationGrace")
    named = [*(f"spec.{key}" for key in keys), "spec.tasks[0].expect", *(f"spec.tasks[0].ray.{key}" for key in beside)]
    assert [path for _, _, path in left_out if not path.endswith("volume")] == named
    assert {(severity, code) for severity, code, _ in left_out} == {("warning", "RL058")}


def test_what_rlark_needs_and_the_job_does_not_say_is_named():
    bare = """\
apiVersion: rlinf.io/v1alpha1
kind: Job
metadata: {name: demo}
spec:
  tasks:
    - {name: worker, head: true, tensorBoardDir: tb, ray: {config: {path: c.yaml}}}
"""
    made, left_out = export(bare)
    assert [path for _, _, path in left_out] == [
        "spec.tasks[0].ray.config",
        "spec.tasks[0].runScript",
        "spec.tasks[0].ray.image",
        "spec.tasks[0].nodeSelector",
        "spec.tasks[0].ray.resources.gpu",
        "spec.tasks[0].tensorBoardDir",
    ]
    (container,) = made["spec"]["tasks"][0]["kubernetes"]["workload"]["template"]["spec"]["containers"]
    assert container == {"name": "main", "env": [{"name": "RLARK_TASK_ROLE", "value": "worker"}]}


@pytest.mark.parametrize("value", ["$(A)", "$$", "$$(A)", "$$$(A)$", "$A", "a$", "$(", "", "${A} $(B) $$$$"])
def test_values_survive_the_expansion_of_a_pod(value):
    data = yaml.safe_load(RAY)
    data["spec"]["tasks"][0]["ray"]["env"] = [{"name": "A", "value": "one"}, {"name": "V", "value": value}]
    made, _ = export(json.dumps(data))
    assert job_of(json.dumps(made)).worker.ray.env[1].value == value


def test_volumes_that_rlark_would_give_one_name_get_two():
    data = yaml.safe_load(RAY)
    paths = ["/mnt/a-b", "/mnt/a/b", "/mnt/A_B", "/" + "x" * 100, "/" + "x" * 101]
    data["spec"]["tasks"][0]["ray"]["mounts"] = [{"scratch": True, "mountPath": path} for path in paths]
    made, _ = export(json.dumps(data))
    volumes = made["spec"]["tasks"][0]["kubernetes"]["workload"]["template"]["spec"]["volumes"]
    names = [volume["name"] for volume in volumes]
    assert names == ["mnt-a-b", "mnt-a-b-2", "mnt-a-b-3", "x" * 59, "x" * 59 + "-2", "dev-shm"]
    assert [mount.mount_path for mount in job_of(json.dumps(made)).worker.ray.mounts] == paths
