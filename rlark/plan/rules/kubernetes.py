"""RLark's Kubernetes form: that it stands where it is read, and that a robot it asks for is safe.

What the section itself says is read, and its faults are told, by rlark.spec.rlark.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from rlark.plan.rules.rule import TASK, Case, Rule
from rlark.spec.finding import Finding
from rlark.spec.job import KUBERNETES, SAFETY_CONFIRMED
from rlark.spec.path import child
from rlark.spec.reading import POD, SECTION
from rlark.spec.unused import is_device, no_use
from rlark.spec.workload import MAIN, Container, Section


def _section(case: Case) -> Iterator[Finding]:
    worker = case.worker
    if worker.agent_type == KUBERNETES and not (worker.kubernetes or {}).get("workload"):
        yield Finding(
            code="RL050",
            path=f"{TASK}.agentType" if worker.kubernetes is None else SECTION,
            message="agentType is Kubernetes, and there is no kubernetes.workload to read",
            hint="write agentType: Ray, or add kubernetes.workload as RLark's console writes it",
        )
    elif worker.agent_type == "Ray" and worker.kubernetes is not None:
        yield Finding(
            code="RL050",
            path=SECTION,
            message="a kubernetes section is read with agentType Kubernetes only, and agentType is Ray",
            expected=KUBERNETES,
            actual=worker.agent_type,
            hint=f"write agentType: {KUBERNETES}, or remove the section",
        )


def _devices(case: Case) -> Iterator[Finding]:
    """Robots that the container asks for: not without the confirmation that it is safe."""
    confirmed = case.job.metadata.annotations.get(SAFETY_CONFIRMED) == "true"
    for path, device in _asked(case.worker.kubernetes or {}):
        if confirmed:
            yield no_use(path, f"the device {device[:60]}", "robots are not leased; see that no other Job uses it")
        else:
            yield Finding(
                code="RL160",
                path=path,
                message=f"{device[:60]} is a real device, and nobody has confirmed that it is safe",
                actual=device[:60],
                hint="see that device and site are safe, then annotate the Job: "
                f'metadata.annotations["{SAFETY_CONFIRMED}"]: "true"',
            )


def _asked(section: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Place and name of each device, once."""
    try:
        workload = Section.model_validate(section).workload
    except ValidationError:  # told by whoever read it
        return
    for index, container in enumerate(workload.template.spec.containers if workload is not None else ()):
        if container is not None and container.name == MAIN:
            yield from _devices_of(container, f"{POD}.containers[{index}].resources")


def _devices_of(container: Container, path: str) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for key in ("requests", "limits"):
        amounts = getattr(container.resources, key).model_extra or {}
        for name, amount in amounts.items():
            if is_device(name) and name not in seen and str(amount) != "0":
                seen.add(name)
                yield child(f"{path}.{key}", name), name


RULES = (
    Rule(_section, (f"{TASK}.agentType", SECTION)),
    Rule(_devices, ("metadata.annotations", SECTION)),
)
