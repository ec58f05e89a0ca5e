"""bubblewrap: mounts that only the Job sees, and process numbers of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rlark.host.view import Bind, View

__all__ = ["Bind", "Fence", "Mirror", "View", "fenced", "unavailable"]

PROGRAM = "bwrap"
_PATIENCE_S = 10.0
_UNHEARD = "TERM,INT"
_SHOWN = 200
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")
_IN_CONTAINER = (
    "a container must be allowed to make namespaces: start it with --cap-add SYS_ADMIN "
    "--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined"
)
_SETTINGS = (
    (
        Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
        "1",
        (
            "AppArmor keeps ordinary users from making user namespaces: sudo sysctl "
            "kernel.apparmor_restrict_unprivileged_userns=0, or give bwrap an AppArmor profile that allows userns"
        ),
    ),
    (
        Path("/proc/sys/kernel/unprivileged_userns_clone"),
        "0",
        "ordinary users may not make user namespaces: sudo sysctl kernel.unprivileged_userns_clone=1",
    ),
    (
        Path("/proc/sys/user/max_user_namespaces"),
        "0",
        "no user namespaces are allowed: sudo sysctl user.max_user_namespaces=10000",
    ),
)


@dataclass(frozen=True)
class Mirror:
    """A folder that the Job sees rebuilt, with mount points in it that the node's own folder does not have.

    Nothing can be written straight into it: what would be lost fails instead.

    Attributes:
        path: the folder, as the Job sees it.
        binds: what it holds on the node.
        links: its symbolic links, `(target, path)`.
    """

    path: str
    binds: tuple[Bind, ...] = ()
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Fence:
    """What is shut in.

    Attributes:
        binds: the mounts.
        own_pids: True for process numbers of its own: it sees no other process, and all of it ends with the first.
        mirrors: folders that hold mount points which the node does not have.
        made: mount points that were made on the node, for people to know.
    """

    binds: tuple[Bind, ...] = ()
    own_pids: bool = False
    mirrors: tuple[Mirror, ...] = ()
    made: tuple[str, ...] = ()

    @property
    def view(self) -> View:
        """What the processes behind it see."""
        return View(self.binds)


def fenced(argv: Sequence[str], fence: Fence) -> list[str]:
    """The command that runs `argv` behind a fence; its descriptors, environment and folder are kept.

    It exits with the code of `argv`, and with 128 + n where that was ended by signal n. bubblewrap itself
    does not hear SIGTERM and SIGINT, because its end is the immediate end of `argv`: a signal to every
    process of a Job leaves those behind the fence the time that they were promised. With `own_pids`
    everything behind the fence is killed as soon as `argv` has ended, whatever else still runs there.
    """
    mirrors = sorted(fence.mirrors, key=lambda one: one.path)
    env = _found("env")
    command = [env, f"--ignore-signal={_UNHEARD}", _found(PROGRAM), "--die-with-parent"]
    if not (mirrors and mirrors[0].path == "/"):
        command += ["--dev-bind", "/", "/"]
    steps = [(bind.path, 0, _bind(bind)) for bind in fence.binds]
    steps += [(mirror.path, 1, _mirror(mirror)) for mirror in mirrors]
    if fence.own_pids:
        command += ["--unshare-pid"]
        steps.append(("/proc", 2, ["--proc", "/proc"]))
    for _, _, arguments in sorted(steps):
        command += arguments
    for mirror in reversed(mirrors):
        command += ["--remount-ro", mirror.path]
    return [*command, "--", env, f"--default-signal={_UNHEARD}", *argv]


def _found(program: str) -> str:
    """Where a program is, so that a PATH of the Job's own does not hide it."""
    return shutil.which(program) or program


def _bind(bind: Bind) -> list[str]:
    return ["--ro-bind" if bind.read_only else "--dev-bind", bind.source, bind.path]


def _mirror(mirror: Mirror) -> list[str]:
    arguments = [] if mirror.path == "/" else ["--tmpfs", mirror.path]
    for bind in mirror.binds:  # what has gone since it was looked at is left out
        arguments += ["--ro-bind-try" if bind.read_only else "--dev-bind-try", bind.source, bind.path]
    for target, path in mirror.links:
        arguments += ["--symlink", target, path]
    return arguments


def unavailable(*, own_pids: bool = True) -> str:
    """Why bubblewrap does not work here and what to do about it, for people; empty where it does.

    It is tried, which takes a few milliseconds.

    Args:
        own_pids: True when process numbers of its own are wanted too, which fewer machines allow.
    """
    if shutil.which(PROGRAM) is None:
        return "bubblewrap is not installed; install it: apt install bubblewrap, or dnf install bubblewrap"
    try:
        done = subprocess.run(
            fenced(["true"], Fence(own_pids=own_pids)),
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be run: {error}"
    if done.returncode == 0:
        return ""
    said = " ".join(done.stderr.split())[:_SHOWN] or f"it exits with code {done.returncode}"
    return f"bubblewrap does not work here ({said}); {_cure(said)}"


def _cure(said: str) -> str:
    """What lets bubblewrap work, by what keeps it from it."""
    if "-signal" in said:
        return "its `env` cannot ignore signals: install coreutils 8.31 or newer"
    if os.geteuid() != 0:
        for setting, forbidden, cure in _SETTINGS:
            if _read(setting) == forbidden:
                return cure
    if any(Path(mark).exists() for mark in _CONTAINER_MARKS):
        return _IN_CONTAINER
    return "the kernel must let this user make namespaces: ask the administrator to allow user namespaces"


def _read(setting: Path) -> str:
    try:
        return setting.read_text(encoding="ascii").strip()
    except OSError:
        return ""
