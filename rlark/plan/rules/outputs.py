"""What the Job reads and writes: mount sources, and files that may be lost."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import isabs, normpath

from rlark.plan.mounts import covers
from rlark.plan.rules.rule import RAY, TASK, Case, Rule
from rlark.spec.finding import Finding


def _mount_sources(case: Case) -> Iterator[Finding]:
    for index, mount in enumerate(case.worker.ray.mounts):
        if mount.host_path is not None and mount.host_path in case.facts.missing_mounts:
            node = f"the node {case.node.name}" if case.node else "the node"
            yield Finding(
                code="RL402",
                path=f"{RAY}.mounts[{index}].hostPath",
                message=f"{mount.host_path} does not exist on {node}; rlark does not create folders of the node",
                actual=mount.host_path,
                hint="create it there, or correct the path",
                curable=True,
            )


def _lost(case: Case) -> Iterator[Finding]:
    worker = case.worker
    mounts = [mount.mount_path for mount in worker.ray.mounts]
    written = [(f"{TASK}.tensorBoardDir", worker.tensor_board_dir)]
    written += [(f"{TASK}.expect.outputs[{i}].path", output.path) for i, output in enumerate(worker.expect.outputs)]
    written += _log_path(case)
    for path, place in written:
        if isabs(place) and not any(covers(mount, place) for mount in mounts):
            yield Finding(
                code="RL400",
                severity="warning",
                path=path,
                message=f"{place} lies under no mount and not in the job's folder; what is written there may be lost",
                actual=place,
                hint="write below a mountPath, or give a path relative to the job's folder",
            )


def _log_path(case: Case) -> list[tuple[str, str]]:
    """Where a run script's configuration lets RLinf write; an engine's files stand in the job's folder."""
    runner = (case.config or {}).get("runner") if case.worker.run else None
    logger = runner.get("logger") if isinstance(runner, dict) else None
    place = logger.get("log_path") if isinstance(logger, dict) else None
    return [(f"{case.facts.config_path}.runner.logger.log_path", place)] if isinstance(place, str) else []


def _outside(case: Case) -> Iterator[Finding]:
    for index, output in enumerate(case.worker.expect.outputs):
        wrong = None
        if not output.path.strip():
            wrong = "the path is empty"
        elif not isabs(output.path) and normpath(output.path).split("/")[0] == "..":
            wrong = f"{output.path!r} leaves the job's artifacts folder"
        if wrong:
            path = f"{TASK}.expect.outputs[{index}].path"
            hint = "name a file below artifacts/, or an absolute path"
            yield Finding(code="RL401", path=path, message=wrong, hint=hint)


RULES = (
    Rule(_mount_sources, (f"{RAY}.mounts",)),
    Rule(_lost, (f"{RAY}.mounts", f"{TASK}.expect.outputs", f"{TASK}.tensorBoardDir")),
    Rule(_outside, (f"{TASK}.expect.outputs",)),
)
