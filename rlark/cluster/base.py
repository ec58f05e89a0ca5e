"""The seam between the controller and a place where Jobs run.

`on_ray` is the real one, `rlark.testing.FakeCluster` the one for tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from rlark.folder import JobFolder
from rlark.plan.node import Inventory, Lease
from rlark.plan.plan import Ask
from rlark.spec.report import Report


@dataclass(frozen=True)
class Busy:
    """The capacity exists and others hold it.

    Attributes:
        reason: who holds what, for people: `GPU 0 leased by job x`.
    """

    reason: str


@dataclass(frozen=True)
class Handle:
    """A started worker, in words that survive a restart of the controller.

    Attributes:
        job: the Job's name.
        attempt: the try.
        id: the cluster's own name for it (the Ray Job's submission id).
        folder: the job folder, absolute.
    """

    job: str
    attempt: int
    id: str
    folder: str


@dataclass(frozen=True)
class Observation:
    """What is seen of a worker.

    Attributes:
        alive: True while the worker lives or may still come to life; False when it is certainly gone.
        reports: what it wrote after the number asked for.
        reason: why it is gone, in Ray's words, where Ray knows.
        node_lost: True when it is gone because its node is.
    """

    alive: bool
    reports: tuple[Report, ...] = ()
    reason: str = ""
    node_lost: bool = False


@dataclass(frozen=True)
class Released:
    """The end of a lease.

    Attributes:
        clean: True when nothing of the attempt is left.
        survivors: what could not be ended, named for people.
    """

    clean: bool = True
    survivors: tuple[str, ...] = ()


class Cluster(Protocol):
    """A place where Jobs run. Every call may raise `ClusterError` when the place does not answer."""

    def inventory(self) -> Inventory:
        """All nodes with what is free now. Labels set and cordons made by people are the controller's."""
        ...

    def lease(self, job: str, attempt: int, node: str, ask: Ask) -> Lease | Busy:
        """Take capacity of one node, all or nothing; the same job and attempt gets the same lease.

        Raises:
            PlacementError: the node can never offer it.
        """
        ...

    def start(self, lease: Lease, folder: JobFolder, grace_s: float) -> Handle:
        """Start `python -m rlark.worker FOLDER` on the leased node; the folder is complete.

        Starting the same attempt twice gives the same handle.
        """
        ...

    def observe(self, handle: Handle, after: int) -> Observation:
        """Whether the worker lives, and its reports behind that number."""
        ...

    def stop(self, handle: Handle, grace_s: float) -> None:
        """Ask the worker to end, SIGTERM first; returns at once. Stopping twice is harmless."""
        ...

    def release(self, lease: Lease) -> Released:
        """Give the capacity back once the processes are gone. Releasing twice is harmless."""
        ...

    def leases(self) -> list[Lease]:
        """Every lease this platform still holds here, known to the ledger or not."""
        ...
