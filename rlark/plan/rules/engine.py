"""What runs: an engine or a script, and whether it can."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rlark.engine import Engine
from rlark.plan.rules.rule import RAY, TASK, Case, Rule
from rlark.spec.finding import Finding
from rlark.spec.nearest import did_you_mean


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


def _task_kinds(case: Case) -> Iterator[Finding]:
    env = case.config.get("env") if case.config is not None else None
    if case.engine is None or not case.engine.tasks or not isinstance(env, Mapping):
        return
    for name in ("train", "eval"):
        kind = _kind_of(env.get(name))
        if kind is not None and kind not in case.engine.tasks:
            yield _refused_kind(case.engine, kind, f"{case.facts.config_path}.env.{name}.task")


def _kind_of(section: object) -> str | None:
    task = section.get("task") if isinstance(section, Mapping) else None
    return str(task.get("kind", "goal-navigation")) if isinstance(task, Mapping) else None


def _refused_kind(engine: Engine, kind: str, path: str) -> Finding:
    accepted = ", ".join(engine.tasks)
    message = f"the engine {engine.id} does not learn tasks of the kind {kind}"
    return Finding(
        code="RL192", path=path, message=message, expected=accepted, actual=kind, hint=f"it learns {accepted}"
    )


RULES = (
    Rule(_something_to_run, (f"{TASK}.runScript", f"{RAY}.config")),
    Rule(_known_engine, (f"{TASK}.runScript", f"{RAY}.config")),
    Rule(_requirements),
    Rule(_task_kinds),
)
