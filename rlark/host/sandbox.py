"""bubblewrap: mounts that only the Job sees, and process numbers of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from rlark.host.view import Bind, View

__all__ = ["Bind", "Fence", "Mirror", "View", "fenced", "unavailable"]

PROGRAM = "bwrap"
_PATIENCE_S = 10.0


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

    It exits with the code of `argv`, and with 128 + n where that was ended by signal n.
    """
    mirrors = sorted(fence.mirrors, key=lambda one: one.path)
    command = [PROGRAM, "--die-with-parent"]
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
    return [*command, "--", *argv]


def _bind(bind: Bind) -> list[str]:
    return ["--ro-bind" if bind.read_only else "--dev-bind", bind.source, bind.path]


def _mirror(mirror: Mirror) -> list[str]:
    arguments = [] if mirror.path == "/" else ["--tmpfs", mirror.path]
    for bind in mirror.binds:  # what has gone since it was looked at is left out
        arguments += ["--ro-bind-try" if bind.read_only else "--dev-bind-try", bind.source, bind.path]
    for target, path in mirror.links:
        arguments += ["--symlink", target, path]
    return arguments


def unavailable() -> str:
    """Why bubblewrap does not work here, for people; empty where it does."""
    try:
        done = subprocess.run(
            fenced(["true"], Fence(own_pids=True)), capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except FileNotFoundError:
        return "bubblewrap is not installed"
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be run: {error}"
    return "" if done.returncode == 0 else f"bubblewrap does not work here: {done.stderr.strip()[:200]}"
