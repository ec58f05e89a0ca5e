"""How a Job's checkpoints are named, for everybody who looks for them: `checkpoints/global_step_40/checkpoint.json`.

What stands in them only `rlark.runtime.checkpoint` knows.
"""

from __future__ import annotations

import re
from pathlib import Path

MANIFEST = "checkpoint.json"
"""The file in each that says what it is of; where it is missing the checkpoint is none."""
REPLAY_UPDATES = "RLARK_REPLAY_UPDATES"
"""The variable by which a Job asks for a replay of so many iterations instead of a training."""
_NAME = re.compile(r"global_step_(\d+)")


def checkpoint_name(iteration: int) -> str:
    """The folder's name after so many iterations."""
    return f"global_step_{iteration}"


def iteration_of(path: Path) -> int | None:
    """The iterations that a checkpoint's name tells; None for what is named otherwise."""
    match = _NAME.fullmatch(path.name)
    return int(match[1]) if match else None


def saved(root: Path) -> list[Path]:
    """Every checkpoint folder, oldest first; none where there is no such folder."""
    found = [(number, path) for path in root.glob("global_step_*") if (number := iteration_of(path)) is not None]
    return [path for _, path in sorted(found)]
