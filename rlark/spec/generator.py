"""A Job in RLark's form, as its console's generator writes it; what RLark cannot carry is named.

A Job in the Kubernetes form comes back as it was written. Of one in ours, the worker becomes a
StatefulSet with one container `main`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from rlark.spec.finding import Finding
from rlark.spec.job import KUBERNETES, EnvVar, Job, Mount, Ray, Spec, Worker
from rlark.spec.reading import RAY, TASK
from rlark.spec.workload import GPU, MAIN

ROLE = "Actor"
"""The role that RLark gives to every name it does not know; it must have one, and nothing reads it."""
_ROLE_VARIABLE = "RLARK_TASK_ROLE"
_SHM = {"name": "dev-shm", "mountPath": "/dev/shm"}  # noqa: S108 - where a pod's shared memory is mounted
_LONGEST = 63
_NO_CONFIG = "RLark reads no configuration: lay the file into the image or a mount, and let runScript name it"
_NO_PROOF = "RLark does not look whether a run did its work"
_ONE_HEAD = "RLark always starts a Ray head in the pod"
_OURS: dict[type[BaseModel], dict[str, str]] = {
    Spec: {
        "priority": "RLark has no queue",
        "restart_policy": "RLark starts the run again whenever it ends, also when it succeeded",
        "backoff_limit": "RLark starts the run again without a limit",
        "active_deadline": "RLark lets a run take as long as it likes",
        "termination_grace": "a stopped pod has 30 seconds",
    },
    Worker: {"expect": _NO_PROOF},
    Ray: {"config": _NO_CONFIG, "head": _ONE_HEAD, "sandbox": "a pod is fenced in by its container"},
}
"""What only rlark knows, and what holds in RLark instead."""


def to_rlark(job: Job, written: Mapping[str, Any]) -> tuple[dict[str, Any], list[Finding]]:
    """The Job in RLark's form, as plain values, and what of it RLark cannot carry.

    Args:
        job: the Job.
        written: the values it was read from; a Job in the Kubernetes form comes back from them without loss.
    """
    worker = job.worker
    found = [*_ours(job.spec, "spec"), *_ours(worker, TASK), *_ours(worker.ray, RAY)]
    if worker.from_kubernetes:
        return _as_written(written), found
    metadata = job.metadata.model_dump(by_alias=True)
    spec = {"domain": job.spec.domain, "sshPublicKey": job.spec.ssh_public_key, "stopped": job.spec.stopped}
    made = {
        "apiVersion": job.api_version,
        "kind": job.kind,
        "metadata": {key: value for key, value in metadata.items() if value},
        "spec": {"tasks": [_task(task) for task in job.spec.tasks]}
        | {key: value for key, value in spec.items() if value},
    }
    return made, [*found, *_lacking(worker)]


def _ours(part: BaseModel, path: str) -> Iterator[Finding]:
    """What of a part RLark has no word for, where it says something."""
    for name, why in _OURS[type(part)].items():
        field = type(part).model_fields[name]
        if getattr(part, name) != field.get_default(call_default_factory=True):
            yield _told(f"{path}.{field.alias}", f"{field.alias} is left out: {why}")


def _told(path: str, message: str, hint: str | None = None) -> Finding:
    return Finding(code="RL058", severity="warning", path=path, message=message, hint=hint)


def _as_written(written: Mapping[str, Any]) -> dict[str, Any]:
    """The values without what only rlark knows."""
    spec = {key: value for key, value in written["spec"].items() if key not in _words(Spec)}
    spec["tasks"] = [
        {key: value for key, value in task.items() if key not in {"ray", *_words(Worker)}} for task in spec["tasks"]
    ]
    return {**written, "spec": spec}


def _words(part: type[BaseModel]) -> set[str]:
    return {part.model_fields[name].alias or name for name in _OURS[part]}


def _task(worker: Worker) -> dict[str, Any]:
    ray = worker.ray
    names = _volume_names(ray.mounts)
    claims = {mount.volume: "" for mount in ray.mounts if mount.volume is not None}
    volumes = [{"name": name} | _volume(mount) for name, mount in zip(names, ray.mounts, strict=True)]
    if ray.resources.shm is not None:
        volumes.append({"name": _SHM["name"], "emptyDir": {"medium": "Memory", "sizeLimit": str(ray.resources.shm)}})
    workload = {
        "kind": "StatefulSet",
        "replicas": ray.replicas,
        **({"pvcStorageMap": claims} if claims else {}),
        "template": {"spec": {"containers": [_container(worker, names)], "volumes": volumes}},
    }
    task = {
        "name": worker.name,
        "head": worker.head,
        "agentType": KUBERNETES,
        "role": worker.role or ROLE,
        "nodeSelector": worker.node_selector,
        "prepareScript": worker.prepare_script,
    }
    scripts = {"runScript": worker.run, "tensorBoardDir": worker.tensor_board_dir}
    return task | {key: text for key, text in scripts.items() if text} | {"kubernetes": {"workload": workload}}


def _container(worker: Worker, names: list[str]) -> dict[str, Any]:
    ray = worker.ray
    env = [_variable(variable) for variable in ray.env if variable.name != _ROLE_VARIABLE]
    mounts = [_volume_mount(name, mount) for name, mount in zip(names, ray.mounts, strict=True)]
    mounts += [dict(_SHM)] if ray.resources.shm is not None else []
    container = {
        "name": MAIN,
        "image": ray.image,
        "env": [*env, {"name": _ROLE_VARIABLE, "value": worker.name}],
        "volumeMounts": mounts,
        "resources": _resources(ray),
    }
    return {key: value for key, value in container.items() if value}


def _variable(variable: EnvVar) -> dict[str, Any]:
    if variable.value_from is not None:
        ref = variable.value_from.secret_ref
        return {"name": variable.name, "valueFrom": {"secretKeyRef": {"name": ref.name, "key": ref.key}}}
    # a pod puts other variables' values in place of $(NAME), and reads $$ as $
    literal = re.sub(r"\$+(?=\()|\${2,}", lambda match: match[0] * 2, variable.value or "")
    return {"name": variable.name, "value": literal}


def _resources(ray: Ray) -> dict[str, Any]:
    """Requests and limits, as texts; no GPU is no entry."""
    taken, gpus = ray.resources, {GPU: str(ray.resources.gpu)} if ray.resources.gpu else {}
    default = type(taken).model_fields["cpu"].default
    requests = {"cpu": str(taken.cpu)} if taken.cpu != default else {}
    requests |= {"memory": str(taken.memory)} if taken.memory is not None else {}
    made = {"requests": requests | gpus, "limits": dict(gpus)}
    return {key: value for key, value in made.items() if value}


def _volume_names(mounts: list[Mount]) -> list[str]:
    """A name for each volume, made of its mount path as RLark does, and then valid and unlike the others."""
    names: list[str] = []
    for mount in mounts:
        slug = re.sub(r"[^a-z0-9]+", "-", mount.mount_path.lower()).strip("-")[: _LONGEST - 4].strip("-") or "vol"
        same = sum(name == slug or re.fullmatch(rf"{re.escape(slug)}-\d+", name) is not None for name in names)
        names.append(f"{slug}-{same + 1}" if same else slug)
    return names


def _volume(mount: Mount) -> dict[str, Any]:
    if mount.host_path is not None:
        return {"hostPath": {"path": mount.host_path}}
    if mount.volume is not None:
        return {"persistentVolumeClaim": {"claimName": mount.volume}}
    return {"emptyDir": {}}


def _volume_mount(name: str, mount: Mount) -> dict[str, Any]:
    return {"name": name, "mountPath": mount.mount_path} | ({"readOnly": True} if mount.read_only else {})


def _lacking(worker: Worker) -> Iterator[Finding]:
    """What RLark needs and the Job does not say."""
    ray = worker.ray
    if not worker.run:
        message = "RLark runs nothing but a run script, and the Job has none: its pod would only keep Ray alive"
        yield _told(f"{TASK}.runScript", message, "write the command that trains with the configuration")
    if not ray.image:
        yield _told(f"{RAY}.image", "RLark drops a role without an image in silence", "write ray.image")
    if not worker.node_selector:
        message = "RLark finds the cluster by the selector, and without one nobody takes the Job"
        yield _told(f"{TASK}.nodeSelector", message, "select the node by kubernetes.io/hostname")
    if ray.resources.gpu is None and ray.config is not None:
        message = "no GPUs are requested, and RLark does not read how many the placement needs"
        yield _told(f"{RAY}.resources.gpu", message, "write ray.resources.gpu")
    if worker.tensor_board_dir and not worker.tensor_board_dir.startswith("/"):
        message = f"{worker.tensor_board_dir!r} is no path of the container"
        yield _told(f"{TASK}.tensorBoardDir", message, "write an absolute path below a mount")
    for index, mount in enumerate(ray.mounts):
        if mount.volume is not None:
            message = f"the storage class of the claim {mount.volume} is not known here and left empty"
            yield _told(f"{RAY}.mounts[{index}].volume", message, "write it into pvcStorageMap")
