"""What a rule is: a small function over a case, with the places it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rlark.engine import Engine
from rlark.plan.facts import Facts
from rlark.plan.node import Inventory, Node
from rlark.plan.placement import Placement
from rlark.plan.plan import Ask
from rlark.spec.finding import Finding
from rlark.spec.job import Job, Worker
from rlark.spec.workload import GPU

TASK = "spec.tasks[0]"
RAY = f"{TASK}.ray"


@dataclass(frozen=True)
class Case:
    """All that rules look at.

    Attributes:
        job: the Job; where its text has errors, without what is wrong.
        inventory: all nodes.
        facts: what was looked up.
        node: the chosen node; None where none could be chosen.
        config: the effective configuration; None without one, or where it cannot be composed.
        engine: the engine that runs the Job; None for a run script, or where none is known.
        placement: where the components go; None where that is undecided.
        ask: what is leased.
    """

    job: Job
    inventory: Inventory
    facts: Facts
    node: Node | None = None
    config: Mapping[str, Any] | None = None
    engine: Engine | None = None
    placement: Placement | None = None
    ask: Ask = field(default_factory=Ask)

    @property
    def worker(self) -> Worker:
        """The process that runs the Job."""
        return self.job.worker

    @property
    def gpus_as_written(self) -> str:
        """How the form of the Job writes a number of GPUs, with `{}` for the number."""
        return f'{GPU}: "{{}}" in requests and limits' if self.worker.from_kubernetes else "gpu: {}"


Spoils = Callable[[Iterable[str]], bool]
"""True when one of the places was left out of the Job because something else is wrong with it."""


class Rule(NamedTuple):
    """One rule.

    Attributes:
        check: yields what it finds.
        reads: places without which it would say of others what is not so; where one was left out, it
            is not asked. What it finds at a place that was left out itself is dropped in any case.
    """

    check: Callable[[Case], Iterator[Finding]]
    reads: tuple[str, ...] = ()


def nothing_spoilt(_paths: Iterable[str]) -> bool:
    """For a Job whose text has no errors."""
    return False


def check_all(rules: Iterable[Rule], case: Case, spoils: Spoils) -> list[Finding]:
    """Everything that the rules find."""
    return [finding for rule in rules if not spoils(rule.reads) for finding in rule.check(case)]
