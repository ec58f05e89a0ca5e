"""The ranks' processes as Ray actors inside the Job's lease; the one file of a run that imports Ray."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from rlark.errors import ClusterError
from rlark.plan.node import HeadAddress
from rlark.runtime import seat
from rlark.runtime.rank import Rank

NAME_S = 10.0
"""How long the name of an earlier attempt's rank may stay taken while Ray buries it."""
_WORDS = 400


class RankProcess:
    """One rank. Ray gives it a process and a name; everything else it learns from its run's driver."""

    def __init__(self, run: str, component: str, rank: int) -> None:
        """Report to the driver, and become the rank before anything heavy is loaded."""
        self._control, self._posting = seat.take(run, component, rank)
        seat.settle(self._posting)

    def serve(self) -> None:
        """Take orders until there are none."""
        seat.serve(self._control, self._posting)


class RayGroup:
    """Starts ranks as Ray actors pinned to the leased node."""

    def __init__(self, head: HeadAddress, node_id: str, python: str = "") -> None:
        """Attach to the head.

        Args:
            head: where it answers. Ray reads the variables of its token when it is loaded, so they are
                set before this module is imported.
            node_id: Ray's id of the leased node; empty for wherever Ray likes.
            python: the program that runs a rank, so that it sees the Job's mounts; empty for Ray's own.

        Raises:
            ConnectionError: Ray cannot attach.
        """
        ray.init(
            address=head.address,
            namespace=head.namespace,
            log_to_driver=False,
            logging_level="warning",
        )
        self._node_id, self._python = node_id, python
        self._actors: dict[Rank, Any] = {}
        self._serving: dict[Rank, Any] = {}

    def start(self, rank: Rank, run: str) -> None:
        """Start one rank's process, named `<job>/<component>:<rank>`.

        Raises:
            ClusterError: Ray refuses.
        """
        options: dict[str, Any] = {"name": rank.name, "num_cpus": 0, "num_gpus": 0, "max_restarts": 0}
        if self._node_id:
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(self._node_id, soft=False)
        if self._python:
            options["runtime_env"] = {"py_executable": self._python}
        kind = ray.remote(RankProcess).options(**options)
        actor = _patiently(lambda: kind.remote(run, rank.component, rank.rank))
        self._actors[rank] = actor
        self._serving[rank] = actor.serve.remote()

    def why(self, rank: Rank) -> str | None:
        """Why a rank's process ended, in Ray's words; None while it runs."""
        ended, _ = ray.wait([self._serving[rank]], timeout=0)
        if not ended:
            return None
        try:
            ray.get(ended[0])
        except Exception as error:  # noqa: BLE001  Ray says with many classes that an actor is gone
            return _short(str(error))
        return "it ended by itself"

    def end(self) -> None:
        """End every rank's process."""
        for actor in self._actors.values():
            ray.kill(actor, no_restart=True)

    def close(self) -> None:
        """Leave the head."""
        ray.shutdown()


def _short(said: str) -> str:
    """What Ray says of a death, without what we know already and without its guesses."""
    text = " ".join(said.split()).partition(" Some common causes include")[0]
    return (text.rpartition("Worker exit detail: ")[2] or text)[:_WORDS]


def _patiently(start: Callable[[], Any]) -> Any:
    until = time.monotonic() + NAME_S
    while True:
        try:
            return start()
        except ValueError as error:  # the name is taken
            if time.monotonic() > until:
                raise ClusterError(f"Ray does not start a rank: {error}") from error
            print(f"waiting for an earlier rank to go: {error}", file=sys.stderr)  # noqa: T201  the run's log
            time.sleep(0.5)
