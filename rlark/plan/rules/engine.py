"""What runs: an engine or a script, and whether it can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rlark.engine import OWN, Engine
from rlark.plan.rules.rule import RAY, TASK, Case, Rule
from rlark.spec.finding import Finding
from rlark.spec.nearest import did_you_mean
from rlark.spec.reward import TERMS, TermName


def _something_to_run(case: Case) -> Iterator[Finding]:
    worker = case.worker
    if worker.run or worker.ray.config is not None or worker.agent_type == "Kubernetes":
        return
    blank = " (the run script is blank, which counts as absent)" if worker.run_script else ""
    yield Finding(
        code="RL300",
        path=TASK,
        message=f"the Job has neither a configuration nor a run script{blank}, so there is nothing to run",
        expected="ray.config or runScript",
        hint="give ray.config with a configuration of an engine, or runScript with a command",
    )


def named(config: Mapping[str, object] | None) -> object:
    """What `runner.engine` says; None where nothing is said."""
    runner = config.get("runner") if config is not None else None
    return runner.get("engine") if isinstance(runner, Mapping) else None


def _known_engine(case: Case) -> Iterator[Finding]:
    if case.config is None or case.engine is not None or case.worker.run:
        return
    name, path = named(case.config), f"{case.facts.config_path}.runner.engine"
    known = ", ".join(case.facts.engines) or "none is installed"
    if name is None:
        message = "runner.engine is missing, and without a run script nothing else says what runs"
        yield Finding(code="RL189", path=path, message=message, hint=f"name an engine: {known}")
        return
    near = did_you_mean(str(name), case.facts.engines)
    hint = f"did you mean {near}?" if near else f"installed engines: {known}"
    yield Finding(code="RL190", path=path, message=f"there is no engine {name!r}", actual=str(name)[:80], hint=hint)


def _requirements(case: Case) -> Iterator[Finding]:
    if case.engine is None:
        return
    for requirement in case.facts.unmet.get(case.engine.id, ()):
        where = f" on the node {case.node.name}" if case.node else ""
        yield Finding(
            code="RL191",
            path=f"{case.facts.config_path}.runner.engine",
            message=f"the engine {case.engine.id} lacks the {requirement.kind} {requirement.name}{where}",
            expected=requirement.name,
            hint=f"install it: {requirement.install}",
        )


def _packs(case: Case) -> Iterator[tuple[Mapping[str, object], str]]:
    """The task packs that an engine is given, and their places."""
    env = case.config.get("env") if case.config is not None else None
    if case.engine is None or not isinstance(env, Mapping):
        return
    for name in ("train", "eval"):
        section = env.get(name)
        task = section.get("task") if isinstance(section, Mapping) else None
        if isinstance(task, Mapping):
            yield task, f"{case.facts.config_path}.env.{name}.task"


def _task_kinds(case: Case) -> Iterator[Finding]:
    for task, path in _packs(case):
        kind = str(task.get("kind", "goal-navigation"))
        if case.engine is not None and case.engine.tasks and kind not in case.engine.tasks:
            yield _refused_kind(case.engine, kind, path)


def _refused_kind(engine: Engine, kind: str, path: str) -> Finding:
    accepted = ", ".join(engine.tasks)
    message = f"the engine {engine.id} does not learn tasks of the kind {kind}"
    return Finding(
        code="RL192", path=path, message=message, expected=accepted, actual=kind, hint=f"it learns {accepted}"
    )


def _reward_is_measured(case: Case) -> Iterator[Finding]:
    for task, path in _packs(case):
        formula = task.get("rewardFormula")
        for index, entry in enumerate(formula if isinstance(formula, list) else ()):
            name = entry.get("term") if isinstance(entry, Mapping) else None
            found = next((term for term in TERMS if term == name), None)
            if case.engine is not None and found is not None and TERMS[found].quantity not in case.engine.quantities:
                yield _not_measured(case, case.engine, found, f"{path}.rewardFormula[{index}].term")


def _not_measured(case: Case, engine: Engine, term: TermName, path: str) -> Finding:
    quantity = TERMS[term].quantity
    measures = {**OWN, **{name: other.quantities for name, other in case.facts.engines.items()}}
    able = ", ".join(sorted(name for name, quantities in measures.items() if quantity in quantities))
    return Finding(
        code="RL194",
        path=path,
        message=f"the reward's term {term} needs {quantity}, which the engine {engine.id} does not measure",
        expected=", ".join(engine.quantities) or "a plain reward",
        actual=term,
        hint=f"remove the term, or choose an engine that measures it: {able}",
    )


def _recommended(case: Case) -> Iterator[Finding]:
    known = {**OWN, **case.facts.engines}
    for task, path in _packs(case):
        name = task.get("recommendedEngine")
        if not isinstance(name, str) or name in known:
            continue
        near = did_you_mean(name, known)
        yield Finding(
            code="RL195",
            path=f"{path}.recommendedEngine",
            message=f"the task recommends the engine {name!r}, which nobody knows",
            actual=str(name)[:80],
            hint=f"did you mean {near}?" if near else f"known engines: {', '.join(sorted(known))}",
        )


def fuses(case: Case) -> bool:
    """True when one process runs all components: each is one rank, all on the same resource, in one stage.

    Stages take turns, so that environments are stepped while the policy decides: that takes two processes.
    """
    if case.engine is None or case.placement is None or not case.engine.can_fuse:
        return False
    if _settled(case, "rollout").get("pipeline_stage_num", 1) not in (1, None):
        return False
    return _settled(case, "runner").get("fuse", "auto") != "never" and case.placement.colocated


def _settled(case: Case, section: str) -> Mapping[str, object]:
    """A section of the configuration, with the engine's defaults where they are known."""
    found = (case.facts.config_settled or case.config or {}).get(section)
    return found if isinstance(found, Mapping) else {}


def _one_process(case: Case) -> Iterator[Finding]:
    algorithm = _settled(case, "algorithm").get("type")
    if case.engine is None or case.placement is None or algorithm not in case.engine.fused_only or fuses(case):
        return
    yield Finding(
        code="RL196",
        path=f"{case.facts.config_path}.algorithm.type",
        message=f"{algorithm} of {case.engine.id} learns in one process only, and its components are placed apart",
        actual=str(algorithm),
        hint=f"place them together, {','.join(case.engine.components)}: 0, in one pipeline stage and without "
        "runner.fuse never",
    )


RULES = (
    Rule(_something_to_run, (f"{TASK}.runScript", f"{RAY}.config")),
    Rule(_known_engine, (f"{TASK}.runScript", f"{RAY}.config")),
    Rule(_requirements),
    Rule(_task_kinds),
    Rule(_reward_is_measured),
    Rule(_recommended),
)
PLACED = (Rule(_one_process),)
"""What can be told once it is known where the components go."""
