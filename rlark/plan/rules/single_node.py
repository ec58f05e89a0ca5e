"""All that a single node cannot do, and all that this version does not do yet: refused, never dropped.

What the configuration says of several nodes and node groups is rlark.plan.rules.rlinf's.
"""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import normpath

from rlark.plan.rules.rule import RAY, TASK, Case, Rule
from rlark.spec.finding import Finding

ELSEWHERE = "such a Job belongs to RLark's multi-node flow or to KubeRay"
_NOT_YET = "not supported by this version"


def _one_task(case: Case) -> Iterator[Finding]:
    tasks = case.job.spec.tasks
    if len(tasks) == 1:
        return
    names = ", ".join(task.name for task in tasks)
    yield Finding(
        code="RL028",
        path="spec.tasks[1]",
        message=f"{len(tasks)} tasks ({names[:120]}), and a Job here runs on a single node: one task, named worker, "
        "starts all components of the configuration",
        expected="1",
        actual=str(len(tasks)),
        hint=f"keep one task named worker; {ELSEWHERE}",
    )


def _kubernetes(case: Case) -> Iterator[Finding]:
    worker = case.worker
    if worker.agent_type == "Kubernetes":
        yield _refused("RL050", f"{TASK}.agentType", "agentType Kubernetes", "write agentType: Ray with a ray section")
    elif worker.kubernetes is not None:
        message = "a kubernetes section has no meaning with agentType Ray"
        yield Finding(code="RL050", path=f"{TASK}.kubernetes", message=message, hint="move its values under ray")


def _own_head(case: Case) -> Iterator[Finding]:
    worker = case.worker
    if worker.ray.head == "platform" or worker.agent_type == "Kubernetes":
        return
    hint = "write ray.head: platform, and it runs on the platform's Ray head"
    if worker.ray.head == "job":
        yield _refused("RL051", f"{RAY}.head", "a Ray head of the Job's own (head: job)", hint)
    elif worker.run:
        yield _refused("RL051", f"{TASK}.runScript", "a Ray head of the Job's own, which a run script implies", hint)
    elif worker.prepare:
        what = "a Ray head of the Job's own, which a prepare script implies"
        yield _refused("RL051", f"{TASK}.prepareScript", what, hint)


def _mounts(case: Case) -> Iterator[Finding]:
    for index, mount in enumerate(case.worker.ray.mounts):
        path = f"{RAY}.mounts[{index}]"
        if mount.volume is not None:
            yield _refused("RL052", f"{path}.volume", "a named volume", "mount a folder of the node with hostPath")
        elif mount.host_path is not None and normpath(mount.host_path) != normpath(mount.mount_path):
            what = f"a mount at another path than the node's own ({mount.host_path} at {mount.mount_path})"
            yield _refused("RL052", f"{path}.mountPath", what, f"write mountPath: {mount.host_path}")
        elif mount.read_only:
            message = (
                f"{mount.mount_path} is the node's own folder, and this version does not keep the Job from writing"
            )
            hint = "make the folder read-only for the user who runs rlark"
            yield Finding(code="RL056", severity="warning", path=f"{path}.readOnly", message=message, hint=hint)


def _secrets(case: Case) -> Iterator[Finding]:
    for index, variable in enumerate(case.worker.ray.env):
        if variable.value_from is not None:
            path = f"{RAY}.env[{index}].valueFrom"
            what = f"a variable from the secret store ({variable.name})"
            yield _refused("RL053", path, what, "set it in the environment that prepareScript prepares")


def _sandbox(case: Case) -> Iterator[Finding]:
    if case.worker.ray.sandbox == "bubblewrap":
        yield _refused("RL054", f"{RAY}.sandbox", "sandbox bubblewrap", "write sandbox: none, or remove it")


def _refused(code: str, path: str, what: str, hint: str) -> Finding:
    return Finding(code=code, path=path, message=f"{_NOT_YET}: {what}", hint=hint)


RULES = (
    Rule(_one_task),
    Rule(_kubernetes, (f"{TASK}.agentType",)),
    Rule(_own_head, (f"{RAY}.head", f"{TASK}.runScript", f"{TASK}.prepareScript")),
    Rule(_mounts, (f"{RAY}.mounts",)),
    Rule(_secrets, (f"{RAY}.env",)),
    Rule(_sandbox, (f"{RAY}.sandbox",)),
)
