"""The shape of a Job on one node: names, counts, variables and mounts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import normpath

from rlark.plan.rules.rule import RAY, TASK, Case, Rule
from rlark.spec.finding import Finding
from rlark.spec.job import API_VERSION, COMPONENTS, KIND, WORKER
from rlark.spec.nearest import did_you_mean
from rlark.spec.path import child

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 63
_PLATFORMS_OWN = re.compile(
    r"RLARK_(?:JOB|JOB_DIR|ATTEMPT|TENSORBOARD_DIR|TOTAL_NODES|TASK_ROLE|RAY_PORT)"
    r"|RLINF_NODE_RANK|RAY_ADDRESS|RAY_AUTH_MODE|RAY_AUTH_TOKEN_PATH|CUDA_VISIBLE_DEVICES"
)


def _api_version(case: Case) -> Iterator[Finding]:
    if case.job.api_version != API_VERSION:
        yield _must_be("RL020", "apiVersion", case.job.api_version, API_VERSION)


def _kind(case: Case) -> Iterator[Finding]:
    if case.job.kind != KIND:
        yield _must_be("RL022", "kind", case.job.kind, KIND)


def _must_be(code: str, path: str, actual: str, expected: str) -> Finding:
    return Finding(
        code=code,
        path=path,
        message=f"{path} is {actual[:80]!r}, and only {expected} is read here",
        expected=expected,
        actual=actual[:80],
        hint=f"write {path}: {expected}",
    )


def _name(case: Case) -> Iterator[Finding]:
    name = case.job.name
    if _NAME.fullmatch(name):
        return
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:_LONGEST].strip("-")
    yield Finding(
        code="RL027",
        path="metadata.name",
        message=f"{name[:80]!r} is no name: 1 to 63 of a-z, 0-9 and '-', alphanumeric at both ends",
        actual=name[:80],
        hint=f"for example {slug}" if slug else "for example my-job",
    )


def _worker_name(case: Case) -> Iterator[Finding]:
    name = f"{case.job.name}-{WORKER}-0"
    if len(name) > _LONGEST and _NAME.fullmatch(case.job.name):
        most = _LONGEST - len(f"-{WORKER}-0")
        yield Finding(
            code="RL040",
            path="metadata.name",
            message=f"the worker would be called {name!r}, {len(name)} characters; the most is {_LONGEST}",
            expected=f"a name of at most {most} characters",
            hint=f"shorten the name to {most} characters",
        )


def _task_names(case: Case) -> Iterator[Finding]:
    for index, task in enumerate(case.job.spec.tasks):
        path = f"spec.tasks[{index}].name"
        if task.name.strip().lower() in COMPONENTS:
            yield Finding(
                code="RL030",
                path=path,
                message=f"the task is named like the component {task.name!r}; a task is the process that runs the "
                "whole Job, and the components are placed by component_placement",
                expected=WORKER,
                actual=task.name,
                hint=f"name it {WORKER}" if index == 0 else "leave it out",
            )
        elif index == 0 and task.name != WORKER:  # further tasks are one too many, whatever their name
            yield Finding(
                code="RL029",
                path=path,
                message=f"the task is named {task.name[:80]!r}; a Job on a single node has one task, named {WORKER}",
                expected=WORKER,
                actual=task.name[:80],
                hint=f"name it {WORKER}",
            )


def _header(case: Case) -> Iterator[Finding]:
    if not case.worker.head:
        yield Finding(
            code="RL031",
            path=f"{TASK}.head",
            message="the worker is not the Header, so nothing would start the Job's Ray head or its run",
            expected="true",
            actual="false",
            hint="write head: true",
        )


def _replicas(case: Case) -> Iterator[Finding]:
    count = case.worker.ray.replicas
    if count != 1:
        yield Finding(
            code="RL021",
            path=f"{RAY}.replicas",
            message=f"replicas is {count}; on a single node the Header has exactly one worker, since each further one "
            "would start a Ray head of its own and run the same script again",
            expected="1",
            actual=str(count),
            hint="write replicas: 1; place more processes with component_placement",
        )


def _variables(case: Case) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, variable in enumerate(case.worker.ray.env):
        path = f"{RAY}.env[{index}].name"
        if not _VARIABLE.fullmatch(variable.name):
            yield Finding(
                code="RL032",
                path=path,
                message=f"{variable.name[:80]!r} is no name of a variable",
                expected="[A-Za-z_][A-Za-z0-9_]*",
                actual=variable.name[:80],
                hint=f"for example {_as_variable(variable.name[:40])}",
            )
        if variable.name in seen:
            message = f"the variable {variable.name} is set twice; the first time stands above"
            yield Finding(code="RL033", path=path, message=message, hint="keep one of them")
        seen.add(variable.name)
        if _PLATFORMS_OWN.fullmatch(variable.name):
            message = f"{variable.name} is set by the platform, whose value wins over this one"
            yield Finding(code="RL046", severity="warning", path=path, message=message, hint="remove it")


def _as_variable(text: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", text).upper() or "NAME"
    return f"_{name}" if name[0].isdigit() else name


def _mount_paths(case: Case) -> Iterator[Finding]:
    seen: set[str] = set()
    for index, mount in enumerate(case.worker.ray.mounts):
        path = f"{RAY}.mounts[{index}]"
        for key, written in (("mountPath", mount.mount_path), ("hostPath", mount.host_path)):
            if written is not None and not written.startswith("/"):
                message = f"{key} {written[:80]!r} is not absolute"
                yield Finding(code="RL038", path=f"{path}.{key}", message=message, hint="start it with /")
        at = normpath(mount.mount_path)
        if at in seen:
            message = f"two mounts at {at}; the other one stands above"
            yield Finding(code="RL039", path=f"{path}.mountPath", message=message, hint="mount one of them elsewhere")
        seen.add(at)
        if mount.volume is not None and not _NAME.fullmatch(mount.volume):
            message = f"{mount.volume[:80]!r} is no volume: 1 to 63 of a-z, 0-9 and '-', alphanumeric at both ends"
            yield Finding(code="RL042", path=f"{path}.volume", message=message, hint="for example goalnav-out")


def _domain(case: Case) -> Iterator[Finding]:
    if case.job.spec.domain:
        yield Finding(
            code="RL043",
            path="spec.domain",
            message="a cross-cluster network has no use on one node",
            expected="empty",
            actual=case.job.spec.domain[:80],
            hint="remove domain",
        )


def _restarts(case: Case) -> Iterator[Finding]:
    spec = case.job.spec
    if spec.backoff_limit and spec.restart_policy == "Never":
        message = f"backoffLimit {spec.backoff_limit} has no effect while restartPolicy is Never"
        hint = "write restartPolicy: OnFailure, or remove backoffLimit"
        yield Finding(code="RL044", severity="warning", path="spec.backoffLimit", message=message, hint=hint)
    if spec.restart_policy == "OnFailure" and not spec.backoff_limit:
        message = "restartPolicy OnFailure has no effect while backoffLimit is 0"
        hint = "write backoffLimit: 1 for one further attempt"
        yield Finding(code="RL045", severity="warning", path="spec.restartPolicy", message=message, hint=hint)


def _agent_type(case: Case) -> Iterator[Finding]:
    kind = case.worker.agent_type
    if kind not in {"Ray", "Kubernetes"}:
        near = did_you_mean(kind, ["Ray", "Kubernetes"])
        yield Finding(
            code="RL055",
            path=f"{TASK}.agentType",
            message=f"there is no agentType {kind[:80]!r}",
            expected="Ray",
            actual=kind[:80],
            hint=f"did you mean {near}?" if near else "write agentType: Ray",
        )


def _labels(case: Case) -> Iterator[Finding]:
    for key in case.worker.node_selector:
        if not key.strip():
            path = child(f"{TASK}.nodeSelector", key)
            yield Finding(
                code="RL047", path=path, message="a selector needs the key of a label", hint="remove this entry"
            )


RULES = (
    Rule(_api_version, ("apiVersion",)),
    Rule(_kind, ("kind",)),
    Rule(_name, ("metadata.name",)),
    Rule(_worker_name, ("metadata.name",)),
    Rule(_task_names, (f"{TASK}.name",)),
    Rule(_header, (f"{TASK}.head",)),
    Rule(_replicas, (f"{RAY}.replicas",)),
    Rule(_agent_type, (f"{TASK}.agentType",)),
    Rule(_labels),
    Rule(_variables),
    Rule(_mount_paths),
    Rule(_domain, ("spec.domain",)),
    Rule(_restarts, ("spec.restartPolicy", "spec.backoffLimit")),
)
