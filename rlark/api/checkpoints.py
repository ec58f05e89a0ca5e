"""The checkpoints that a Job has, to go on from."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from fastapi import APIRouter

from rlark.api import answers
from rlark.api.commands import JsonObject
from rlark.api.room import PREFIX, room, told
from rlark.control.reader import LedgerReader
from rlark.folder import Home, read_json
from rlark.spec.checkpoint import MANIFEST, iteration_of, saved


def router(reader: LedgerReader, home: Home) -> APIRouter:
    """The routes of a Job's checkpoints."""
    routes = room("jobs", f"{PREFIX}/jobs/{{name}}/checkpoints")

    @routes.get("", response_model=None, responses=told(answers.CheckpointList, 404))
    def list_checkpoints(name: str) -> JsonObject:
        """Those that are there, oldest first: the iteration, the folder on the node, the engine and the task."""
        reader.standing(name)
        return {"items": [item for path in saved(home.job(name).checkpoints) if (item := _item(path))]}

    return routes


def _item(path: Path) -> JsonObject | None:
    """A whole checkpoint; None for what is none."""
    with suppress(OSError, ValueError):
        told = read_json(path / MANIFEST)
        if told:
            of = {name: str(told.get(name) or "") for name in ("engine", "task")}
            return {"iteration": iteration_of(path), "path": str(path), **of}
    return None
