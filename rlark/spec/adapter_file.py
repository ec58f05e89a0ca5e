"""The adapter that a task pack names: found, checked, and compared with the pack."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rlark.spec.adapter import Adapter
from rlark.spec.config_files import Broken, Reading
from rlark.spec.finding import Finding
from rlark.spec.invalid import AT_KEY, TASK_PACK, explain
from rlark.spec.nearest import did_you_mean
from rlark.spec.task_pack import TaskPack

FOLDER = "adapters"


def check_adapter(pack: TaskPack, folder: Path, reading: Reading, path: str) -> list[Finding]:
    """What is wrong between a pack and its adapter.

    A folder without adapters has nothing to say: then a pack's `adapterId` is only a name.

    Args:
        pack: a right one.
        folder: that holds `adapters/`, beside the pack's own.
        reading: is told which file was read.
        path: the pack's place in the Job.

    Returns:
        Findings in the adapter's file, and findings about the pack at their places in it.
    """
    adapters = folder / FOLDER
    if not adapters.is_dir():
        return []
    file = adapters / f"{pack.adapter_id}.yaml"
    if not file.is_file():
        return [_missing(pack.adapter_id, adapters, f"{path}.adapterId")]
    try:
        data = reading.read(file)
        adapter = Adapter.model_validate(data)
    except Broken as broken:
        return broken.findings
    except ValidationError as error:
        return _wrong(error, data, file, reading)
    return [
        Finding(
            code="RL477",
            path=f"{path}.{key}",
            message=f"{key} is {ours} in the task pack and {theirs} in its adapter {adapter.id}",
            expected=str(theirs),
            actual=str(ours),
            hint=f"write {theirs}, or name another adapter",
        )
        for key, ours, theirs in adapter.differences(pack)
    ]


def _missing(name: str, adapters: Path, path: str) -> Finding:
    known = sorted(entry.stem for entry in adapters.glob("*.yaml"))
    near = did_you_mean(name, known)
    hint = f"did you mean {near}?" if near else f"adapters there: {', '.join(known) or 'none'}"
    message = f"there is no adapter {adapters / name}.yaml"
    return Finding(code="RL476", path=path, message=message, actual=name, hint=hint)


def _wrong(error: ValidationError, data: dict[str, Any], file: Path, reading: Reading) -> list[Finding]:
    positions, found = reading.positions(file), []
    for invalid in explain(error, Adapter, data, TASK_PACK):
        finding = invalid.finding
        line, column = positions.show(finding.path or "id", key=finding.code in AT_KEY)
        found.append(finding.model_copy(update={"file": str(file), "line": line, "column": column}))
    return found
