"""Beginning an attempt: what the run of an earlier one wrote goes, so that nothing of it counts as new."""

from __future__ import annotations

from pathlib import Path

from rlark.folder import JobFolder
from rlark.host.remove import remove
from rlark.plan.mounts import real_path
from rlark.plan.plan import Plan


def clear(folder: JobFolder, plan: Plan) -> None:
    """Remove what the run of an earlier attempt wrote; logs and reports stay, and checkpoints it shall continue from.

    Raises:
        OSError: something cannot be removed.
    """
    kept = _resumes_from(folder, plan)
    files = (folder.ranks, folder.failure, folder.result, folder.metrics, folder.environment)
    for path in (*files, folder.artifacts, folder.checkpoints, folder.tensorboard, folder.scripts, folder.head):
        if not (kept and kept.is_relative_to(path.resolve())):
            remove(path)
    folder.create()


def _resumes_from(folder: JobFolder, plan: Plan) -> Path | None:
    """What the run shall continue from, where it really lies: the run may name it by a mount."""
    runner = plan.config.get("runner")
    chosen = runner.get("resume_dir") if isinstance(runner, dict) else None
    if not chosen:
        return None
    seen = str(Path(plan.config_base, str(chosen)).absolute())
    return Path(real_path(seen, plan.mounts, volumes=str(folder.home.volumes), scratch=str(folder.scratch))).resolve()
