"""Beginning an attempt: what the run of an earlier one wrote goes, so that nothing of it counts as new."""

from __future__ import annotations

import shutil
from pathlib import Path

from rlark.folder import JobFolder
from rlark.plan.plan import Plan


def clear(folder: JobFolder, plan: Plan) -> None:
    """Remove what the run of an earlier attempt wrote; logs and reports stay, and checkpoints it shall continue from.

    Raises:
        OSError: something cannot be removed.
    """
    kept = _resumes_from(plan)
    files = (folder.ranks, folder.failure, folder.result, folder.metrics, folder.environment)
    for path in (*files, folder.artifacts, folder.checkpoints, folder.tensorboard, folder.scripts, folder.head):
        if not (kept and kept.is_relative_to(path.resolve())):
            _remove(path)
    folder.create()


def _remove(path: Path) -> None:
    """Remove whatever a run put there; a link goes, and what it leads to stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _resumes_from(plan: Plan) -> Path | None:
    runner = plan.config.get("runner")
    chosen = runner.get("resume_dir") if isinstance(runner, dict) else None
    return Path(plan.config_base, str(chosen)).resolve() if chosen else None
