"""Task packs of a configuration: found by id, alias or file, checked, and put inline."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rlark.spec.adapter_file import check_adapter
from rlark.spec.config_files import Broken, Reading
from rlark.spec.finding import Finding
from rlark.spec.invalid import AT_KEY, TASK_PACK, explain
from rlark.spec.nearest import did_you_mean
from rlark.spec.packs import model_of
from rlark.spec.task_pack import TaskPack

_HOLDERS = ("train", "eval")


def inline_packs(
    data: dict[str, Any], base: Path | None, reading: Reading, path: str
) -> tuple[dict[str, Any], list[Finding]]:
    """Replace `env.train.task` and `env.eval.task` by the packs they name.

    Args:
        data: the configuration; it is not changed.
        base: the configuration's folder; packs stand in its `tasks`. None when unknown.
        reading: is told which files were read.
        path: the configuration's place in the Job.

    Returns:
        The configuration with the packs it could find, and what is wrong with them.
    """
    env = data.get("env")
    if not isinstance(env, dict):
        return data, []
    found: list[Finding] = []
    changed = dict(env)
    for holder in _HOLDERS:
        section = env.get(holder)
        if not isinstance(section, dict) or section.get("task") is None:
            continue
        pack, wrong = _pack(section["task"], base, reading, f"{path}.env.{holder}.task")
        found += [finding for finding in wrong if not _told(finding, found)]
        if pack is not None:
            changed[holder] = section | {"task": pack}
    return data | {"env": changed}, found


def _told(finding: Finding, found: list[Finding]) -> bool:
    """True when the other section, naming the same file, has said the same."""
    return bool(finding.file) and any(
        (finding.file, finding.line, finding.message) == (other.file, other.line, other.message) for other in found
    )


def _pack(task: Any, base: Path | None, reading: Reading, path: str) -> tuple[dict[str, Any] | None, list[Finding]]:
    """The pack as a mapping, and what is wrong with it."""
    if isinstance(task, dict):
        return task, _check(task, path, base, reading)
    if not isinstance(task, str) or not task.strip():
        message = "a task is the id of a task pack, a file, or the pack itself"
        return None, [
            Finding(code=TASK_PACK.kind, path=path, message=message, hint="write task: originbot-goal-navigation")
        ]
    file, missing = _file(task, base, reading, path)
    if file is None:
        return None, missing
    try:
        pack = reading.read(file)
    except Broken as broken:
        return None, broken.findings
    found = _check(pack, path, file.parent.parent, reading)
    return pack, [finding if finding.file else _in_file(finding, file, path, reading) for finding in found]


def _file(task: str, base: Path | None, reading: Reading, path: str) -> tuple[Path | None, list[Finding]]:
    """The pack's file: `tasks/<id>.yaml` beside the configuration, or a path relative to it."""
    is_file = "/" in task or task.endswith((".yaml", ".yml"))
    if base is None and not Path(task).is_absolute():
        message = f"the task {task!r} is looked for beside the configuration, and this one has no folder"
        return None, [Finding(code="RL474", path=path, message=message, hint="put the pack itself under task")]
    root = (base or Path("/")).absolute()
    file = Path(os.path.normpath(root / task)) if is_file else root / "tasks" / f"{task}.yaml"
    if file.is_file():
        return file, []
    packs = {entry.stem: entry for entry in sorted((root / "tasks").glob("*.yaml"))}
    aliases = {} if is_file else {name: file for file in packs.values() for name in _aliases(file, reading)}
    if task in aliases:
        return aliases[task], []
    known = sorted(packs.keys() | aliases.keys())
    near = did_you_mean(task, known)
    hint = f"did you mean {near}?" if near else f"packs there: {', '.join(known) or 'none'}"
    return None, [Finding(code="RL474", path=path, message=f"there is no task pack {file}", actual=task, hint=hint)]


def _aliases(file: Path, reading: Reading) -> list[str]:
    """The other names of a pack that nobody has asked for yet; a broken one has none."""
    try:
        aliases = reading.peek(file).get("aliases")
    except Broken:
        return []
    return [name for name in aliases if isinstance(name, str)] if isinstance(aliases, list) else []


def _check(pack: dict[str, Any], path: str, folder: Path | None, reading: Reading) -> list[Finding]:
    """What is wrong with a pack, and between it and its adapter, which stands in `folder`."""
    try:
        valid = model_of(pack).model_validate(pack)
    except ValidationError as error:
        return [invalid.finding for invalid in explain(error, model_of(pack), pack, TASK_PACK, path)]
    if folder is None or not isinstance(valid, TaskPack):
        return []
    return check_adapter(valid, folder, reading, path)


def _in_file(finding: Finding, file: Path, path: str, reading: Reading) -> Finding:
    inside = finding.path[len(path) :].lstrip(".")
    line, column = reading.positions(file).show(inside or "id", key=finding.code in AT_KEY)
    return finding.model_copy(update={"file": str(file), "line": line, "column": column})
