"""What the numbers of a placement expression count: GPUs, robots, or the node itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from rlark.plan.expression import Fault, Part
from rlark.plan.node_group import GPU, NODE, NodeGroup


class Holding(NamedTuple):
    """What a rank was given, which is not always what it sees.

    Attributes:
        kind: `GPU`, `node`, or a robot's type.
        numbers: which of them, as the node counts; logical GPUs, ascending.
        group: the node group they come from.
    """

    kind: str
    numbers: tuple[int, ...]
    group: str


class Request(NamedTuple):
    """The GPUs a Job asks for.

    Attributes:
        gpus: how many; None where it leaves that to the placement.
        written: how the form of the Job writes a number of them, with `{}` for the number.
    """

    gpus: int | None = None
    written: str = "gpu: {}"

    def spelt(self, gpus: int) -> str:
        """A number of GPUs, as the form of the Job would say it."""
        return self.written.format(gpus)


@dataclass(frozen=True)
class Resources:
    """What an expression counts: the resources of its groups, one group after another.

    Attributes:
        groups: in the order the expression names them.
        total: how many resources; None where the node is not known.
        noun: what one of them is called.
        request: the GPUs the Job asks for.
    """

    groups: list[NodeGroup]
    total: int | None
    noun: str
    request: Request

    @classmethod
    def of(cls, groups: list[NodeGroup], request: Request) -> Resources:
        """Count what these groups have.

        Args:
            groups: at least one, in the order the expression names them.
            request: the GPUs the Job asks for.
        """
        sizes = [group.size for group in groups]
        total = None if None in sizes else sum(size or 0 for size in sizes)
        nouns = {group.noun for group in groups}
        return cls(groups, total, nouns.pop() if len(nouns) == 1 else "resource", request)

    @property
    def of_node(self) -> bool:
        """True when another node could offer more."""
        return self.request.gpus is None and any(group.of_node for group in self.groups)

    def offered(self) -> str:
        """`this node has GPUs 0-3`, in the words of a message."""
        group, asked = self.groups[0], self.request.gpus
        if len(self.groups) > 1:
            sizes = ", ".join(f"{g.size} {g.noun}{'' if g.size == 1 else 's'}" for g in self.groups)
            return f"node groups {','.join(g.label for g in self.groups)} have {sizes}, numbered {self.numbers()}"
        if group.kind == GPU:
            owner = "this node has" if asked is None else f"this Job asks for {self.request.spelt(asked)}, which gives"
            return f"{owner} GPU{'' if self.total == 1 else 's'} {self.numbers()}"
        if group.kind == NODE and group.of_node:
            owner = "this node has no GPUs" if asked is None else f"this Job asks for {self.request.spelt(0)}"
            return f"{owner}, so that the node itself is the only resource, number 0"
        if group.kind == NODE:
            return f"node group {group.label} counts nodes, and there is only node 0"
        return f"node group {group.label} has {self.total} {group.noun}{'' if self.total == 1 else 's'}"

    def numbers(self) -> str:
        """The numbers there are, `0-3`."""
        total = self.total or 0
        return "none" if total == 0 else "0" if total == 1 else f"0-{total - 1}"

    def cure(self, first: int, last: int) -> str:
        """What to do about numbers that are not there."""
        group = self.groups[0]
        if self.total == 0:
            return f"give group {group.label} a robot at node 0, or use another group"
        if len(self.groups) == 1 and group.kind == GPU:
            return f"request {self.request.spelt(last + 1)} or place on {self.numbers()}"
        if len(self.groups) == 1 and group.kind == NODE:
            processes = f"write 0:0-{last - first} for {last - first + 1} processes" if last > first else "write 0"
            return f"{processes}, or use a node with {last + 1} GPUs" if group.of_node else processes
        return f"place on {self.numbers()}"

    def hold(self, numbers: tuple[int, ...]) -> Holding:
        """What these numbers stand for; an empty holding where they mix kinds or name one thing twice."""
        if len(self.groups) == 1:
            return Holding(self.groups[0].kind, numbers, self.groups[0].label)
        ends = list(accumulate(group.size or 0 for group in self.groups))
        owners = [next(i for i, end in enumerate(ends) if number < end) for number in numbers]
        kinds = {self.groups[owner].kind for owner in owners}
        local = {number - ends[i] + (self.groups[i].size or 0) for number, i in zip(numbers, owners, strict=True)}
        sound = len(kinds) == 1 and len(local) == len(numbers)
        return Holding(kinds.pop(), tuple(sorted(local)) if sound else (), self.groups[owners[0]].label)

    def beyond(self, parts: list[Part]) -> Iterator[Fault]:
        """Numbers in an expression that these groups do not have."""
        if self.total is None:
            return
        for part in parts:
            here = part.resources
            if here is None and self.total == 0:
                yield Fault("RL119", part.start, part.end, self.offered(), self.cure(0, 0), "a resource")
            if here is None or here.last < self.total:
                continue
            outside = max(here.first, self.total)
            numbers = f"{outside} is" if outside == here.last else f"{outside}-{here.last} are"
            what = f"{self.offered()}; {numbers} out of range"
            hint = self.cure(here.first, here.last)
            yield Fault("RL119", here.start, here.end, what, hint, self.numbers(), curable=self.of_node)
