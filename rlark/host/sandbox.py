"""bubblewrap: mounts that only the Job sees, and process numbers of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

PROGRAM = "bwrap"
_PATIENCE_S = 10.0


@dataclass(frozen=True)
class Bind:
    """A folder of the node at a path of the Job's.

    Attributes:
        source: the folder, absolute; it exists.
        path: where the Job sees it, absolute and normalised.
        read_only: True when the Job must not write there.
    """

    source: str
    path: str
    read_only: bool = False


@dataclass(frozen=True)
class Fence:
    """What is shut in.

    Attributes:
        binds: the mounts.
        own_pids: True for process numbers of its own: it sees no other process, and all of it ends with the first.
    """

    binds: tuple[Bind, ...] = ()
    own_pids: bool = False


def fenced(argv: Sequence[str], fence: Fence) -> list[str]:
    """The command that runs `argv` behind a fence; its descriptors, environment and folder are kept."""
    command = [PROGRAM, "--die-with-parent", "--dev-bind", "/", "/"]
    if fence.own_pids:
        command += ["--unshare-pid", "--proc", "/proc"]
    for bind in sorted(fence.binds, key=lambda one: one.path):
        command += ["--ro-bind" if bind.read_only else "--bind", bind.source, bind.path]
    return [*command, "--", *argv]


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
