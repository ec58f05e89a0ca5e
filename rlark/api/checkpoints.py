"""The checkpoints that a Job has, to go on from."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from fastapi import APIRouter

from rlark.api import answers
from rlark.api.commands import JsonObject
from rlark.api.room import PREFIX, room, told
from rlark.control.reader import LedgerReader
from rlark.folder import Home, read_json

_NAME = re.compile(r"global_step_(\d+)")
_MANIFEST = "checkpoint.json"


def router(reader: LedgerReader, home: Home) -> APIRouter:
    """The routes of a Job's checkpoints."""
    routes = room("jobs", f"{PREFIX}/jobs/{{name}}/checkpoints")

    @routes.get("", response_model=None, responses=told(answers.CheckpointList, 404))
    def list_checkpoints(name: str) -> JsonObject:
        """Those that are there, oldest first: the iteration, the folder on the node, the engine and the task."""
        reader.standing(name)
        items = [item for path in home.job(name).checkpoints.glob("global_step_*") if (item := _item(path))]
        return {"items": sorted(items, key=lambda item: int(item["iteration"]))}

    return routes


def _item(path: Path) -> JsonObject | None:
    """A whole checkpoint; None for what is none."""
    match = _NAME.fullmatch(path.name)
    with suppress(OSError, ValueError):
        told = read_json(path / _MANIFEST)
        if match and told:
            of = {name: str(told.get(name) or "") for name in ("engine", "task")}
            return {"iteration": int(match[1]), "path": str(path), **of}
    return None
