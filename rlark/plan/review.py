"""The table a person checks before submitting: what is expected, what is there, and whether it is right."""

from __future__ import annotations

from collections.abc import Sequence

from rlark.model import Model
from rlark.plan.decide import Decision
from rlark.plan.node import Node
from rlark.plan.rules.engine import named
from rlark.plan.rules.node import SELECTOR
from rlark.plan.rules.rule import RAY, TASK, Spoils, nothing_spoilt
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


def review(
    job: Job,
    decided: Decision,
    node: Node | None,
    findings: Sequence[Finding],
    *,
    spoils: Spoils = nothing_spoilt,
) -> list[Row]:
    """The rows of the single-node review.

    Args:
        job: the Job.
        decided: what was decided about it, as far as its errors allow.
        node: the chosen node; None where there is none.
        findings: everything that was found, at the places that rules know.
        spoils: says which places were left out of the Job because its text has errors there.
    """
    worker = job.worker
    names = ", ".join(task.name for task in job.spec.tasks)
    replicas = sum(task.ray.replicas for task in job.spec.tasks)
    wrong = [finding.path for finding in errors_of(findings)]

    def right(*paths: str) -> bool:
        clear = not any(within(path, bad) or within(bad, path) for path in paths for bad in wrong if bad)
        return clear and not spoils(paths)

    header = f"{worker.name if worker.head else 'none'}, {worker.ray.replicas} replica{_s(worker.ray.replicas)}"
    tasks = len(job.spec.tasks)
    rows = [
        ("RLark roles", f"1, named {WORKER}", f"{tasks}, named {names}", tasks == 1 and worker.name == WORKER),
        ("Workers", "1", str(replicas), replicas == 1),
        ("Ray nodes", "1, as cluster.num_nodes", _ray_nodes(worker, replicas), _one_ray_node(worker, replicas)),
        ("Header", f"{WORKER}, 1 replica", header, worker.head and worker.ray.replicas == 1),
        (
            "GPU",
            _gpus_expected(worker, decided, node),
            _gpus_actual(worker, decided),
            _knows_gpus(worker, decided) and right(f"{RAY}.resources.gpu"),
        ),
        (
            "Image, command and mounts",
            "what you prepared",
            _prepared(worker),
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


def _knows_gpus(worker: Worker, decided: Decision) -> bool:
    """True when it is decided how many GPUs the components use."""
    return decided.placement is not None or worker.ray.config is None


def _gpus_expected(worker: Worker, decided: Decision, node: Node | None) -> str:
    if decided.placement is not None:
        needed = str(decided.placement.gpus_required)
    else:
        needed = "what the run script uses" if worker.ray.config is None else "what the placement uses"
    return f"{needed}, of {node.gpus} on {node.name}" if node is not None else needed


def _gpus_actual(worker: Worker, decided: Decision) -> str:
    stated = worker.ray.resources.gpu is not None
    return str(decided.ask.gpus) if stated or _knows_gpus(worker, decided) else "not stated"


def _prepared(worker: Worker) -> str:
    image = worker.ray.image or "no image"
    mounts = ", ".join(mount.mount_path for mount in worker.ray.mounts) or "no mounts"
    return f"{image}; {_command(worker)}; {mounts}"


def _command(worker: Worker) -> str:
    if worker.run:
        first = worker.run.strip().splitlines()[0][:60]
        return f"run script: {first}"
    runs = named(worker.ray.config.inline) if worker.ray.config is not None else None
    return f"engine {str(runs)[:60]}" if runs is not None else "no run script, no engine"
