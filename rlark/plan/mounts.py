"""Where a path of the run really lies: the run sees mounts, everybody else the folders behind them."""

from __future__ import annotations

from collections.abc import Sequence
from posixpath import join, normpath

from rlark.plan.plan import PlannedMount


def covers(mount: str, path: str) -> bool:
    """True when an absolute path lies at or below a mount point."""
    mount, path = normpath(mount), normpath(path)
    return path == mount or path.startswith(mount.rstrip("/") + "/")


def source_of(mount: PlannedMount, index: int, *, volumes: str, scratch: str) -> str:
    """The folder behind a mount.

    Args:
        mount: one of the plan's.
        index: its number in the plan.
        volumes: where named folders are kept, absolute.
        scratch: where folders of the attempt's own are kept, absolute.
    """
    if mount.scratch:
        return join(scratch, str(index))
    return join(volumes, mount.volume) if mount.volume else mount.host


def real_path(path: str, mounts: Sequence[PlannedMount], *, volumes: str, scratch: str) -> str:
    """Where a path that the run sees really lies.

    Args:
        path: absolute, as the run sees it; globs are left as they are.
        mounts: the plan's.
        volumes: where named folders are kept, absolute.
        scratch: where folders of the attempt's own are kept, absolute.
    """
    path = f"/{path.lstrip('/')}"  # normpath keeps two slashes in front
    covering = [(index, mount) for index, mount in enumerate(mounts) if covers(mount.path, path)]
    if not covering:
        return path
    index, deepest = max(covering, key=lambda one: len(one[1].path))
    rest = normpath(path)[len(deepest.path.rstrip("/")) :].lstrip("/")
    return normpath(join(source_of(deepest, index, volumes=volumes, scratch=scratch), rest))
