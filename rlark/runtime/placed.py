"""One iteration when the components run in processes of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np

from rlark.errors import UsageError
from rlark.runtime.cluster import Cluster
from rlark.runtime.columns import columns, stage_size
from rlark.runtime.component import DeviceUse, Metrics, Shape, State
from rlark.runtime.offload import MOVED
from rlark.runtime.rank import Rank
from rlark.runtime.trainer import averaged, require_same_ranks, require_same_size
from rlark.runtime.wire import exchange_patience
from rlark.spec.status import RankStatus

COMPONENTS = ("actor", "rollout", "env")
T = TypeVar("T")


class PlacedTrainer:
    """Actor, Rollout and Env ranks, each its own process, exchanging over sockets."""

    def __init__(self, cluster: Cluster) -> None:
        """Start every rank's process; returns before they are up.

        Args:
            cluster: the places of the run.
        """
        self._cluster, self._roster = cluster, cluster.roster
        self._ranks = {name: cluster.ranks[name] for name in COMPONENTS}
        self._device = DeviceUse("cpu", "", cuda_requested=False)
        self._size, self._stages = (0, 0), 1
        for name in COMPONENTS:
            cluster.start(name)

    def gather(self, shape: Shape, stages: int = 1) -> list[RankStatus]:
        """Wait until every rank is built: how each really runs.

        Args:
            shape: of the run.
            stages: in which environments and policy take turns.

        Raises:
            RunFailed: one could not be built.
            UsageError: the environments cannot be shared out over stages and ranks.
        """
        require_even(shape.num_envs, stages, {name: len(ranks) for name, ranks in self._ranks.items()})
        self._size, self._stages = (shape.num_envs, shape.observation_size), stages
        self._cluster.gather()  # every rank can be met
        everybody = [rank for ranks in self._ranks.values() for rank in ranks]
        ready = self._roster.tell("its constructor", dict.fromkeys(everybody, "meet")).wait(exchange_patience())
        self._device = ready[self._ranks["actor"][0]] or self._device
        return self._cluster.statuses()

    def iterate(self) -> Metrics:
        """One rollout and one update by all ranks.

        Raises:
            RunFailed: a rank failed; says which was the first and why.
        """
        metrics: dict[Rank, Metrics] = self._roster.order("iterate").wait()
        told = averaged(self._of("env", metrics)) | self._of("actor", metrics)[0]
        return told | _moved([metrics[rank] for ranks in self._ranks.values() for rank in ranks])

    def state(self) -> State:
        """Everything needed to continue; the state of Actor rank 0 stands for all of them."""
        states = self._roster.order("state").wait(exchange_patience())
        rollouts = self._of("rollout", states)
        seen = np.concatenate([state["observation"] for state in rollouts], axis=1)  # [stages, N / stages, O]
        return {
            "actor": self._of("actor", states)[:1],
            "rollout": [state["rollout"] for state in rollouts],
            "env": [stage for rank in self._of("env", states) for stage in rank],
            "observation": seen.reshape(self._size),
        }

    def restore(self, state: State) -> None:
        """Continue from there, with any number of Actor ranks."""
        ranks = {name: len(ranks) for name, ranks in self._ranks.items()}
        envs, stages = ranks["env"], self._stages
        require_same_ranks(state, {"rollout": ranks["rollout"], "env": envs * stages})
        require_same_size(state, self._size)
        seen = np.asarray(state["observation"]).reshape(stages, -1, self._size[1])
        shares = np.split(seen, ranks["rollout"], axis=1)
        rollouts = [{"rollout": own, "observation": share} for own, share in zip(state["rollout"], shares, strict=True)]
        states = {
            "actor": state["actor"][:1] * ranks["actor"],
            "rollout": rollouts,
            "env": [state["env"][rank * stages : (rank + 1) * stages] for rank in range(envs)],
        }
        arguments = {rank: (states[name][rank.rank],) for name, ranks in self._ranks.items() for rank in ranks}
        self._roster.order("restore", arguments).wait(exchange_patience())

    def device(self) -> DeviceUse:
        """What Actor rank 0 computes on."""
        return self._device

    def close(self) -> None:
        """End all ranks."""
        self._cluster.close()

    def _of(self, component: str, values: dict[Rank, T]) -> list[T]:
        """What the ranks of a component answered, in the order of their numbers."""
        return [values[rank] for rank in self._ranks[component]]


def _moved(ranks: Sequence[Metrics]) -> Metrics:
    """The bytes that components moved off their devices and back, over all ranks."""
    moved: Metrics = {}
    for metrics in ranks:
        for name, number in metrics.items():
            if name.endswith(MOVED):
                moved[name] = moved.get(name, 0.0) + number
    return moved


def require_even(num_envs: int, stages: int, ranks: Mapping[str, int]) -> None:
    """Refuse environments that cannot be shared out over the stages and each component's ranks.

    Raises:
        UsageError: says which component, and what to change.
    """
    try:
        size = stage_size(num_envs, stages)
    except ValueError as error:
        raise UsageError(
            f"rollout.pipeline_stage_num: {error}", hint="change env.train.total_num_envs or the number of stages"
        ) from None
    for component, count in ranks.items():
        try:
            columns(size, 0, count)
        except ValueError as error:
            of = f" (those of one of {stages} pipeline stages)" if stages > 1 else ""
            raise UsageError(f"{component}: {error}{of}", hint="change total_num_envs or the placement") from None
