"""An attempt's mounts: the folders behind them made ready, and the fence that shows them to the run.

A mount point that the node does not have is made on the node, as container runtimes do, where the
folder that would hold it is a place for that; a folder that others share, or that this user cannot
write, is rebuilt for the Job instead (`Mirror`), and the node stays as it is.
"""

from __future__ import annotations

import os
import shlex
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from posixpath import dirname, join

from rlark.folder import JobFolder, write_text
from rlark.host import bash
from rlark.host.remove import remove
from rlark.host.sandbox import Bind, Fence, Mirror, fenced
from rlark.host.view import View, below
from rlark.plan.isolation import needs_bubblewrap
from rlark.plan.mounts import source_of
from rlark.plan.plan import Plan, PlannedMount

_SHARED = frozenset({"/", "/mnt", "/media", "/srv", "/opt"})
_KERNEL = frozenset({"/", "/proc", "/sys", "/dev"})
_MOST_ENTRIES = 1000


class MountError(Exception):
    """A mount cannot be made; the message says which, why, and what to do."""


def fence(plan: Plan, folder: JobFolder) -> Fence:
    """Make an attempt's mounts ready: volumes are made, scratch folders are emptied.

    Args:
        plan: holds the mounts.
        folder: the Job's.

    Returns:
        What `rlark.host.sandbox.fenced` shuts the run in with, where `plan.sandbox` is `bubblewrap`; `view`
        is what the run sees, `made` tells what was made on the node for it.

    Raises:
        MountError: a source is missing or cannot be read, or a mount point cannot be made.
    """
    _empty(folder.scratch)
    sources = [_source(mount, index, folder) for index, mount in enumerate(plan.mounts)]
    if plan.sandbox != "bubblewrap":
        _need_nothing(plan.mounts)
        return Fence(own_pids=plan.own_pids)
    builder = _Builder(folder)
    pairs = zip(plan.mounts, sources, strict=True)
    for mount, source in sorted(pairs, key=lambda pair: pair[0].path):
        builder.add(mount, source)
    made = Fence(tuple(builder.binds), plan.own_pids, tuple(builder.mirrors.values()), tuple(builder.made))
    _need_programs([bash.program()] if plan.run else [bash.program(), sys.executable], made.view)
    if plan.placement and not plan.fused and plan.head == "platform" and made.binds:
        _write_python(folder, made)
    return made


def _write_python(folder: JobFolder, made: Fence) -> None:
    """What a head outside of the fence starts the ranks with, which are not below the run's process."""
    command = shlex.join(fenced([sys.executable], made))
    folder.scripts.mkdir(mode=0o700, exist_ok=True)
    write_text(folder.fenced_python, f'#!/bin/sh\nexec {command} "$@"\n', mode=0o700)


def _need_programs(programs: Sequence[str], view: View) -> None:
    for program in programs:
        bind = view.over(view.resolve(program))
        if bind is not None and not view.exists(program):
            raise MountError(
                f"the mount {bind.path} ({bind.source}) would hide {program} from the Job, which needs it; "
                "choose another mountPath"
            )


def _need_nothing(mounts: Sequence[PlannedMount]) -> None:
    for mount in mounts:
        if needs_bubblewrap(mount):
            raise MountError(
                f"{_name(mount)} can only be made with bubblewrap, and the plan has no sandbox; "
                "install it (apt install bubblewrap) and submit again"
            )


def _name(mount: PlannedMount) -> str:
    what = "scratch" if mount.scratch else f"volume {mount.volume}" if mount.volume else mount.host
    return f"the mount {mount.path} ({what})"


# ---- what lies behind


def _source(mount: PlannedMount, index: int, folder: JobFolder) -> str:
    """The folder or file behind a mount, made where it is rlark's own; without symbolic links."""
    path = Path(source_of(mount, index, volumes=str(folder.home.volumes), scratch=str(folder.scratch)))
    try:
        if mount.host:
            return _given(mount, path)
        return _own(mount, path)
    except OSError as error:
        raise MountError(f"{_name(mount)}: {path} cannot be used: {error.strerror}") from error


def _given(mount: PlannedMount, path: Path) -> str:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise MountError(f"{_name(mount)}: {path} does not exist on this node; make it, or correct hostPath") from None
    wanted = os.R_OK | os.X_OK if stat.S_ISDIR(mode) else os.R_OK
    if not os.access(path, wanted):
        raise MountError(f"{_name(mount)}: this user may not read {path}; correct its permissions, or hostPath")
    return os.path.realpath(path)


