"""The checkpoints that a Job has, to go on from."""

from __future__ import annotations

import re
from pathlib import Path

from fastapi import APIRouter

from rlark.api import answers
from rlark.api.commands import JsonObject
from rlark.api.room import PREFIX, room, told
from rlark.control.reader import LedgerReader
from rlark.folder import Home

_NAME = re.compile(r"global_step_(\d+)")
_MANIFEST = "checkpoint.json"


def router(reader: LedgerReader, home: Home) -> APIRouter:
    """The routes of a Job's checkpoints."""
    routes = room("jobs", f"{PREFIX}/jobs/{{name}}/checkpoints")

    @routes.get("", response_model=None, responses=told(answers.CheckpointList, 404))
    def list_checkpoints(name: str) -> JsonObject:
        """Those that are there, oldest first: the iteration, and the folder on the node."""
        reader.standing(name)
        root = home.job(name).checkpoints
        found = [(int(match[1]), path) for path in _folders(root) if (match := _NAME.fullmatch(path.name))]
        return {"items": [{"iteration": number, "path": str(path)} for number, path in sorted(found)]}

    return routes


def _folders(root: Path) -> list[Path]:
    """Whole ones; nothing where there are none."""
    return [path for path in root.glob("global_step_*") if (path / _MANIFEST).is_file()]
