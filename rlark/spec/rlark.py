"""RLark's Kubernetes form of a Job, read into the same model as ours.

    kubernetes.workload -> the values of `ray`, and where each of them is written

The section itself stays as it was written; what it says is put under `ray`, which beside it may
carry only what RLark has no word for: config, head and sandbox.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from rlark.spec.finding import Finding
from rlark.spec.invalid import Codes
from rlark.spec.job import BESIDE_KUBERNETES, Ray
from rlark.spec.mend import read
from rlark.spec.path import join, steps, within
from rlark.spec.pod_mounts import read_mounts
from rlark.spec.quantity import cpu_count, memory_bytes
from rlark.spec.reading import POD, RAY, SECTION, WORKLOAD, Reading
from rlark.spec.unused import in_workload, no_use, unread
from rlark.spec.workload import GPU, MAIN, Container, PodResources, Section, Variable, Workload, gpu_count

CODES = Codes(unknown="RL023", missing="RL057", kind="RL057", value="RL057")
GENERATED = {("RLARK_TASK_ROLE", "worker"), ("RLARK_TOTAL_NODES", "1"), ("RLINF_NODE_RANK", "0")}
"""Variables of RLark's with the value the platform gives them anyway; its console writes the first."""

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_.-][A-Za-z0-9_.-]*)\)")
_AMOUNTS = {"gpu": GPU, "cpu": "cpu", "memory": "memory"}
"""Our resource -> its key in requests and limits."""
_ALL = [f"{RAY}.{name}" for name in ("replicas", "image", "resources", "env", "mounts")]
"""What the section says, and what is missing where its container cannot be read."""


def read_kubernetes(section: Mapping[str, Any], beside: object = None) -> Reading:
    """Read the `kubernetes` section of the worker.

    Args:
        section: the section, as it was written.
        beside: what is written under `ray`; the section decides, and it must not say anything else.
    """
    reading = Reading()
    mended = read(Section, section, CODES, path=SECTION, holes=True)
    reading.findings += [one.finding for one in mended.invalid]
    reading.spoiled += mended.spoiled
    workload = mended.model.workload if mended.model is not None else None
    if mended.model is not None:
        _note(reading, unread(mended.model, SECTION))
    if workload is not None:
        _read_workload(reading, workload)
    elif reading.spoiled:
        reading.spoiled += _ALL
    if isinstance(beside, Mapping):
        _compare(reading, beside)
    reading.findings = list(dict.fromkeys(reading.findings))
    return reading


def _note(reading: Reading, findings: Iterable[Finding]) -> None:
    """Take what is not read; of a slip, what was meant is missing."""
    for found in findings:
        reading.findings.append(found)
        if found.code == CODES.unknown and found.expected:
            reading.spoiled.append(join("", [*steps(found.path)[:-1], found.expected]))


def _read_workload(reading: Reading, workload: Workload) -> None:
    reading.ray["replicas"] = workload.replicas
    reading.places[f"{RAY}.replicas"] = f"{WORKLOAD}.replicas"
    containers = workload.template.spec.containers
    mains = [index for index, container in enumerate(containers) if container is not None and container.name == MAIN]
    main = mains[0] if mains else None
    _note(reading, in_workload(workload, main, WORKLOAD))
    if len(mains) != 1:
        if mains or not reading.may_hold_more(containers, f"{POD}.containers"):
            _refuse_mains(reading, workload, mains)
        reading.spoiled += _ALL
    container = containers[main] if main is not None else None
    if container is not None:
        _read_container(reading, workload, container, f"{POD}.containers[{main}]")


def _refuse_mains(reading: Reading, workload: Workload, mains: list[int]) -> None:
    containers = [container for container in workload.template.spec.containers if container is not None]
    if mains:
        path, message = f"{POD}.containers[{mains[1]}].name", f"two containers are named {MAIN}"
        hint = "keep one of them"
    elif containers:
        names = ", ".join(container.name for container in containers)[:120]
        path, message = (
            f"{POD}.containers[0].name",
            f"no container is named {MAIN}, only {names}; RLark and rlark run that one",
        )
        hint = f"name the container of the Job {MAIN}"
    else:
        path, message = f"{POD}.containers", "there is no container, so nothing says what the Job takes"
        hint = f"add containers: [{{name: {MAIN}}}]"
    reading.refuse("RL051", path, message, hint, spoils=path)


def _read_container(reading: Reading, workload: Workload, container: Container, path: str) -> None:
    if container.image is not None:
        reading.ray["image"] = container.image
    reading.places[f"{RAY}.image"] = f"{path}.image"
    _read_env(reading, container.env, f"{path}.env")
    _read_resources(reading, container.resources, f"{path}.resources")
    read_mounts(reading, workload, container, path)


