"""One iteration when the components run in processes of their own."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np

from rlark.errors import UsageError
from rlark.host.ports import free_ports
from rlark.runtime.assignment import Assignment
from rlark.runtime.component import DeviceUse, Metrics, Shape, State
from rlark.runtime.exchange import columns
from rlark.runtime.masked_log import MaskedLogs
from rlark.runtime.rank import Rank, rank_env, rank_status, ranks_of
from rlark.runtime.roster import Group, Roster
from rlark.runtime.seat import Posting
from rlark.runtime.trainer import averaged, require_same_ranks, require_same_size
from rlark.spec.status import RankStatus

COMPONENTS = ("actor", "rollout", "env")
T = TypeVar("T")


class PlacedTrainer:
    """Actor, Rollout and Env ranks, each its own process, exchanging over sockets."""

    def __init__(self, assignment: Assignment, program: str, group: Group) -> None:
        """Start every rank's process; returns before they are up.

        Args:
            assignment: what is run, where, on what.
            program: `module:attribute` of the engine's program.
            group: starts processes.
        """
        plan = assignment.plan
        gathering = [component for component in plan.placement if plan.world_size(component) > 1]
        ports = dict(zip(gathering, free_ports(len(gathering)), strict=True))
        ranks = ranks_of(plan, assignment.lease, ports)
        self._lease = assignment.lease
        self._ranks = {name: [rank for rank in ranks if rank.component == name] for name in COMPONENTS}
        logs = MaskedLogs(assignment.mask())
        postings = [(rank, partial(_posting, assignment, program, rank, logs)) for rank in ranks]
        self._roster = Roster(group, postings, logs)
        self._device = DeviceUse("cpu", "", cuda_requested=False)
        self._size = (0, 0)

    def gather(self, shape: Shape) -> list[RankStatus]:
        """Wait until every rank is built: how each really runs.

        Raises:
            RunFailed: one could not be built.
            UsageError: the environments cannot be shared out over the ranks.
        """
        for component, ranks in self._ranks.items():
            try:
                columns(shape.num_envs, 0, len(ranks))
            except ValueError as error:
                raise UsageError(f"{component}: {error}", hint="change total_num_envs or the placement") from None
        self._size = (shape.num_envs, shape.observation_size)
        ready = self._roster.gather()
        self._device = ready[self._ranks["actor"][0]].device or self._device
        processes = self._roster.processes
        return [
            rank_status(rank, self._lease, process.pid if (process := processes[rank]) else 0)
            for ranks in self._ranks.values()
            for rank in ranks
        ]

    def iterate(self) -> Metrics:
        """One rollout and one update by all ranks.

        Raises:
            RunFailed: a rank failed; says which was the first and why.
        """
        metrics: dict[Rank, Metrics] = self._roster.order("iterate")
        return averaged(self._of("env", metrics)) | self._of("actor", metrics)[0]

    def state(self) -> State:
        """Everything needed to continue."""
        states = self._roster.order("state")
        rollouts = self._of("rollout", states)
        return {
            "actor": self._of("actor", states),
            "rollout": [state["rollout"] for state in rollouts],
            "env": self._of("env", states),
            "observation": np.concatenate([state["observation"] for state in rollouts]),
        }

    def restore(self, state: State) -> None:
        """Continue from there."""
        require_same_ranks(state, {name: len(ranks) for name, ranks in self._ranks.items()})
        require_same_size(state, self._size)
        observations = np.split(np.asarray(state["observation"]), len(self._ranks["rollout"]))
        rollouts = [
            {"rollout": own, "observation": seen} for own, seen in zip(state["rollout"], observations, strict=True)
        ]
        states = {"actor": state["actor"], "rollout": rollouts, "env": state["env"]}
        arguments = {rank: (states[name][rank.rank],) for name, ranks in self._ranks.items() for rank in ranks}
        self._roster.order("restore", arguments)

    def device(self) -> DeviceUse:
        """What Actor rank 0 computes on."""
        return self._device

    def close(self) -> None:
        """End all ranks."""
        self._roster.close()

    def _of(self, component: str, values: dict[Rank, T]) -> list[T]:
        """What the ranks of a component answered, in the order of their numbers."""
        return [values[rank] for rank in self._ranks[component]]


def _posting(assignment: Assignment, program: str, rank: Rank, logs: MaskedLogs, sockets: str) -> Posting:
    folder, plan = assignment.folder, assignment.plan
    log = folder.logs(assignment.lease.attempt) / rank.log
    return Posting(
        rank=rank,
        env=rank_env(rank, assignment.lease, os.environ, assignment.variables),
        program=program,
        plan=plan,
        sockets=sockets,
        path=tuple(sys.path),
        log=str(log),
        output=logs.through(log, Path(sockets)),
        work=str(folder.work),
    )
