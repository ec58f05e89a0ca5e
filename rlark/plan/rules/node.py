"""Which node runs the Job, and whether it is large enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rlark.plan.node import Inventory, Node
from rlark.plan.rules.rule import RAY, TASK, Case, Rule
from rlark.plan.selector import matches
from rlark.spec.finding import Finding
from rlark.spec.job import Job
from rlark.spec.quantity import spell_bytes

SELECTOR = f"{TASK}.nodeSelector"
_RESOURCES = f"{RAY}.resources"
_LEAST_DISK = 256 * 2**20
"""Bytes; logs, checkpoints and artifacts of one Job need about that."""


def choose_node(job: Job, inventory: Inventory) -> tuple[Node | None, list[Finding]]:
    """The one usable node that the selector hits, or why there is none.

    Args:
        job: its first task's selector is used; no selector means all nodes.
        inventory: all nodes; those that are offline or cordoned cannot be hit.
    """
    selector = job.worker.node_selector
    hit = [node for node in inventory.nodes if matches(selector, node.labels)]
    usable = [node for node in hit if node.usable]
    if len(usable) == 1:
        return usable[0], []
    return None, [_undecided(job, inventory, selector, hit, usable)]


def _undecided(
    job: Job, inventory: Inventory, selector: Mapping[str, str], hit: list[Node], usable: list[Node]
) -> Finding:
    hint = f"or ask an administrator, who needs to know: {needs(job)}"
    if not inventory.nodes:
        return _finding("RL200", "there is no node at all", f"start the platform with rlark up, {hint}", "0 nodes")
    if len(usable) > 1:
        names = _names(usable)
        more = "; each would start a Ray head of its own and run the same script"
        message = f"the selector hits {len(usable)} usable nodes: {names}{more}"
        if not selector:
            message = f"no selector is given, which means all nodes, and {len(usable)} are usable: {names}"
        example = f'nodeSelector: {{kubernetes.io/hostname: "{usable[0].name}"}}'
        code = "RL202" if selector else "RL204"
        return _finding(code, message, f"narrow it down, for example {example}, {hint}", f"{len(usable)}: {names}")
    if hit:
        states = ", ".join(f"{node.name} ({'offline' if not node.online else 'cordoned'})" for node in hit)
        message = f"the selector hits no usable node, only {states}"
        return _finding("RL203", message, f"choose another node, or bring this one back, {hint}", states)
    count = len(inventory.nodes)
    missed = f"hits none of the {count} nodes" if count > 1 else "does not hit the one node there is"
    message = f"the selector {missed}: {_names(inventory.nodes)}"
    return _finding("RL201", message, f"{_nearest(selector, inventory)}, {hint}", "0 nodes")


def _nearest(selector: Mapping[str, str], inventory: Inventory) -> str:
    """Which key is in the way, and what the nodes have there."""
    for key, wanted in selector.items():
        offered = sorted({node.labels[key.strip()] for node in inventory.nodes if key.strip() in node.labels})
        if not offered:
            return f"no node has the label {key}"
        if not {value.strip() for value in wanted.split(",")} & set(offered):
            return f"{key} is {' or '.join(offered[:5])} there, not {' '.join(wanted.split())[:80]}"
    return "no node has all of these labels together"


def needs(job: Job) -> str:
    """What a Job needs, in the words an administrator is told."""
    worker = job.worker
    gpu = worker.ray.resources.gpu
    gpus = "as many GPUs as its placement uses" if gpu is None else f"{gpu} GPU{'' if gpu == 1 else 's'}"
    kept = [mount for mount in worker.ray.mounts if not mount.scratch]
    sources = ", ".join(mount.host_path or f"volume {mount.volume}" for mount in kept)
    return f"1 Worker, {gpus}, storage: {sources or 'none beyond the job folder'}"


def _names(nodes: list[Node]) -> str:
    names = [node.name for node in nodes[:8]]
    return ", ".join(names) + (f" and {len(nodes) - 8} more" if len(nodes) > 8 else "")


def _finding(code: str, message: str, hint: str, actual: str) -> Finding:
    return Finding(
        code=code, path=SELECTOR, message=message, expected="1 usable node", actual=actual, hint=hint, curable=True
    )


def _gpus(case: Case) -> Iterator[Finding]:
    node, ask = case.node, case.ask
    if node is None:
        return
    if ask.gpus > node.gpus:
        yield _too_much("RL210", "gpu", f"{ask.gpus} GPUs", f"{node.gpus}", case)
    elif node.free_gpus is not None and ask.gpus > node.free_gpus:
        held = ", ".join(f"{job} ({count})" for job, count in sorted(node.holders.items())) or "other Jobs"
        yield _waits("gpu", f"{node.free_gpus} of {node.gpus} GPUs are free, the others are leased by {held}")
    requested = case.worker.ray.resources.gpu
    used = case.placement.gpus_required if case.placement is not None else 0
    if requested is None or case.placement is None or not used < requested <= node.gpus:
        return
    yield Finding(
        code="RL211",
        severity="warning",
        path=f"{_RESOURCES}.gpu",
        message=f"{requested} GPUs are requested and the placement uses {used}; the others would stand idle",
        expected=str(used),
        actual=str(requested),
        hint=f"write {case.gpus_as_written.format(used)}, or remove it: then it is what the placement needs",
    )


def _amounts(case: Case) -> Iterator[Finding]:
    node, ask = case.node, case.ask
    if node is None:
        return
    if ask.cpus > node.cpus:
        yield _too_much("RL212", "cpu", f"{ask.cpus:g} CPUs", f"{node.cpus:g}", case)
    elif node.free_cpus is not None and ask.cpus > node.free_cpus:
        yield _waits("cpu", f"{node.free_cpus:g} of {node.cpus:g} CPUs are free")
    if node.memory and ask.memory > node.memory:
        yield _too_much("RL213", "memory", f"{spell_bytes(ask.memory)} of memory", spell_bytes(node.memory), case)
    elif node.free_memory is not None and ask.memory > node.free_memory:
        free = f"{spell_bytes(node.free_memory)} of {spell_bytes(node.memory)} of memory are free"
        yield _waits("memory", free)
    if node.shm and ask.shm > node.shm:
        yield _too_much("RL214", "shm", f"{spell_bytes(ask.shm)} of /dev/shm", spell_bytes(node.shm), case)
    elif node.free_shm is not None and ask.shm > node.free_shm:
        yield _waits("shm", f"{spell_bytes(node.free_shm)} of {spell_bytes(node.shm)} of /dev/shm are free")


def _disk(case: Case) -> Iterator[Finding]:
    free = case.facts.free_disk
    if free is not None and free < _LEAST_DISK:
        yield Finding(
            code="RL215",
            message=f"{spell_bytes(free)} are free where jobs are kept; logs, checkpoints and artifacts would fill it",
            expected=f"at least {spell_bytes(_LEAST_DISK)}",
            actual=spell_bytes(free),
            hint="free some space, or start the platform with --home on a larger disk",
            curable=True,
        )


def _too_much(code: str, key: str, asked: str, has: str, case: Case) -> Finding:
    name = case.node.name if case.node else ""
    written = getattr(case.worker.ray.resources, key) is not None
    return Finding(
        code=code,
        path=f"{_RESOURCES}.{key}" if written else f"{case.facts.config_path}.cluster.component_placement",
        message=f"{asked} are asked for and the node {name} has {has}, so the Job could never start there",
        expected=f"at most {has}",
        actual=asked,
        hint=f"ask for less, choose another node, or tell an administrator: {needs(case.job)}",
        curable=True,
    )


def _waits(key: str, why: str) -> Finding:
    message = f"the Job would wait in the queue: {why}"
    return Finding(code="RL220", severity="info", path=f"{_RESOURCES}.{key}", message=message)


RULES = (
    Rule(_gpus, (f"{_RESOURCES}.gpu",)),
    Rule(_amounts),
    Rule(_disk),
)
