"""All that a single node cannot do: refused, never dropped.

What the configuration says of several nodes and node groups is rlark.plan.rules.rlinf's.
"""

from __future__ import annotations

from collections.abc import Iterator

from rlark.plan.rules.rule import Case, Rule
from rlark.spec.finding import Finding

ELSEWHERE = "such a Job belongs to RLark's multi-node flow or to KubeRay"


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


RULES = (Rule(_one_task),)
