"""What is left of a text when what is wrong with it is taken out, so that the rest can be checked in the same pass."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from rlark.spec.invalid import Codes, Invalid, Loc, explain
from rlark.spec.path import join

_PASSES = 4
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Mended(Generic[M]):
    """A model, or what is left of one.

    Attributes:
        model: without what is wrong; None where nothing is left.
        invalid: what is wrong with it as it was given.
        spoiled: places of it that are missing or were left out, below the place it stands at.
    """

    model: M | None
    invalid: list[Invalid]
    spoiled: tuple[str, ...] = ()


def read(
    model: type[M],
    data: Any,
    codes: Codes,
    *,
    path: str = "",
    fillers: Mapping[Loc, Any] | None = None,
    holes: bool = False,
) -> Mended[M]:
    """Read plain values into a model, and what can be read of them where some are wrong.

    Args:
        model: what they should be.
        data: plain values; they are not changed.
        codes: which codes the findings get.
        path: the place of the data in the Job.
        fillers: what stands in for a missing or unreadable part that the model cannot do without.
        holes: True leaves None in a list where an entry was left out, so that no other one moves.
    """
    try:
        return Mended(model.model_validate(data), [])
    except ValidationError as error:
        invalid = explain(error, model, data, codes, path)
    data, spoiled, wrong = copy.deepcopy(data), list[str](), invalid
    for _ in range(_PASSES):
        for one in sorted(wrong, key=lambda one: _order(one.loc), reverse=True):
            spoiled.append(join(path, one.loc))
            if one.meant and one.meant not in (_get(data, one.loc[:-1]) or {}):
                spoiled.append(join(path, (*one.loc[:-1], one.meant)))
            _leave_out(data, one.loc, fillers or {}, holes=holes)
        try:
            return Mended(model.model_validate(data), invalid, tuple(spoiled))
        except ValidationError as error:
            wrong = explain(error, model, data, codes, path)
    return Mended(None, invalid, tuple(spoiled))


def _order(loc: Loc) -> list[tuple[int, str]]:
    """Later list entries first, so that leaving one out does not move another."""
    return [(step, "") if isinstance(step, int) else (-1, step) for step in loc]


def _leave_out(data: Any, loc: Loc, fillers: Mapping[Loc, Any], *, holes: bool) -> None:
    """Take out what stands there; where it is missing, what misses it."""
    if loc in fillers:
        _set(data, loc, copy.deepcopy(fillers[loc]))
        return
    keep = loc
    while keep and keep not in fillers:
        parent = _get(data, keep[:-1])
        if isinstance(parent, dict) and keep[-1] in parent:
            del parent[keep[-1]]
            return
        if isinstance(parent, list) and isinstance(keep[-1], int) and keep[-1] < len(parent):
            parent[keep[-1]] = None
            if not holes:
                del parent[keep[-1]]
            return
        keep = keep[:-1]


def _get(data: Any, loc: Loc) -> Any:
    for step in loc:
        if isinstance(data, dict):
            data = data.get(str(step))
        elif isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        else:
            return None
    return data


def _set(data: Any, loc: Loc, value: Any) -> None:
    parent = _get(data, loc[:-1])
    if isinstance(parent, dict):
        parent[str(loc[-1])] = value
    elif isinstance(parent, list) and isinstance(loc[-1], int) and loc[-1] < len(parent):
        parent[loc[-1]] = value
