"""A rank's process: how it gets its environment, meets its peers, is built and takes orders."""

from __future__ import annotations

import faulthandler
import logging
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from rlark.engine import load_attribute
from rlark.plan.plan import Plan
from rlark.runtime.failure import follows_from_a_loss
from rlark.runtime.rank import Rank
from rlark.runtime.wire import Endpoint, PeerLost, Wire, connect, exchange_patience

if TYPE_CHECKING:
    from rlark.runtime.component import DeviceUse, Metrics, Team
    from rlark.runtime.trainer import Workload

CONTROL = "control"
STACKS = signal.SIGUSR1
"""A process of a run that catches this prints the stacks of all its threads to its log."""


@dataclass(frozen=True)
class Posting:
    """All that a rank's process is told.

    Attributes:
        rank: who it is.
        env: its whole environment.
        program: `module:attribute` of the engine's program.
        plan: the Job's plan.
        run: the run's part of the names at which the ranks meet.
        path: where Python looks for modules.
        log: the file its output goes to; empty to leave it alone.
        output: a pipe to print into, where somebody else writes the log; empty where it writes it itself.
        work: the folder it works in; empty to stay.
        meeting: a file at which Actor ranks that learn together meet; empty where there is one.
        worker: what the rank holds where it is no Env, Rollout or Actor of the program: see `rlark.runtime.worker`.
    """

    rank: Rank
    env: dict[str, str]
    program: str
    plan: Plan
    run: str
    path: tuple[str, ...] = ()
    log: str = ""
    output: str = ""
    work: str = ""
    meeting: str = ""
    worker: bytes = b""


class Done(NamedTuple):
    """Something was carried out.

    That a rank can be met is its first word where ranks meet; that it is built the next, and there an Actor
    says what it computes on. Then follows one for each order.
    """

    value: Any = None


class Failed(NamedTuple):
    """The rank cannot go on.

    Attributes:
        exception: the class's name.
        message: its text.
        lost: True when all it knows is that a peer is gone, so that the cause lies elsewhere.
        at: seconds since the epoch.
    """

    exception: str
    message: str
    lost: bool
    at: float


class Side(Protocol):
    """What a rank does in an iteration (`rlark.runtime.exchange`)."""

    def begin(self) -> None:
        """Everything before the first iteration."""
        ...

    def iterate(self) -> Metrics:
        """This rank's part of one iteration."""
        ...

    def state(self) -> Any:
        """What this rank needs to continue: plain values and arrays."""
        ...

    def restore(self, state: Any) -> None:
        """Continue from there."""
        ...


def take(run: str, component: str, rank: int) -> tuple[Wire, Posting]:
    """Report to the driver of a run and receive the posting."""
    control = connect(f"{run}/{CONTROL}", f"{component}-{rank}", "the driver", 0)  # it may have no orders for hours
    posting: Posting = control.receive_object()
    return control, posting


def settle(posting: Posting) -> None:
    """Make this process the rank's: environment, module path, log, folder. Nothing heavy is loaded before."""
    for name in set(os.environ) - set(posting.env):
        if not name.startswith("RAY"):  # Ray's own process reads its variables whenever it likes
            del os.environ[name]
    os.environ.update(posting.env)
    sys.path.extend(folder for folder in posting.path if folder not in sys.path)
    if posting.log:
        handle = os.open(posting.output or posting.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        os.close(handle)
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):
                stream.reconfigure(line_buffering=True)  # so that the log can be read while the rank runs
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s", stream=sys.stderr, force=True)
    show_stacks_on_request()
    if posting.work:
        os.chdir(posting.work)


def show_stacks_on_request() -> None:
    """Print the stacks of all threads to standard error on SIGUSR1 and at a crash."""
    faulthandler.enable(file=2)
    faulthandler.register(STACKS, file=2, all_threads=True)


def serve(control: Wire, posting: Posting) -> None:
    """Be the rank: carry out orders until there are none, and say why when that ends badly."""
    try:
        if posting.worker:
            from rlark.runtime.worker import hire

            control.send_object(Done())  # its process is there: what follows takes as long as its constructor
            side: Any = hire(posting)
            device = None
        else:
            side, device = _build(control, posting)
            side.begin()
        control.send_object(Done(device))
        while (order := control.receive_object()) is not None:
            verb, arguments, named = order
            control.send_object(Done(getattr(side, verb)(*arguments, **named)))
    except BaseException as error:  # noqa: BLE001  whatever ends a rank is its cause: SystemExit too
        traceback.print_exc()
        failure = Failed(type(error).__name__, str(error), follows_from_a_loss(error), time.time())
        try:
            control.send_object(failure)
        except PeerLost:
            print("the driver is gone too", file=sys.stderr)  # noqa: T201  this is the rank's own log
    finally:
        control.close()


def _build(control: Wire, posting: Posting) -> tuple[Side, DeviceUse | None]:
    """Load the engine, meet the peers, make the component."""
    from rlark.runtime.columns import stage_size
    from rlark.runtime.trainer import Workload

    program: Any = load_attribute(posting.program)
    workload = Workload.of(program, posting.plan)
    size = stage_size(workload.shape.num_envs, workload.stages)
    return _BUILDERS[posting.rank.component](_Meeting(control, posting, size), workload)


