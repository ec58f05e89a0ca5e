"""Training curves: `metrics.jsonl` as columns, and its last line as progress.

Only what was measured is told, numbers and when. A run may write any text beside them, a secret of its own among
it, which nobody masks in a file that the run itself writes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from rlark.folder import JobFolder
from rlark.spec.status import JobStatus, Progress

JsonObject = dict[str, Any]
_LAST = 64 * 1024
_OWN = {"iteration", "iterations", "time"}


def lines(path: Path, offset: int = 0, *, most: int | None = None) -> Iterator[tuple[JsonObject, int]]:
    """The whole lines behind an offset, each with the offset behind it; what is no measurement is left out.

    Args:
        path: `metrics.jsonl`; a missing file has no lines.
        offset: where to begin.
        most: how many lines at most; None for all.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        file.seek(offset)
        for count, raw in enumerate(file):
            if not raw.endswith(b"\n") or count == most:
                return
            offset += len(raw)
            line = _object(raw)
            if line is not None:
                yield line, offset


def columns(path: Path, status: JobStatus) -> tuple[dict[str, list[Any]], int]:
    """Every metric of the current attempt as one list, null where a line lacks it; and how many lines there are."""
    found: dict[str, list[Any]] = {}
    count = 0
    for line, _ in lines(path):
        if not of_attempt(line, status):
            continue
        for name in line.keys() - found.keys():
            found[name] = [None] * count
        for name, column in found.items():
            column.append(line.get(name))
        count += 1
    first = [name for name in ("iteration", "iterations") if name in found]
    return {name: found[name] for name in first + sorted(found.keys() - set(first))}, count


def of_attempt(line: JsonObject, status: JobStatus) -> bool:
    """False for a line that an earlier attempt left, before the worker of this one cleared the file.

    A line without a time was taken over from the run that this one goes on from.
    """
    if status.started_at is None:
        return False
    try:
        return datetime.fromisoformat(str(line.get("time"))) >= status.started_at
    except (ValueError, TypeError):
        return True


def progress(folder: JobFolder, status: JobStatus) -> Progress | None:
    """How far the training is; None before the first iteration."""
    try:
        with folder.metrics.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LAST))
            raws = file.read().split(b"\n")
    except OSError:
        return None
    line = next((found for raw in reversed(raws[:-1]) if (found := _object(raw))), None)
    return progress_of(line) if line and of_attempt(line, status) else None


def progress_of(line: JsonObject) -> Progress | None:
    """A line of metrics as progress; None where it does not say where it stands."""
    iteration, iterations = line.get("iteration"), line.get("iterations")
    if not isinstance(iteration, int) or not isinstance(iterations, int):
        return None
    numbers = {
        name: value
        for name, value in line.items()
        if name not in _OWN and (value is None or (isinstance(value, int | float) and not isinstance(value, bool)))
    }
    return Progress(iteration=iteration, iterations=iterations, metrics=numbers)


def _object(raw: bytes) -> JsonObject | None:
    """What a line measured, and its time; None where it is no JSON object."""
    try:
        value = json.loads(raw, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    return {name: one for name, one in value.items() if _is_measured(one) or (name == "time" and _is_time(one))}


def _is_measured(value: object) -> bool:
    try:
        return value is None or (isinstance(value, int | float) and math.isfinite(value))
    except OverflowError:  # a whole number beyond every float
        return False


def _is_time(value: object) -> bool:
    try:
        return bool(datetime.fromisoformat(str(value)))
    except ValueError:
        return False
