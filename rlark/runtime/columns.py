"""How the environments of a run are shared out over stages and ranks.

With `rollout.pipeline_stage_num` of S, the environments of a run are S stages of N/S columns. Of
each stage, every component's ranks own consecutive even blocks; two ranks are linked where their
blocks meet.
"""

from __future__ import annotations

from dataclasses import dataclass

from rlark.runtime.wire import Wire


def columns(num_envs: int, rank: int, world_size: int) -> range:
    """The environments of a stage that one rank of a component owns.

    Raises:
        ValueError: they cannot be shared out evenly.
    """
    share, rest = divmod(num_envs, world_size)
    if rest or not share:
        raise ValueError(f"{num_envs} environments cannot be shared evenly by {world_size} ranks")
    return range(rank * share, (rank + 1) * share)


def stage_size(num_envs: int, stages: int) -> int:
    """The environments of one stage.

    Raises:
        ValueError: they cannot be shared out evenly.
    """
    size, rest = divmod(num_envs, stages)
    if rest or not size:
        raise ValueError(f"{num_envs} environments cannot be shared evenly by {stages} pipeline stages")
    return size


def peers(num_envs: int, own: range, world_size: int) -> dict[int, range]:
    """The ranks of another component that own some of these columns: rank -> the columns both own."""
    shares = {rank: columns(num_envs, rank, world_size) for rank in range(world_size)}
    common = {rank: range(max(own.start, s.start), min(own.stop, s.stop)) for rank, s in shares.items()}
    return {rank: both for rank, both in common.items() if both}


@dataclass(frozen=True)
class Link:
    """A wire to a peer and the columns of a stage that pass over it.

    Attributes:
        wire: the wire.
        rows: where those columns stand in this rank's own arrays of the stage.
    """

    wire: Wire
    rows: slice

    @classmethod
    def over(cls, wire: Wire, own: range, both: range) -> Link:
        """The link for the columns both own, on the side that owns `own`."""
        return cls(wire, slice(both.start - own.start, both.stop - own.start))

    @property
    def count(self) -> int:
        """How many columns pass."""
        return int(self.rows.stop - self.rows.start)
