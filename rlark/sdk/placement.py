"""Where a Job's ranks run, as a cell of a notebook and a terminal show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rlark.plan.node import Node
from rlark.plan.plan import Ask, Plan, RankPlacement

if TYPE_CHECKING:
    from rlark.sdk.transport import JsonObject


@dataclass(frozen=True)
class Placement:
    """Which component runs where.

    Attributes:
        plan: the Job's ranks by component, on logical GPUs.
        node: the node, as far as the Job holds it.
        fused: True when one process runs all components; None when that is not known yet.
        devices: logical GPU i is the i-th of these on the node; empty before the lease.
    """

    plan: Plan
    node: Node
    fused: bool | None = None
    devices: tuple[str, ...] = ()

    @classmethod
    def from_status(cls, job: str, status: JsonObject) -> Placement:
        """From a Job's `status` on the wire."""
        gpus = (status.get("lease") or {}).get("gpus") or []
        placed = {name: [_rank(rank) for rank in ranks] for name, ranks in (status.get("placement") or {}).items()}
        name = status.get("node") or "no node yet"
        plan = Plan(job=job, node=name, placement=placed, fused=bool(status.get("fused")))
        count = max(len(gpus), plan.gpus_required)
        node = Node(name=name, gpus=count, gpus_faked=any(gpu.get("faked") for gpu in gpus))
        plan = plan.model_copy(update={"ask": Ask(gpus=count)})
        return cls(plan, node, status.get("fused"), tuple(_device(gpu) for gpu in gpus))

    @property
    def ranks(self) -> Mapping[str, list[RankPlacement]]:
        """The ranks of each component."""
        return self.plan.placement

    def __repr__(self) -> str:
        from rlark.plan.picture import placement_grid

        if not self.ranks:
            return f"no components on {self.node.name}"
        return placement_grid(self.plan, self.node) + "".join(f"\n{line}" for line in self._notes())

    def _repr_html_(self) -> str:
        from rlark.plan.picture import placement_svg

        if not self.ranks:
            return f"<p>no components on {self.node.name}</p>"
        return placement_svg(self.plan, self.node) + "".join(f"<p>{line}</p>" for line in self._notes())

    def _notes(self) -> list[str]:
        return [f"logical GPU {i} is {device}" for i, device in enumerate(self.devices)]


def _rank(rank: Mapping[str, Any]) -> RankPlacement:
    return RankPlacement(
        rank=rank["rank"], gpus=list(rank.get("gpus") or []), local_rank=rank.get("localRank", rank["rank"])
    )


def _device(gpu: Mapping[str, Any]) -> str:
    name = f"GPU {gpu['id']}" + (f" ({gpu['uuid']})" if gpu.get("uuid") else "")
    return f"{name}, faked" if gpu.get("faked") else name
