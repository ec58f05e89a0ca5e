"""What RLark's Kubernetes form says and one machine has no use for: named one by one, never dropped in silence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rlark.spec.finding import Finding
from rlark.spec.nearest import did_you_mean
from rlark.spec.path import child
from rlark.spec.workload import GPU, MAIN, Amounts, Container, EmptyDir, Part, PodSpec, Variable, Volume, Workload

_NO_POD = "the Job is processes of this host, and not a pod"
_SCRIPTS = "RLark replaces it too: prepareScript and runScript say what runs"
_NOT_PROBED = "nobody probes the Job; expect.firstSignal proves that it works"
_NOT_CHANGED = "the Job runs as the user who started the platform, with that user's rights"
_NO_IMAGE = "no image is pulled: the Job runs on this host"
_ONE_NODE = "nodeSelector of the task chooses the node"
_OTHER_CONTAINERS = "only the container main is run; do its work in prepareScript or runScript"
_NOT_SET = "the variable is not set"

_OF_CONTAINER = {
    "command": _SCRIPTS,
    "args": _SCRIPTS,
    "workingDir": "the run starts in the job folder's work/; write cd in prepareScript",
    "ports": "the Job opens its ports on this host by itself",
    "livenessProbe": _NOT_PROBED,
    "readinessProbe": _NOT_PROBED,
    "startupProbe": _NOT_PROBED,
    "lifecycle": "write what comes first into prepareScript, and trap EXIT for what comes last",
    "securityContext": _NOT_CHANGED,
    "imagePullPolicy": _NO_IMAGE,
    "restartPolicy": "spec.restartPolicy says whether a failed attempt is followed by another",
    "stdin": "the run reads nothing from standard input",
    "stdinOnce": "the run reads nothing from standard input",
    "tty": "the run has no terminal",
    "terminationMessagePath": "the last lines of the log say why the run ended",
    "terminationMessagePolicy": "the last lines of the log say why the run ended",
    "volumeDevices": "a device of this host is simply there",
    "resizePolicy": _NO_POD,
    "restartPolicyRules": "spec.restartPolicy says whether a failed attempt is followed by another",
}
_OF_POD = {
    "initContainers": _OTHER_CONTAINERS,
    "ephemeralContainers": _OTHER_CONTAINERS,
    "restartPolicy": "the Job runs once unless spec.restartPolicy is OnFailure",
    "terminationGracePeriodSeconds": "spec.terminationGrace says how long a stopped Job may take",
    "activeDeadlineSeconds": "spec.activeDeadline says how long an attempt may take",
    "nodeSelector": _ONE_NODE,
    "nodeName": _ONE_NODE,
    "affinity": _ONE_NODE,
    "tolerations": _ONE_NODE,
    "topologySpreadConstraints": _ONE_NODE,
    "schedulerName": _ONE_NODE,
    "schedulingGates": _ONE_NODE,
    "priority": "spec.priority says which Job runs earlier",
    "priorityClassName": "spec.priority says which Job runs earlier",
    "preemptionPolicy": "no Job drives another out",
    "serviceAccount": "there is no Kubernetes API that it could open",
    "serviceAccountName": "there is no Kubernetes API that it could open",
    "automountServiceAccountToken": "there is no Kubernetes API that it could open",
    "imagePullSecrets": _NO_IMAGE,
    "securityContext": _NOT_CHANGED,
    "hostNetwork": "the Job always has this host's network",
    "hostPID": _NO_POD,
    "hostIPC": _NO_POD,
    "hostUsers": _NO_POD,
    "hostname": "the Job has this host's name",
    "hostnameOverride": "the Job has this host's name",
    "subdomain": "the Job has this host's name",
    "setHostnameAsFQDN": "the Job has this host's name",
    "hostAliases": "names are resolved as on this host",
    "dnsPolicy": "names are resolved as on this host",
    "dnsConfig": "names are resolved as on this host",
    "shareProcessNamespace": "there is one container",
    "enableServiceLinks": "there are no services",
    "runtimeClassName": _NO_POD,
    "overhead": _NO_POD,
    "os": _NO_POD,
    "readinessGates": _NOT_PROBED,
    "resourceClaims": "only nvidia.com/gpu, cpu and memory are leased",
    "resources": "only the resources of the container main are leased",
    "workloadRef": _NO_POD,
}
_OF_VARIABLE_SOURCE = {"fieldRef": f"{_NO_POD}, so {_NOT_SET}", "resourceFieldRef": f"{_NO_POD}, so {_NOT_SET}"}
_OF_MOUNT = {
    "mountPropagation": "what is mounted later is not seen",
    "recursiveReadOnly": "readOnly holds for the whole folder",
}
_OF_TEMPLATE = {"metadata": f"{_NO_POD}; labels and annotations of the Job stand under metadata"}
_OF_WORKLOAD = {
    "selector": _NO_POD,
    "serviceName": _NO_POD,
    "updateStrategy": _NO_POD,
    "strategy": _NO_POD,
    "podManagementPolicy": _NO_POD,
    "minReadySeconds": _NO_POD,
    "revisionHistoryLimit": _NO_POD,
    "volumeClaimTemplates": "claims stand in pvcStorageMap",
}
_OF_CLAIM_OR_RESOURCES = {"claims": "only nvidia.com/gpu, cpu and memory are leased"}
_KNOWN: dict[str, Mapping[str, str]] = {
    "Container": _OF_CONTAINER,
    "PodSpec": _OF_POD,
    "VariableSource": _OF_VARIABLE_SOURCE,
    "VolumeMount": _OF_MOUNT,
    "Template": _OF_TEMPLATE,
    "Workload": _OF_WORKLOAD,
    "PodResources": _OF_CLAIM_OR_RESOURCES,
}
"""Model -> keys that Kubernetes has there and that have no meaning here, and why."""
_MISSPELT_GPU = {"gpu", "gpus", "nvidia.com/gpus", "nvidia/gpu", "nvidia.com.gpu"}
_DEVICE = "rlinf.io/device"


def is_device(resource: str) -> bool:
    """True for the resource of a robot, with or without a model: a rule asks whether it is safe."""
    return resource == _DEVICE or resource.startswith(f"{_DEVICE}-")


def no_use(path: str, what: str, why: str, hint: str | None = None) -> Finding:
    """The finding about a thing that has no meaning on one machine.

    Args:
        path: where it stands.
        what: the thing, as the start of a sentence.
        why: what holds instead.
        hint: how to mend it, where leaving it out is not all.
    """
    return Finding(code="RL056", severity="warning", path=path, message=f"{what} has no meaning here: {why}", hint=hint)


def in_workload(workload: Workload, main: int | None, path: str) -> Iterator[Finding]:
    """Everything that is not read.

    Args:
        workload: the workload.
        main: which container is the Job's; None where there is none.
        path: the workload's place.
    """
    if workload.kind:
        why = "the Job runs once and is not restarted when it ends"
        hint = "for further attempts after a failure write spec.restartPolicy: OnFailure and spec.backoffLimit"
        yield no_use(f"{path}.kind", f"the workload's kind {workload.kind[:60]}", why, hint)
    yield from unread(workload, path)
    template, pod = f"{path}.template", f"{path}.template.spec"
    yield from unread(workload.template, template)
    yield from unread(workload.template.spec, pod)
    for index, container in enumerate(workload.template.spec.containers):
        place = f"{pod}.containers[{index}]"
        if container is not None and index == main:
            yield from _in_container(container, place)
        elif container is not None and container.name != MAIN and main is not None:
            yield no_use(place, f"the container {container.name[:60]}", _OTHER_CONTAINERS)
    yield from _in_volumes(workload.template.spec, main, pod)


def _in_container(container: Container, path: str) -> Iterator[Finding]:
    if "envFrom" in (container.model_extra or {}):
        hint = "list the variables one by one under env, secrets by secretKeyRef"
        yield _not_read(f"{path}.envFrom", "envFrom is not read here: its variables would not be set", hint)
    yield from unread(container, path, but="envFrom")
    for index, variable in enumerate(container.env):
        if variable is not None:
            yield from _in_variable(variable, f"{path}.env[{index}]")
    for index, mount in enumerate(container.volume_mounts):
        if mount is not None:
            yield from unread(mount, f"{path}.volumeMounts[{index}]", but="subPathExpr")
    resources = container.resources
    yield from unread(resources, f"{path}.resources")
    seen: set[str] = set()
    for key in ("requests", "limits"):
        yield from _in_amounts(getattr(resources, key), f"{path}.resources.{key}", seen)


def _in_variable(variable: Variable, path: str) -> Iterator[Finding]:
    yield from unread(variable, path)
    source, place = variable.value_from, f"{path}.valueFrom"
    if source is None:
        return
    if "configMapKeyRef" in (source.model_extra or {}):
        message = f"there are no config maps here, so {variable.name} would not be set"
        yield _not_read(f"{place}.configMapKeyRef", message, "write its value")
    yield from unread(source, place, but="configMapKeyRef")
    if source.secret_key_ref is not None:
        yield from unread(source.secret_key_ref, f"{place}.secretKeyRef")
        if source.secret_key_ref.optional:
            why = "a Job whose secret is missing is not started"
            yield no_use(f"{place}.secretKeyRef.optional", "optional", why)


def _in_amounts(amounts: Amounts, path: str, seen: set[str]) -> Iterator[Finding]:
    """Resources that are not counted, each once."""
    for name in amounts.model_extra or {}:
        if name in seen or is_device(name):
            continue
        seen.add(name)
        near = GPU if name.lower() in _MISSPELT_GPU else did_you_mean(name, ["cpu", "memory"])
        if near is not None:
            yield _slip(child(path, name), name, near)
        else:
            yield no_use(child(path, name), f"the resource {name[:60]}", f"only {GPU}, cpu and memory are leased")


def _in_volumes(pod: PodSpec, main: int | None, path: str) -> Iterator[Finding]:
    container = pod.containers[main] if main is not None else None
    if container is None:
        return
    used = {mount.name for mount in container.volume_mounts if mount is not None}
    for index, volume in enumerate(pod.volumes):
        if volume is None:
            continue
        place = f"{path}.volumes[{index}]"
        if volume.name not in used:
            if None not in container.volume_mounts:  # which could not be read, and may mount it
                yield no_use(place, f"the volume {volume.name[:60]}", "the container main does not mount it")
            continue
        if volume.empty_dir is not None:
            yield from unread(volume.empty_dir, f"{place}.emptyDir")
        if volume.persistent_volume_claim is not None:
            yield from unread(volume.persistent_volume_claim, f"{place}.persistentVolumeClaim")
        yield from _in_host_path(volume, place)


def _in_host_path(volume: Volume, path: str) -> Iterator[Finding]:
    source = volume.host_path
    if source is None:
        return
    yield from unread(source, f"{path}.hostPath")
    if source.type not in {"", "Directory"}:
        why = "the folder must be there, and rlark neither creates it nor looks at its kind"
        yield no_use(f"{path}.hostPath.type", f"the type {source.type[:60]}", why)


def of_scratch(empty: EmptyDir, path: str) -> Iterator[Finding]:
    """What is not honoured of an emptyDir that becomes a scratch folder.

    Args:
        empty: the emptyDir.
        path: its place.
    """
    if empty.medium:
        why = "the folder lies on the disk where jobs are kept"
        yield no_use(f"{path}.medium", f"the medium {empty.medium[:60]}", why)
    if empty.size_limit is not None:
        yield no_use(f"{path}.sizeLimit", "the size limit", "the size of a scratch folder is not limited")


def unread(part: Part, path: str, but: str = "") -> Iterator[Finding]:
    """Keys of a part that are not read: a slip is an error, anything else a warning.

    Args:
        part: the part.
        path: its place.
        but: a key of which more is said elsewhere.
    """
    kind = type(part)
    known = _KNOWN.get(kind.__name__, {})
    read = [field.alias or name for name, field in kind.model_fields.items()]
    for key in part.model_extra or {}:
        place = child(path, key)
        near = did_you_mean(key, [*read, *known])
        if key == but:
            continue
        if key in known:
            yield no_use(place, key, known[key])
        elif near in read:
            yield _slip(place, key, near)
        else:
            yield no_use(place, f"the key {key[:60]!r}", "nothing reads it", near and f"did you mean {near}?")


def _slip(path: str, key: str, near: str) -> Finding:
    message = f"the key {key[:60]!r} is not known here"
    return Finding(
        code="RL023", path=path, message=message, expected=near, actual=key[:60], hint=f"did you mean {near}?"
    )


def _not_read(path: str, message: str, hint: str) -> Finding:
    return Finding(code="RL057", path=path, message=message, hint=hint)
