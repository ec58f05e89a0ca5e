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
    for path in (folder.ranks, folder.failure, folder.result, folder.metrics, folder.environment):
        path.unlink(missing_ok=True)
    kept = _resumes_from(plan)
    for path in (folder.artifacts, folder.checkpoints, folder.tensorboard, folder.scripts):
        if path.exists() and not (kept and kept.is_relative_to(path.resolve())):
            shutil.rmtree(path)
    folder.create()


def _resumes_from(plan: Plan) -> Path | None:
    runner = plan.config.get("runner")
    chosen = runner.get("resume_dir") if isinstance(runner, dict) else None
    return Path(plan.config_base, str(chosen)).resolve() if chosen else None
