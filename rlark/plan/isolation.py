"""Which Ray head runs a Job, and whether it is fenced in."""

from __future__ import annotations

from posixpath import normpath
from typing import Literal

from rlark.plan.facts import Facts
from rlark.plan.plan import PlannedMount
from rlark.spec.job import Mount, Worker


def head_of(worker: Worker) -> Literal["platform", "job"]:
    """Which head runs it: a script gets one of its own unless the Job says otherwise."""
    if worker.ray.head != "auto":
        return worker.ray.head
    return "job" if worker.run or worker.prepare else "platform"


def planned(mount: Mount) -> PlannedMount:
    """A mount as the worker makes it."""
    return PlannedMount(
        path=_plain(mount.mount_path),
        host=_plain(mount.host_path) if mount.host_path is not None else "",
        volume=mount.volume or "",
        scratch=mount.scratch,
        read_only=mount.read_only,
    )


def _plain(path: str) -> str:
    """A path without what changes nothing; normpath keeps two slashes in front."""
    return normpath(f"/{path.lstrip('/')}" if path.startswith("/") else path)


def needs_bubblewrap(mount: PlannedMount) -> bool:
    """True unless the folder simply is where the Job looks for it."""
    return mount.read_only or mount.path != mount.host


def wants_bubblewrap(worker: Worker) -> bool:
    """True when something of the Job is to be fenced in: a mount, or the processes of a head of its own."""
    if worker.ray.sandbox != "auto":
        return worker.ray.sandbox == "bubblewrap"
    return head_of(worker) == "job" or any(needs_bubblewrap(planned(mount)) for mount in worker.ray.mounts)


def sandbox_of(worker: Worker, facts: Facts) -> Literal["none", "bubblewrap"]:
    """Whether it is fenced in; where nobody looked, bubblewrap is taken to work."""
    return "bubblewrap" if wants_bubblewrap(worker) and not facts.no_bubblewrap else "none"
