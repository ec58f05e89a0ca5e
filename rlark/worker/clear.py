"""Beginning an attempt: what the run of an earlier one wrote goes, so that nothing of it counts as new."""

from __future__ import annotations

from pathlib import Path

from rlark.folder import JobFolder
from rlark.host.remove import remove
from rlark.plan.mounts import real_path
from rlark.plan.plan import Plan
from rlark.spec.checkpoint import saved


def clear(folder: JobFolder, plan: Plan, *, goes_on: bool = False) -> None:
    """Remove what the run of an earlier attempt wrote; logs and reports stay, and checkpoints it shall continue from.

    Args:
        folder: of the Job.
        plan: what it runs.
        goes_on: True for an attempt that follows a failed one and goes on from its last checkpoint: that and the
            metrics stay.

    Raises:
        OSError: something cannot be removed.
    """
    files = (folder.ranks, folder.failure, folder.result, folder.environment)
    paths = [*files, folder.artifacts, folder.tensorboard, folder.scripts, folder.head]
    if not goes_on:
        paths += [folder.metrics, folder.checkpoints]
    kept = _resumes_from(folder, plan)
    for path in paths:
        if not (kept and kept.is_relative_to(path.resolve())):
            remove(path)
    folder.create()


def last_checkpoint(folder: JobFolder, plan: Plan) -> str:
    """The newest checkpoint of a Job: what an attempt after a failed one goes on from; empty where there is none.

    Args:
        folder: of the Job.
        plan: what it runs: a run script keeps its own checkpoints, of which nobody here knows anything.
    """
    if not plan.engine:
        return ""
    found = saved(folder.checkpoints)
    return found[-1].name if found else ""


def _resumes_from(folder: JobFolder, plan: Plan) -> Path | None:
    """What the run shall continue from, where it really lies: the run may name it by a mount."""
    runner = plan.config.get("runner")
    chosen = runner.get("resume_dir") if isinstance(runner, dict) else None
    if not chosen:
        return None
    seen = str(Path(plan.config_base, str(chosen)).absolute())
    return Path(real_path(seen, plan.mounts, volumes=str(folder.home.volumes), scratch=str(folder.scratch))).resolve()