# variables


def _read_env(reading: Reading, variables: list[Variable | None], path: str) -> None:
    env: list[dict[str, Any]] = []
    known: dict[str, str] = {}
    reading.places[f"{RAY}.env"] = path
    for index, variable in enumerate(variables):
        if variable is None:
            continue
        made = _variable(reading, variable, f"{path}[{index}]", known)
        if made is None or (variable.name, made.get("value")) in GENERATED:
            continue
        here = f"{RAY}.env[{len(env)}]"
        reading.places[here] = f"{path}[{index}]"
        reading.places[f"{here}.valueFrom.secretRef"] = f"{path}[{index}].valueFrom.secretKeyRef"
        env.append(made)
    if env:
        reading.ray["env"] = env


def _variable(reading: Reading, variable: Variable, path: str, known: dict[str, str]) -> dict[str, Any] | None:
    """A variable as it would stand under `ray`; None where it is not set."""
    source = variable.value_from
    if variable.value and source is not None:
        message = f"the variable {variable.name[:80]} has value and valueFrom"
        reading.refuse("RL034", path, message, "keep one of them", spoils=path)
        return None
    if source is None:
        value = known[variable.name] = _expanded(variable.value or "", known)
        return {"name": variable.name, "value": value}
    if source.secret_key_ref is None:
        return None
    secret = {"name": source.secret_key_ref.name, "key": source.secret_key_ref.key}
    return {"name": variable.name, "valueFrom": {"secretRef": secret}}


def _expanded(value: str, known: Mapping[str, str]) -> str:
    """The value with `$(NAME)` replaced by that of a variable before it, and `$$` by `$`, as Kubernetes does."""

    def replaced(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else known.get(name, match[0])

    return _REFERENCE.sub(replaced, value)


# resources


def _read_resources(reading: Reading, resources: PodResources, path: str) -> None:
    reading.places[f"{RAY}.resources"] = path
    for ours, theirs in _AMOUNTS.items():
        name = "gpu" if ours == "gpu" else theirs
        requested, limit = getattr(resources.requests, name), getattr(resources.limits, name)
        key = f'["{GPU}"]' if ours == "gpu" else f".{theirs}"
        at_limit = requested is None and limit is not None
        reading.places[f"{RAY}.resources.{ours}"] = f"{path}.{'limits' if at_limit else 'requests'}{key}"
        amount = limit if requested is None else requested
        if amount is not None:
            made = gpu_count(amount) if ours == "gpu" else amount
            reading.ray.setdefault("resources", {})[ours] = made
        if requested is not None and limit is not None:
            _compare_limit(reading, ours, requested, limit, f"{path}.limits{key}")


def _compare_limit(reading: Reading, name: str, requested: Any, limit: Any, path: str) -> None:
    """What is requested and the limit: GPUs agree, and no request is above its limit."""
    amount = {"gpu": gpu_count, "cpu": cpu_count, "memory": memory_bytes}[name]
    asked, most = amount(requested), amount(limit)
    if asked == most:
        return
    if name == "gpu" or asked > most:
        message = f"{requested} is requested of {_AMOUNTS[name]}, and the limit is {limit}"
        hint = "write the same number in both" if name == "gpu" else "request no more than the limit"
        reading.refuse("RL052", path, message, hint, spoils=f"{RAY}.resources.{name}")
    else:
        why = f"the {requested} that is requested is leased, and nothing is enforced"
        reading.findings.append(no_use(path, f"the limit {limit}", why))


# what stands beside the section


def _compare(reading: Reading, beside: Mapping[str, Any]) -> None:
    """Refuse what `ray` says otherwise than the section."""
    for key in beside:
        if key in BESIDE_KUBERNETES or not _says_otherwise(key, beside[key], reading.ray):
            continue
        place = f"{RAY}.{key}"
        told = reading.places.get(place, f"{WORKLOAD}.template")
        message = f"{key} is read from the kubernetes section, which says something else"
        reading.places = {known: to for known, to in reading.places.items() if not within(known, place)}
        reading.refuse("RL052", place, message, f"remove it, and write it under {told}", spoils=place)


def _says_otherwise(key: str, value: object, read_values: Mapping[str, Any]) -> bool:
    """True when a value differs; a key that `ray` does not have is told by the Job's own form."""
    name = next((name for name, field in Ray.model_fields.items() if key == (field.alias or name)), None)
    if name is None:
        return False
    section = Ray.model_validate({key: read_values[key]} if key in read_values else {})
    try:
        return bool(getattr(Ray.model_validate({key: value}), name) != getattr(section, name))
    except ValidationError:
        return True