def _own(mount: PlannedMount, path: Path) -> str:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        path.mkdir(mode=0o700, exist_ok=True)
    except FileExistsError:
        raise MountError(f"{_name(mount)}: {path} is no folder; move it away, or name the volume otherwise") from None
    return os.path.realpath(path)


def _empty(scratch: Path) -> None:
    """Remove what an earlier attempt left in its scratch folders; what a link leads to stays."""
    try:
        remove(scratch)
    except OSError as error:
        what = f"{error.filename or scratch}: {error.strerror or error}"
        raise MountError(f"the scratch folder {scratch} cannot be emptied: {what}; remove it by hand") from error


# ---- where the run sees it


class _Builder:
    """Collects the binds, from the outermost to the innermost."""

    def __init__(self, folder: JobFolder) -> None:
        self._state = os.path.realpath(folder.home.root)
        self.binds: list[Bind] = []
        self.mirrors: dict[str, Mirror] = {}
        self.made: list[str] = []

    def add(self, mount: PlannedMount, source: str) -> None:
        view = View(self.binds)
        try:
            path = view.resolve(mount.path)
            self._allowed(mount, path)
            if path == source and view.lies(path) == source and not mount.read_only:
                return
            self._point(mount, path, source, view)
        except OSError as error:
            raise MountError(f"{_name(mount)}: the mount point cannot be made: {error}") from error
        self.binds.append(Bind(source, path, mount.read_only))

    def _allowed(self, mount: PlannedMount, path: str) -> None:
        if path in _KERNEL or path.startswith(("/proc/", "/sys/")):
            raise MountError(f"{_name(mount)} would hide {path} from the Job, which cannot run without it")
        if below(self._state, path) or below(path, self._state):
            raise MountError(
                f"{_name(mount)} would hide rlark's state directory {self._state}, in which the Job runs; "
                "choose another mountPath"
            )
        if any(bind.path == path for bind in self.binds):
            raise MountError(f"{_name(mount)}: another mount is at {path} already; choose another mountPath")

    def _point(self, mount: PlannedMount, path: str, source: str, view: View) -> None:
        """See to it that there is something to mount on."""
        lies, is_folder = view.lies(path), os.path.isdir(source)  # noqa: PTH112
        if os.path.lexists(lies):
            if os.path.isdir(lies) != is_folder:  # noqa: PTH112
                raise MountError(
                    f"{_name(mount)}: {path} is a {_kind(not is_folder)} on this node and {source} is a "
                    f"{_kind(is_folder)}; choose another mountPath"
                )
            return
        holder = dirname(path)
        while not os.path.lexists(view.lies(holder)):
            holder = dirname(holder)
        if holder in self.mirrors:
            return
        self._hold(mount, path, holder, view, is_folder=is_folder)

    def _hold(self, mount: PlannedMount, path: str, holder: str, view: View, *, is_folder: bool) -> None:
        lies, bind = view.lies(holder), view.over(holder)
        if not os.path.isdir(lies):  # noqa: PTH112
            raise MountError(f"{_name(mount)}: {holder} is a file on this node; choose another mountPath")
        read_only = bind is not None and bind.read_only
        if lies in _SHARED or read_only or not os.access(lies, os.W_OK | os.X_OK):
            self.mirrors[holder] = _mirror(mount, holder, lies, read_only=read_only)
            return
        point = Path(view.lies(path))
        (point if is_folder else point.parent).mkdir(parents=True, exist_ok=True)
        if not is_folder:
            point.touch()
        self.made.append(str(point))


def _mirror(mount: PlannedMount, path: str, lies: str, *, read_only: bool) -> Mirror:
    try:
        with os.scandir(lies) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except PermissionError:
        raise MountError(f"{_name(mount)}: this user may not list {lies}; make the mount point on the node") from None
    if len(entries) > _MOST_ENTRIES:
        raise MountError(
            f"{_name(mount)}: {lies} holds more than {_MOST_ENTRIES} entries; make the mount point on the node"
        )
    binds = [Bind(entry.path, join(path, entry.name), read_only) for entry in entries if not entry.is_symlink()]
    links = [(os.readlink(entry.path), join(path, entry.name)) for entry in entries if entry.is_symlink()]  # noqa: PTH115
    return Mirror(path, tuple(binds), tuple(links))


def _kind(is_folder: bool) -> str:
    return "folder" if is_folder else "file"
