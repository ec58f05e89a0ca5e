"""What the Job reads and writes: mount sources, and files that may be lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from posixpath import isabs, join, normpath

from rlark.plan.mounts import covers
from rlark.plan.rules.rule import RAY, TASK, Case, Rule
from rlark.spec.finding import Finding

_WRITTEN = ("runner.logger.log_path", "runner.output_dir")
"""Keys of an RLinf configuration that name where checkpoints, logs and results go."""


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
    written = [(f"{TASK}.tensorBoardDir", worker.tensor_board_dir)]
    written += [(f"{TASK}.expect.outputs[{i}].path", output.path) for i, output in enumerate(worker.expect.outputs)]
    for path, place in [*written, *_of_the_configuration(case)]:
        why = _may_be_lost(case, place)
        if why:
            yield Finding(
                code="RL400",
                severity="warning",
                path=path,
                message=f"{place} {why}",
                actual=place,
                hint="write below the mountPath of a hostPath or a volume, or give a path relative to the job's folder",
            )


def _may_be_lost(case: Case, place: str) -> str:
    """Why what is written at a place may be lost, for people; empty where it is kept."""
    if not isabs(place):
        return ""
    covering = [mount for mount in case.worker.ray.mounts if covers(mount.mount_path, place)]
    if covering:
        nearest = max(covering, key=lambda mount: len(normpath(mount.mount_path)))
        gone = f"lies in the scratch folder {nearest.mount_path}, which goes with the attempt"
        return gone if nearest.scratch else ""
    if case.facts.home and covers(join(case.facts.home, "jobs", case.job.name), place):
        return ""
    return "lies under no mount and not in the job's folder; what is written there may be lost"


def _of_the_configuration(case: Case) -> Iterator[tuple[str, str]]:
    """Where a run script's configuration lets RLinf write; an engine's files stand in the job's folder."""
    if not case.worker.run:
        return
    for keys in _WRITTEN:
        found: object = case.config
        for key in keys.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
        if isinstance(found, str):
            yield f"{case.facts.config_path}.{keys}", found


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
    Rule(_mount_sources),
    Rule(_lost, (f"{RAY}.mounts",)),
    Rule(_outside),
)
