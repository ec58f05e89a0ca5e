"""Every kind of task pack, told apart by `kind`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Discriminator, Tag

from rlark.spec.pendulum_pack import PENDULUM_CHAIN, PendulumPack
from rlark.spec.task_pack import TaskPack

_OTHER = "other"


def model_of(pack: Mapping[str, Any]) -> type[TaskPack | PendulumPack]:
    """The model of a pack as it is written."""
    return PendulumPack if _kind(pack) == PENDULUM_CHAIN else TaskPack


def _kind(pack: object) -> str:
    kind = pack.get("kind") if isinstance(pack, Mapping) else getattr(pack, "kind", None)
    return PENDULUM_CHAIN if kind == PENDULUM_CHAIN else _OTHER


Pack = Annotated[Annotated[TaskPack, Tag(_OTHER)] | Annotated[PendulumPack, Tag(PENDULUM_CHAIN)], Discriminator(_kind)]
"""A task pack of any kind, as the field of a model."""
