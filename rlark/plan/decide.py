"""From a Job and the nodes to a plan: every rule asked once, everything found told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rlark.engine import Engine
from rlark.plan.facts import Facts
from rlark.plan.isolation import head_of, planned, sandbox_of
from rlark.plan.node import Inventory, Node
from rlark.plan.placement import Placement, resolve
from rlark.plan.plan import Ask, Output, Plan, SecretSource, Signal
from rlark.plan.rules import (
    engine,
    image,
    isolation,
    kubernetes,
    node,
    outputs,
    overrides,
    scripts,
    secrets,
    shape,
    single_node,
)
from rlark.plan.rules.numbers import Numbers
from rlark.plan.rules.rlinf import check_configuration, without_echoes
from rlark.plan.rules.rlinf_settings import missing_models
from rlark.plan.rules.rule import RAY, Case, Spoils, check_all, nothing_spoilt
from rlark.spec.finding import Finding, errors_of
from rlark.spec.job import SAFETY_CONFIRMED, Job, Worker

PYTHON = "{python}"
"""Stands in a command for the interpreter of the node."""
PROGRESS = r"iter \d+/\d+"
"""The line an engine prints at its first iteration."""

_BEFORE = (
    *shape.RULES,
    *single_node.RULES,
    *kubernetes.RULES,
    *engine.RULES,
    *image.RULES,
    *scripts.RULES,
    *overrides.RULES,
    *secrets.RULES,
    *outputs.RULES,
    *isolation.RULES,
)
_AFTER = (*engine.PLACED, *node.RULES)


@dataclass(frozen=True)
class Decision:
    """What was decided about a Job, as far as its errors allow.

    Attributes:
        plan: None where an error stands.
        placement: where the components go; None without any, or where that cannot be decided.
        ask: what would be leased.
        findings: everything that was found.
    """

    plan: Plan | None = None
    placement: Placement | None = None
    ask: Ask = field(default_factory=Ask)
    findings: list[Finding] = field(default_factory=list)


def make_plan(job: Job, inventory: Inventory, facts: Facts) -> tuple[Plan | None, list[Finding]]:
    """The plan of a Job, None where an error stands; and everything that was found.

    Args:
        job: as `decide` takes it.
        inventory: all nodes.
        facts: what was looked up about the Job on its node.
    """
    decided = decide(job, inventory, facts)
    return decided.plan, decided.findings


def decide(job: Job, inventory: Inventory, facts: Facts, *, spoils: Spoils = nothing_spoilt) -> Decision:
    """Decide everything about a Job before anything starts.

    Args:
        job: with its configuration inline, composed; a configuration that could not be composed is
            still a path.
        inventory: all nodes.
        facts: what was looked up about the Job on its node.
        spoils: says which places were left out of the Job because its text has errors there.
    """
    chosen, found = (None, []) if spoils((node.SELECTOR,)) else node.choose_node(job, inventory)
    case = Case(job, inventory, facts, chosen, facts.config_run or _config(job), _engine(job, facts))
    found += check_all(_BEFORE, case, spoils)
    if case.config is not None and not spoils((f"{RAY}.resources.gpu",)):
        placement, about_config = _place(case, case.config)
        found += about_config
        case = replace(case, placement=placement)
    case = replace(case, ask=_ask(case))
    if case.placement is not None:
        case = replace(case, placement=case.placement.within(case.ask.gpus))
    found += check_all(_AFTER, case, spoils)
    plan = _plan(case) if not errors_of(found) else None
    return Decision(plan, case.placement, case.ask, found)


def _config(job: Job) -> Mapping[str, Any] | None:
    source = job.worker.ray.config
    return source.inline if source is not None else None


def _engine(job: Job, facts: Facts) -> Engine | None:
    """The engine that runs the Job; None for a run script."""
    if job.worker.run:
        return None
    return facts.engines.get(str(engine.named(_config(job))))


def _place(case: Case, config: Mapping[str, Any]) -> tuple[Placement | None, list[Finding]]:
    """Where the components go, and what is wrong with the configuration."""
    path = case.facts.config_path
    section = config.get("cluster")
    gpus, written = case.worker.ray.resources.gpu, case.gpus_as_written
    placement: Placement | None = None
    found: list[Finding] = []
    if isinstance(section, Mapping):
        there = f"{path}.cluster"
        placement, found = resolve(section, case.node, path=there, requested=gpus, as_written=written)
        found = without_echoes(section, found)
    confirmed = case.job.metadata.annotations.get(SAFETY_CONFIRMED) == "true"
    settled = case.facts.config_settled
    found += check_configuration(config, placement, case.engine, path, settled=settled, devices_confirmed=confirmed)
    found += missing_models(Numbers(config, config, placement, path, ours=False), case.facts.missing_models)
    paths, codes = {error.path for error in errors_of(found)}, {error.code for error in errors_of(found)}
    said = [one for one in case.facts.config_findings if one.path in paths or one.code in codes]
    return placement, found + [one for one in case.facts.config_findings if one not in said]


def _ask(case: Case) -> Ask:
    """What is leased; no GPU while the placement is undecided, which an error has said."""
    resources, gpus = case.worker.ray.resources, case.worker.ray.resources.gpu
    if gpus is None:
        gpus = case.placement.gpus_required if case.placement is not None else 0
    return Ask(gpus=gpus, cpus=resources.cpus, memory=resources.memory_bytes, shm=resources.shm_bytes)


def _plan(case: Case) -> Plan | None:
    """The plan of a case without errors."""
    worker, spec = case.worker, case.job.spec
    if case.node is None:
        return None
    return Plan(
        job=case.job.name,
        node=case.node.name,
        ask=case.ask,
        engine=case.engine.id if case.engine else "",
        command=[PYTHON, "-m", case.engine.module] if case.engine else [],
        config=dict(_config(case.job) or {}),
        config_base=case.facts.config_base if case.config else "",
        placement=dict(case.placement.ranks) if case.placement else {},
        fused=engine.fuses(case),
        prepare=worker.prepare,
        run=worker.run,
        env={variable.name: variable.value for variable in worker.ray.env if variable.value is not None},
        secrets={
            variable.name: SecretSource(name=source.secret_ref.name, key=source.secret_ref.key)
            for variable in worker.ray.env
            if (source := variable.value_from) is not None
        },
        mounts=[planned(mount) for mount in worker.ray.mounts],
        head=head_of(worker),
        sandbox=sandbox_of(worker, case.facts),
        signal=_signal(worker, case.engine),
        outputs=[Output(path=output.path, min_bytes=output.min_bytes) for output in worker.expect.outputs],
        evidence=case.engine is not None,
        gate=worker.expect.gate,
        deadline_s=spec.deadline_s,
        grace_s=spec.grace_s,
        backoff_limit=spec.backoff_limit if spec.restart_policy == "OnFailure" else 0,
        tensorboard=worker.tensor_board_dir,
    )


def _signal(worker: Worker, runs: Engine | None) -> Signal | None:
    """The first sign of life to wait for; an engine has one that nobody needs to state."""
    stated = worker.expect.first_signal
    if stated is not None:
        return Signal(pattern=stated.pattern, within=stated.within_s, expected=True)
    return Signal(pattern=PROGRESS) if runs is not None else None


def chosen(job: Job, inventory: Inventory) -> Node | None:
    """The node a Job would run on; None where that cannot be decided."""
    return node.choose_node(job, inventory)[0]
