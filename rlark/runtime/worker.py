"""What lives in a rank's process when an engine brings its own: the base of RLinf's kind, and how it gets there."""

from __future__ import annotations

import functools
import importlib
import logging
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from rlark.runtime.channel import GRACE_S, HOST, Answer, Channel, Request
from rlark.runtime.rank import Rank
from rlark.runtime.weights import Publisher, Subscriber
from rlark.runtime.wire import Endpoint, Wire, connect, exchange_patience

if TYPE_CHECKING:
    from rlark.runtime.seat import Posting
    from rlark.runtime.worker_group import Unlaunched

F = TypeVar("F", bound=Callable[..., Any])
BARRIER_S = 1800.0


class Worker:
    """One rank of a group.

    A subclass's public methods are called from the driver, on all ranks or some
    (`rlark.runtime.worker_group.WorkerGroup`). What is here can be used in its constructor already,
    which need not call this class's.

    Attributes:
        rank: its number in the group, from 0.
        world_size: how many the group has.
        group_name: the group's name.
        visible_devices: the physical GPUs it sees, in its own order, as CUDA_VISIBLE_DEVICES names them.
        threads: how many threads may compute here.
        log: its logger; it writes to the rank's own log.
    """

    rank: int
    world_size: int
    group_name: str
    visible_devices: tuple[str, ...]
    threads: int
    log: logging.Logger
    _run: str
    _name: str
    _times: dict[str, float]
    _host: Wire | None

    @classmethod
    def create_group(cls, *arguments: Any, **named: Any) -> Unlaunched:
        """A group of these, to be launched; the arguments are the constructor's, on every rank."""
        from rlark.runtime.worker_group import Unlaunched

        return Unlaunched(cls, arguments, named)

    @property
    def device(self) -> str:
        """Where torch computes here: `cuda:0`, the first GPU that this rank sees, or `cpu` where there is none.

        GPUs that are only claimed (faked) are none.
        """
        try:
            torch = importlib.import_module("torch")
        except ImportError:
            return "cpu"
        return "cuda:0" if self.visible_devices and torch.cuda.is_available() else "cpu"

    def log_on_first_rank(self, message: str, *arguments: object) -> None:
        """Tell something that holds for the whole group, once."""
        if self.rank == 0:
            self.log.info(message, *arguments)

    @contextmanager
    def worker_timer(self, tag: str) -> Iterator[None]:
        """Measure what stands in the `with`; `pop_execution_times` tells."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self._times[tag] = self._times.get(tag, 0.0) + time.perf_counter() - began

    @staticmethod
    def timer(tag: str) -> Callable[[F], F]:
        """Measure every call of a method."""

        def measured(method: F) -> F:
            @functools.wraps(method)
            def call(self: Worker, *arguments: Any, **named: Any) -> Any:
                with self.worker_timer(tag):
                    return method(self, *arguments, **named)

            return call  # type: ignore[return-value]

        return measured

    def pop_execution_times(self) -> dict[str, float]:
        """Seconds by tag since the last call."""
        times, self._times = self._times, {}
        return times

    def barrier(self, timeout_s: float = BARRIER_S) -> None:
        """Wait until every rank of the group is here.

        Raises:
            TimeoutError: not all came in time; says how many did.
            PeerLost: the run is over.
        """
        if self._host is None:
            self._host = connect(f"{self._run}/{HOST}", self._name, "the driver")
        self._host.have_patience(timeout_s + GRACE_S)
        self._host.send_object(Request("barrier", self.group_name, number=self.world_size, wait_s=timeout_s))
        answer: Answer = self._host.receive_object()
        if answer.error is not None:
            raise answer.error

    def create_channel(self, name: str, maxsize: int = 0) -> Channel:
        """A channel that all ranks of the run can connect to."""
        return Channel.create(self._run, name, self._name, maxsize)

    def publish_weights(self, name: str, subscribers: int, timeout_s: float = BARRIER_S) -> Publisher:
        """Meet those who want this rank's weights, under a name.

        Args:
            name: what is published, for example `policy`.
            subscribers: how many ranks call `subscribe_weights` with that name.
            timeout_s: how long to wait for them.

        Raises:
            PeerLost: not all came in time.
        """
        endpoint = Endpoint(f"{self._run}/weights/{name}", exchange_patience())
        self.create_channel(f"weights/{name}").disconnect()  # whoever subscribes may call now
        wires = [endpoint.accept(timeout_s)[1] for _ in range(subscribers)]
        endpoint.close()
        return Publisher(wires)

    def subscribe_weights(self, name: str, timeout_s: float = BARRIER_S) -> Subscriber:
        """Meet the rank that publishes weights under a name, now or within `timeout_s`.

        Raises:
            TimeoutError: nobody does.
            PeerLost: the run is over.
        """
        self.connect_channel(f"weights/{name}", timeout_s).disconnect()
        wire = connect(f"{self._run}/weights/{name}", self._name, f"the publisher of {name}", exchange_patience())
        return Subscriber(wire)

    def connect_channel(self, name: str, timeout_s: float = 60.0) -> Channel:
        """A channel that somebody creates, now or within `timeout_s`."""
        return Channel.connect(self._run, name, self._name, timeout_s)


@dataclass(frozen=True)
class Contract:
    """What a rank is to hold.

    Attributes:
        module: where the class is.
        name: the class's, qualified.
        arguments: of its constructor.
        named: its named ones.
    """

    module: str
    name: str
    arguments: tuple[Any, ...]
    named: dict[str, Any]

    @classmethod
    def of(cls, kind: type[Worker], arguments: tuple[Any, ...], named: dict[str, Any]) -> Contract:
        """The contract for one class.

        Raises:
            ValueError: no other process can import the class.
        """
        if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
            raise ValueError(
                f"{kind.__module__}.{kind.__qualname__} cannot be imported by the process of a rank: "
                "define the class at the top of a module of its own"
            )
        return cls(kind.__module__, kind.__qualname__, arguments, named)

    def sealed(self) -> bytes:
        """As it travels: opened only once the rank has its environment."""
        body = pickle.dumps((self.arguments, self.named), protocol=5)
        return pickle.dumps((self.module, self.name, body), protocol=5)


def hire(posting: Posting) -> Worker:
    """Build what a posting's contract asks for, with everything a `Worker` has in place."""
    module, name, body = pickle.loads(posting.worker)  # noqa: S301  the run's driver wrote it
    kind: Any = importlib.import_module(module)
    for part in name.split("."):
        kind = getattr(kind, part)
    arguments, named = pickle.loads(body)  # noqa: S301
    worker: Worker = kind.__new__(kind)
    _place(worker, posting.rank, posting.run, posting.env)
    kind.__init__(worker, *arguments, **named)
    return worker


def _place(worker: Worker, rank: Rank, run: str, env: dict[str, str]) -> None:
    """Tell a worker who and where it is."""
    worker.rank, worker.world_size, worker.group_name = rank.rank, rank.world_size, rank.component
    worker.visible_devices = tuple(gpu for gpu in env.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu)
    worker.threads = rank.threads
    worker._run, worker._name = run, f"{rank.component}-{rank.rank}"  # noqa: SLF001  its own class's
    worker._times, worker._host = {}, None  # noqa: SLF001
    worker.log = logging.getLogger(worker._name)  # noqa: SLF001
