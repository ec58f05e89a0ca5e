"""The table a person checks before submitting: what is expected, what is there, and whether it is right."""

from __future__ import annotations

from collections.abc import Sequence

from rlark.model import Model
from rlark.plan.node import Node
from rlark.plan.plan import Plan
from rlark.plan.rules.node import SELECTOR
from rlark.plan.rules.rule import RAY, TASK
from rlark.spec.finding import Finding, errors_of
from rlark.spec.job import WORKER, Job, Worker
from rlark.spec.path import within


class Row(Model):
    """One line of the review.

    Attributes:
        check: what is looked at.
        expected: what it should be.
        actual: what it is.
        ok: True when no error concerns it.
    """

    check: str
    expected: str
    actual: str
    ok: bool


def review(job: Job, plan: Plan | None, node: Node | None, findings: Sequence[Finding]) -> list[Row]:
    """The rows of the single-node review.

    Args:
        job: the Job.
        plan: what was decided; None while an error stands.
        node: the chosen node; None where there is none.
        findings: everything that was found.
    """
    worker = job.worker
    names = ", ".join(task.name for task in job.spec.tasks)
    replicas = sum(task.ray.replicas for task in job.spec.tasks)
    wrong = [finding.path for finding in errors_of(findings)]

    def right(*paths: str) -> bool:
        return not any(within(path, bad) or within(bad, path) for path in paths for bad in wrong if bad)

    header = f"{worker.name if worker.head else 'none'}, {worker.ray.replicas} replica{_s(worker.ray.replicas)}"
    tasks = len(job.spec.tasks)
    rows = [
        ("RLark roles", f"1, named {WORKER}", f"{tasks}, named {names}", tasks == 1 and worker.name == WORKER),
        ("Workers", "1", str(replicas), replicas == 1),
        ("Ray nodes", "1, as cluster.num_nodes", _ray_nodes(worker, replicas), _one_ray_node(worker, replicas)),
        ("Header", f"{WORKER}, 1 replica", header, worker.head and worker.ray.replicas == 1),
        ("GPU", _gpus_expected(plan, node), _gpus_actual(worker, plan), plan is not None and right(f"{RAY}.resources")),
        (
            "Image, command and mounts",
            "what you prepared",
            _prepared(worker, plan),
            right(f"{RAY}.image", f"{RAY}.mounts", f"{TASK}.runScript", f"{TASK}.prepareScript"),
        ),
        ("Node", "exactly the intended one", node.name if node else "none", node is not None and right(SELECTOR)),
    ]
    return [Row(check=check, expected=expected, actual=actual, ok=ok) for check, expected, actual, ok in rows]


def _s(count: int) -> str:
    return "" if count == 1 else "s"


def _num_nodes(worker: Worker) -> object:
    config = worker.ray.config.inline if worker.ray.config else None
    cluster = config.get("cluster") if config else None
    return cluster.get("num_nodes") if isinstance(cluster, dict) else None


def _ray_nodes(worker: Worker, replicas: int) -> str:
    if worker.ray.config is None:
        return f"{replicas}; no configuration says how many"
    return f"{replicas}; cluster.num_nodes {_num_nodes(worker)!r}"


def _one_ray_node(worker: Worker, replicas: int) -> bool:
    stated = _num_nodes(worker)
    return replicas == 1 and (worker.ray.config is None or (type(stated) is int and stated == 1))


def _gpus_expected(plan: Plan | None, node: Node | None) -> str:
    needed = str(plan.gpus_required) if plan is not None else "what the placement uses"
    return f"{needed}, of {node.gpus} on {node.name}" if node is not None else needed


def _gpus_actual(worker: Worker, plan: Plan | None) -> str:
    if plan is not None:
        return str(plan.ask.gpus)
    requested = worker.ray.resources.gpu
    return "not stated" if requested is None else str(requested)


def _prepared(worker: Worker, plan: Plan | None) -> str:
    image = worker.ray.image or "no image"
    command = _command(worker, plan)
    mounts = ", ".join(mount.mount_path for mount in worker.ray.mounts) or "no mounts"
    return f"{image}; {command}; {mounts}"


def _command(worker: Worker, plan: Plan | None) -> str:
    if worker.run:
        first = worker.run.strip().splitlines()[0][:60]
        return f"run script: {first}"
    return f"engine {plan.engine}" if plan is not None else "no run script"
