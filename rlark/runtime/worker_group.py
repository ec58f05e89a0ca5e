"""A group of workers as its driver sees it: call all ranks or some, and wait for what they answer.

```python
class Adder(Worker):
    def add(self, a, b):
        return a + b + self.rank

with Cluster.local(adders=2) as cluster:
    adders = Adder.create_group().launch(cluster, name="adders")
    adders.add(1, 2).wait()                     # [3, 4]
    adders.execute_on(1).add(1, 2).wait()       # [4]
    adders.add(PerRank([1, 10]), 2).wait()      # [3, 13]
```

A call returns at once, so that groups work at the same time. The first failure of any rank ends the
run: whoever waits is told it, and not what followed from it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlark.runtime.call import Call
from rlark.runtime.rank import Rank
from rlark.runtime.roster import START_S, Roster
from rlark.runtime.worker import Contract, Worker

if TYPE_CHECKING:
    from rlark.runtime.cluster import Cluster


@dataclass(frozen=True)
class PerRank:
    """An argument that differs from rank to rank.

    Attributes:
        values: one for each rank that is called, in their order.
    """

    values: Sequence[Any]


class Answers:
    """What ranks will have answered."""

    def __init__(self, call: Call, started: Sequence[Call] = ()) -> None:
        """Take the call, and what has to be waited for before."""
        self._call, self._started = call, started

    def wait(self, timeout_s: float | None = None) -> list[Any]:
        """The answers in the order of the ranks.

        Args:
            timeout_s: how long they may take, once every rank is built; None for as long as it takes.

        Raises:
            RunFailed: a rank of the run failed, or the time is over: then the ranks that are late have written
                their stacks to their logs. All ranks are ended.
        """
        for call in self._started:
            call.wait(START_S)
        return list(self._call.wait(timeout_s).values())

    def done(self) -> bool:
        """Whether all have answered; does not wait.

        Raises:
            RunFailed: a rank of the run failed.
        """
        return self._call.done()


class WorkerGroup:
    """A running group. Every public method of its class is a method here, which gives `Answers`."""

    def __init__(self, roster: Roster, kind: type[Worker], ranks: Sequence[Rank], started: Sequence[Call]) -> None:
        """Made by `Unlaunched.launch`."""
        self._roster, self._kind, self._ranks, self._started = roster, kind, tuple(ranks), started

    @property
    def world_size(self) -> int:
        """How many ranks a call reaches."""
        return len(self._ranks)

    def execute_on(self, *ranks: int) -> WorkerGroup:
        """The same group, calls on which reach these ranks only.

        Raises:
            ValueError: there is no such rank.
        """
        known = {rank.rank: rank for rank in self._ranks}
        missing = [rank for rank in ranks if rank not in known]
        if missing or not ranks:
            raise ValueError(f"{self._ranks[0].component} has no rank {missing or 'given'}; it has {sorted(known)}")
        return WorkerGroup(self._roster, self._kind, [known[rank] for rank in ranks], self._started)

    def ready(self, timeout_s: float = START_S) -> WorkerGroup:
        """Wait until every rank is built.

        Args:
            timeout_s: how long that may take.

        Raises:
            RunFailed: one could not be, or not in time.
        """
        for call in self._started:
            call.wait(timeout_s)
        return self

    def __getattr__(self, name: str) -> Callable[..., Answers]:
        if name.startswith("_") or not callable(getattr(self._kind, name, None)):
            raise AttributeError(f"{self._kind.__name__} has no public method {name!r}")

        def call(*arguments: Any, **named: Any) -> Answers:
            each = {rank: tuple(self._of(i, value) for value in arguments) for i, rank in enumerate(self._ranks)}
            also = {
                rank: {key: self._of(i, value) for key, value in named.items()} for i, rank in enumerate(self._ranks)
            }
            return Answers(self._roster.order(name, each, also, ranks=self._ranks), self._started)

        return call

    def _of(self, index: int, value: Any) -> Any:
        if not isinstance(value, PerRank):
            return value
        if len(value.values) != len(self._ranks):
            raise ValueError(f"{len(value.values)} values were given for {len(self._ranks)} ranks")
        return value.values[index]


@dataclass(frozen=True)
class Unlaunched:
    """A group that has no processes yet.

    Attributes:
        kind: the class.
        arguments: of its constructor, on every rank.
        named: its named ones.
    """

    kind: type[Worker]
    arguments: tuple[Any, ...]
    named: dict[str, Any]

    def launch(self, cluster: Cluster, name: str) -> WorkerGroup:
        """Start its processes; returns before they are up.

        Args:
            cluster: says how many ranks a component has, and where.
            name: the component, as in `component_placement`.

        Raises:
            ValueError: no such component is placed, it was launched already, no other process can import the class,
                or it has a method that could not be called because the group has one of that name.
        """
        taken = sorted(own for own in vars(WorkerGroup) if own[0] != "_" and hasattr(self.kind, own))
        if taken:
            raise ValueError(f"{self.kind.__name__}.{taken[0]} hides what every group has: give it another name")
        contract = Contract.of(self.kind, self.arguments, self.named).sealed()
        ranks, started = cluster.start(name, contract)
        return WorkerGroup(cluster.roster, self.kind, ranks, started)
