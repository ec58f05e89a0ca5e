"""What fences the Job in: mounts, and the processes of a Ray head of its own."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import normpath

from rlark.plan.isolation import head_of, needs_bubblewrap, planned
from rlark.plan.mounts import covers
from rlark.plan.plan import PlannedMount
from rlark.plan.rules.rule import RAY, TASK, Case, Rule
from rlark.spec.finding import Finding
from rlark.spec.job import Worker

_SANDBOX = f"{RAY}.sandbox"
_MOUNTS = f"{RAY}.mounts"
_KERNELS = ("/proc", "/sys", "/dev", "/run")
_PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/boot")
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - a mount point, and no file of ours
_PLAIN_FOLDER = "make mountPath the same as hostPath, without readOnly, which needs no bubblewrap"


def _mounts(case: Case) -> Iterator[Finding]:
    """Mounts that only bubblewrap can make, where it must not be used or does not work."""
    worker, broken = case.worker, case.facts.no_bubblewrap
    if worker.ray.sandbox == "none":
        why, hint, curable = "sandbox: none forbids it", f"remove sandbox: none, or {_PLAIN_FOLDER}", False
    elif broken and worker.ray.sandbox == "auto":
        why, hint, curable = broken, f"{_install(broken)}, or {_PLAIN_FOLDER}", True
    else:
        return
    for index, mount in enumerate(worker.ray.mounts):
        made = planned(mount)
        if needs_bubblewrap(made):
            yield Finding(
                code="RL070",
                path=f"{_MOUNTS}[{index}].{'readOnly' if made.path == made.host else 'mountPath'}",
                message=f"{_what(made)} needs bubblewrap: {why}",
                actual=made.path,
                hint=hint,
                curable=curable,
            )


def _what(mount: PlannedMount) -> str:
    if mount.path == mount.host:
        return f"a read-only mount of {mount.path}"
    source = "an empty folder" if mount.scratch else f"the volume {mount.volume}" if mount.volume else mount.host
    return f"a mount of {source} at {mount.path}"


def _install(broken: str) -> str:
    """What to do on the node; whoever looked may have said it already."""
    return "do that on the node" if "; " in broken else "install it on the node (apt install bubblewrap)"


def _processes(case: Case) -> Iterator[Finding]:
    """A Ray head of its own whose processes are not fenced in."""
    worker, broken = case.worker, case.facts.no_bubblewrap
    refused = worker.ray.sandbox == "none"
    if head_of(worker) != "job" or not (refused or (broken and worker.ray.sandbox == "auto")):
        return
    why = "sandbox: none" if refused else broken
    hint = "remove sandbox: none" if refused else _install(str(broken))
    yield Finding(
        code="RL071",
        severity="info" if refused else "warning",
        path=_SANDBOX if refused else _what_asks(worker),
        message=f"the processes of this Job are not fenced in ({why}): they see the other processes of this user, and "
        "`ray stop` in a script would end every Ray of the user, the platform's too",
        hint=f"{hint}; else leave `ray stop` out, rlark stops the Job's own Ray at its end",
    )


def _what_asks(worker: Worker) -> str:
    """The place that makes the Job have a head of its own."""
    if worker.ray.head != "auto":
        return f"{RAY}.head"
    return f"{TASK}.runScript" if worker.run else f"{TASK}.prepareScript"


def _hidden(case: Case) -> Iterator[Finding]:
    """Mounts that would hide what a node, or rlark on it, cannot do without."""
    for index, mount in enumerate(case.worker.ray.mounts):
        if not mount.mount_path.startswith("/"):
            continue  # that is another finding
        hides = _hides(planned(mount), case)
        if hides:
            yield Finding(
                code="RL072",
                path=f"{_MOUNTS}[{index}].mountPath",
                message=f"a mount at {normpath(mount.mount_path)} would hide {hides}",
                actual=mount.mount_path,
                hint="mount it elsewhere, for example below /mnt or /workspace",
            )


def _hides(mount: PlannedMount, case: Case) -> str:
    """What a mount hides, for people; empty where nothing is missed."""
    path = f"/{mount.path.lstrip('/')}"  # of two slashes in front, normpath keeps both
    if covers(_SHARED_MEMORY, path):
        return ""
    if path == "/":
        return "the whole file system of the node"
    kernels = next((one for one in _KERNELS if covers(one, path)), None)
    if kernels is not None:
        return f"what the system keeps in {kernels}"
    if mount.path == mount.host and not mount.read_only:
        return ""  # the same folder at the same place hides nothing
    if mount.path != mount.host:
        programs = next(
            (one for one in (*_PROGRAMS, *case.facts.programs) if covers(one, path) or covers(path, one)), None
        )
        if programs is not None:
            return f"the node's programs in {programs}"
    home = case.facts.home
    return f"the state directory {home}" if home and (covers(path, home) or covers(home, path)) else ""


def _asked_for(case: Case) -> Iterator[Finding]:
    broken = case.facts.no_bubblewrap
    if case.worker.ray.sandbox == "bubblewrap" and broken:
        where = f"the node {case.node.name}" if case.node else "the node"
        yield Finding(
            code="RL073",
            path=_SANDBOX,
            message=f"sandbox: bubblewrap is asked for, and on {where} it cannot be had: {broken}",
            expected="auto or none, or a node with bubblewrap",
            actual="bubblewrap",
            hint=f"{_install(broken)}, choose another node, or write sandbox: auto",
            curable=True,
        )


RULES: tuple[Rule, ...] = (
    Rule(_mounts, (_SANDBOX,)),
    Rule(_processes, (f"{RAY}.head", _SANDBOX, f"{TASK}.runScript", f"{TASK}.prepareScript")),
    Rule(_hidden),
    Rule(_asked_for, (_SANDBOX,)),
)
