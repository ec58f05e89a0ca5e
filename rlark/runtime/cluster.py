"""The places of a run: which ranks each component has, on what, and the processes in them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rlark.host.ports import free_ports
from rlark.plan.node import Lease
from rlark.plan.plan import Plan
from rlark.runtime.call import Call
from rlark.runtime.channel import Channel
from rlark.runtime.channel_host import ChannelHost
from rlark.runtime.failure import RunFailed, follows_from_a_loss
from rlark.runtime.masked_log import MaskedLogs
from rlark.runtime.rank import Rank, rank_env, rank_status, ranks_of
from rlark.runtime.roster import START_S, Group, Roster
from rlark.runtime.seat import Posting
from rlark.spec.status import RankStatus

if TYPE_CHECKING:
    from rlark.runtime.assignment import Assignment

MEETING = ".actors"
"""Where ranks that learn together meet, beside the logs; gone with them."""
LOCAL = "local"


class Cluster:
    """Launches groups where the placement says, and ends them.

    Attributes:
        roster: the ranks that run.
        ranks: component -> its ranks.
    """

    def __init__(
        self,
        ranks: Mapping[str, Sequence[Rank]],
        group: Group,
        posting: Callable[[Rank, str], Posting],
        lease: Lease,
        logs: MaskedLogs | None = None,
    ) -> None:
        """Use `of` for a Job, and `local` without one.

        Args:
            ranks: component -> its ranks.
            group: starts processes.
            posting: what a rank is told, once the run's name is known.
            lease: what the ranks run on.
            logs: those that are written for the ranks.
        """
        self.ranks = {name: list(own) for name, own in ranks.items()}
        self.roster = Roster(group, logs, self._hang_up)
        self._posting, self._lease = posting, lease
        self._launched: set[str] = set()
        self._there: list[Call] = []
        self._host: ChannelHost | None = None

    @classmethod
    def of(cls, assignment: Assignment, group: Group, program: str = "") -> Cluster:
        """The places of a Job.

        Args:
            assignment: what is run, where, on what.
            group: starts processes.
            program: `module:attribute` of the engine's program.
        """
        plan, lease = assignment.plan, assignment.lease
        gathering = [component for component in plan.placement if plan.world_size(component) > 1]
        ports = dict(zip(gathering, free_ports(len(gathering)), strict=True))
        ranks = ranks_of(plan, lease, ports)
        (assignment.folder.logs(lease.attempt) / MEETING).unlink(missing_ok=True)
        logs = MaskedLogs(assignment.mask())
        placed = {name: [rank for rank in ranks if rank.component == name] for name in plan.placement}
        return cls(placed, group, partial(_posting, assignment, program, logs), lease, logs)

    @classmethod
    def local(cls, *, logs: Path | None = None, **components: int) -> Cluster:
        """Ranks as plain processes of this one, without a Job and without Ray; for trying and for tests.

        Args:
            logs: a folder for the ranks' logs; by default they print where this process does.
            components: component -> how many ranks it has.
        """
        from rlark.runtime.subprocesses import Subprocesses

        lease = Lease(job=LOCAL, attempt=1, key=LOCAL, node=LOCAL, cpus=os.cpu_count() or 1)
        ranks = {
            name: [Rank(LOCAL, name, rank, count, local_rank=rank) for rank in range(count)]
            for name, count in components.items()
        }

        def posting(rank: Rank, run: str) -> Posting:
            return Posting(
                rank=rank,
                env={**os.environ, **rank_env(rank, lease)},
                program="",
                plan=Plan(job=LOCAL, node=LOCAL),
                run=run,
                path=tuple(sys.path),
                log=str(logs / rank.log) if logs else "",
            )

        return cls(ranks, Subprocesses(), posting, lease)

    def start(self, name: str, worker: bytes = b"") -> tuple[list[Rank], list[Call]]:
        """Start a component's processes.

        Args:
            name: the component.
            worker: the sealed contract of what each rank holds; empty for the program's own Env, Rollout or Actor.

        Returns:
            Its ranks, and the calls that tell when they are there and when they are built.

        Raises:
            ValueError: no such component is placed, or it was started already.
        """
        if name not in self.ranks:
            raise ValueError(f"no component {name} is placed; there are {', '.join(self.ranks) or 'none'}")
        if name in self._launched:
            raise ValueError(f"the component {name} was launched already")
        self._launched.add(name)
        if worker and self._host is None:
            self._host = ChannelHost(self.roster.run)
        ranks = self.ranks[name]
        words = ("start", "its constructor") if worker else ("start",)
        calls = self.roster.start([(rank, partial(self._posted, rank, worker)) for rank in ranks], words)
        self._there.append(calls[0])
        return ranks, calls

    def create_channel(self, name: str, maxsize: int = 0) -> Channel:
        """A channel between the ranks and this process.

        Args:
            name: its name.
            maxsize: items that each of its queues may hold; 0 for any number.
        """
        if self._host is None:
            self._host = ChannelHost(self.roster.run)
        return Channel.create(self.roster.run, name, "the driver", maxsize)

    def gather(self) -> None:
        """Wait until every rank that was started is there.

        Raises:
            RunFailed: one is not.
        """
        for call in self._there:
            call.wait(START_S)
        self.roster.settled()

    def statuses(self) -> list[RankStatus]:
        """How each rank that runs really runs."""
        return [rank_status(rank, self._lease, one.pid if one else 0) for rank, one in self.roster.processes.items()]

    def close(self) -> None:
        """End all ranks. Closing twice is harmless."""
        self.roster.close()
        self._hang_up()

    def _hang_up(self) -> None:
        """The channels end: whoever waits at one is told."""
        if self._host is not None:
            self._host.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if self.roster.cause is not None and follows_from_a_loss(error):  # a channel that ended with the run, say
            raise RunFailed(self.roster.cause) from error

    def _posted(self, rank: Rank, worker: bytes, run: str) -> Posting:
        return replace(self._posting(rank, run), worker=worker)


def _posting(assignment: Assignment, program: str, logs: MaskedLogs, rank: Rank, run: str) -> Posting:
    folder, plan = assignment.folder, assignment.plan
    log = folder.logs(assignment.lease.attempt) / rank.log
    return Posting(
        rank=rank,
        env=rank_env(rank, assignment.lease, os.environ, assignment.variables),
        program=program,
        plan=plan,
        run=run,
        path=tuple(sys.path),
        log=str(log),
        output=logs.through(log),
        work=str(folder.work),
        meeting=str(log.with_name(MEETING)) if rank.world_size > 1 else "",
    )