class _Meeting:
    """Where the ranks of a run find each other: each Rollout and Actor listens, Envs and Rollouts call."""

    def __init__(self, control: Wire, posting: Posting, num_envs: int) -> None:
        """Listen, once everybody does.

        Args:
            control: to the driver.
            posting: who this is.
            num_envs: environments of a stage.
        """
        from rlark.runtime.columns import columns

        self.rank = posting.rank
        self._control = control
        self._plan = posting.plan
        self._run, self._meeting = posting.run, posting.meeting
        self._num_envs = num_envs
        self.own = columns(num_envs, self.rank.rank, self.rank.world_size)
        name = f"{self.rank.component}-{self.rank.rank}"
        self._name = name
        self._endpoint = None if self.rank.component == "env" else Endpoint(f"{self._run}/{name}", exchange_patience())
        control.send_object(Done())
        control.receive_object()  # everybody listens now

    def peers(self, component: str) -> dict[int, range]:
        """The ranks of another component that own some of this rank's columns."""
        from rlark.runtime.columns import peers

        return peers(self._num_envs, self.own, self._plan.world_size(component))

    def call(self, component: str, ranks: set[int]) -> dict[int, Wire]:
        """Wires to ranks that listen."""
        names = {rank: f"{component}-{rank}" for rank in sorted(ranks)}
        return {
            rank: connect(f"{self._run}/{name}", self._name, name, exchange_patience()) for rank, name in names.items()
        }

    def receive(self, count: int) -> dict[int, Wire]:
        """Wires to the ranks that call, in the order of their ranks; nobody else is expected afterwards."""
        if self._endpoint is None:
            return {}
        found = dict(self._next_caller(self._endpoint) for _ in range(count))
        self._endpoint.close()
        return dict(sorted((int(name.rpartition("-")[2]), wire) for name, wire in found.items()))

    def _next_caller(self, endpoint: Endpoint) -> tuple[str, Wire]:
        """The next rank that calls, unless the driver gives the run up meanwhile."""
        readable, _, _ = select.select([endpoint.fileno(), self._control.fileno()], [], [], exchange_patience())
        if self._control.fileno() in readable:
            raise PeerLost("the driver gave the run up while the ranks were meeting")
        return endpoint.accept()

    def team(self) -> Team:
        """The ranks of the component that learn together."""
        if self.rank.world_size == 1:
            from rlark.runtime.component import ALONE

            return ALONE
        from rlark.runtime.averaging import Together

        gpus = [gpu for placed in self._plan.placement[self.rank.component] for gpu in placed.gpus]
        apart = len(set(gpus)) == len(gpus)
        return Together(
            self.rank.rank, self.rank.world_size, Path(self._meeting), gpus_apart=apart, patience_s=exchange_patience()
        )

    def seen_by_all(self, component: str) -> list[str]:
        """The physical GPUs that this rank and every rank of another component see."""
        from rlark.runtime.device_memory import seen_by_all

        return seen_by_all(self.rank.gpus, [placed.gpus for placed in self._plan.placement[component]])

    def world_size(self, component: str) -> int:
        """How many ranks a component has."""
        return self._plan.world_size(component)


def _env(meeting: _Meeting, workload: Workload) -> tuple[Side, DeviceUse | None]:
    from rlark.runtime.columns import Link
    from rlark.runtime.exchange import EnvSide

    shared = meeting.peers("rollout")
    wires = meeting.call("rollout", set(shared))
    links = [Link.over(wires[rank], meeting.own, both) for rank, both in shared.items()]
    rank, stages = meeting.rank, workload.stages
    contexts = [
        workload.context("env", rank.rank * stages + stage, rank.world_size * stages, rank.threads)
        for stage in range(stages)
    ]
    envs = [workload.program.env(workload.config, context) for context in contexts]
    return EnvSide(envs, workload.shape, links, [workload.presence("env", env) for env in envs]), None


def _rollout(meeting: _Meeting, workload: Workload) -> tuple[Side, DeviceUse | None]:
    from rlark.runtime.columns import Link
    from rlark.runtime.exchange import RolloutSide

    learners, envs = meeting.peers("actor"), meeting.peers("env")
    wires = meeting.call("actor", {0, *learners})
    callers = meeting.receive(len(envs))
    rollout = workload.program.rollout(workload.config, _context(meeting, workload))
    side = RolloutSide(
        rollout,
        workload.shape,
        workload.stages,
        envs=[Link.over(callers[rank], meeting.own, both) for rank, both in envs.items()],
        actors=[Link.over(wires[rank], meeting.own, both) for rank, both in learners.items()],
        weights_from=wires[0],
        presence=workload.presence("rollout", rollout),
    )
    return side, None


def _actor(meeting: _Meeting, workload: Workload) -> tuple[Side, DeviceUse | None]:
    from rlark.runtime.columns import Link
    from rlark.runtime.exchange import ActorSide

    shared = meeting.peers("rollout")
    publishes = meeting.rank.rank == 0  # weights come from rank 0, so every Rollout calls there
    callers = meeting.receive(meeting.world_size("rollout") if publishes else len(shared))
    rank = meeting.rank
    context = workload.context("actor", rank.rank, rank.world_size, rank.threads, meeting.team())
    actor = workload.program.actor(workload.config, context)
    side = ActorSide(
        actor,
        workload.shape,
        workload.stages,
        rollouts=[Link.over(callers[rank], meeting.own, both) for rank, both in shared.items()],
        weights_to=list(callers.values()) if publishes else [],
        sees=meeting.seen_by_all("rollout"),
        presence=workload.presence("actor", actor),
        team=context.team,
    )
    return side, actor.device()


def _context(meeting: _Meeting, workload: Workload) -> Any:
    rank = meeting.rank
    return workload.context(rank.component, rank.rank, rank.world_size, rank.threads)


_BUILDERS: dict[str, Callable[[_Meeting, Workload], tuple[Side, DeviceUse | None]]] = {
    "env": _env,
    "rollout": _rollout,
    "actor": _actor,
}
