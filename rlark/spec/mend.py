"""What is left of a text when what is wrong with it is taken out, so that the rest can be checked in the same pass."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ValidationError

from rlark.spec.invalid import Codes, Invalid, Loc, explain
from rlark.spec.path import join

_PASSES = 4
_HOLE = object()
"""Stands in a list for an entry that is left out, until the list is read."""
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Mended(Generic[M]):
    """A model, or what is left of one.

    Attributes:
        model: without what is wrong; None where nothing is left.
        invalid: what is wrong with it as it was given.
        spoiled: places of it that are missing or were left out, below the place it stands at.
        kept: of each list that lost entries, which of them are left, by where it stood in the data.
    """

    model: M | None
    invalid: list[Invalid]
    spoiled: tuple[str, ...] = ()
    kept: Mapping[Loc, list[int]] = field(default_factory=dict)


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
    data, spoiled, wrong, kept = copy.deepcopy(data), list[str](), invalid, dict[Loc, list[int]]()
    for _ in range(_PASSES):
        broken = [(given(one.loc, kept), one.meant) for one in wrong]
        spoiled += [join(path, place) for loc, meant in broken for place in _lost(data, loc, meant)]
        for loc, _meant in broken:
            _leave_out(data, loc, fillers or {}, None if holes else _HOLE)
        left = _without_holes(data, kept)
        try:
            return Mended(model.model_validate(left), invalid, tuple(spoiled), kept)
        except ValidationError as error:
            wrong = explain(error, model, left, codes, path)
    return Mended(None, invalid, tuple(spoiled))


def given(loc: Loc, kept: Mapping[Loc, list[int]]) -> Loc:
    """Where an entry stood before others were left out.

    Args:
        loc: where it stands in what is left.
        kept: of each list that lost entries, which are left.
    """
    found: Loc = ()
    for step in loc:
        found = (*found, kept[found][step] if isinstance(step, int) and found in kept else step)
    return found


def _without_holes(value: Any, kept: dict[Loc, list[int]], at: Loc = ()) -> Any:
    """The values with their lists closed up, and a note of which entries are left."""
    if isinstance(value, dict):
        return {key: _without_holes(entry, kept, (*at, key)) for key, entry in value.items()}
    if not isinstance(value, list):
        return value
    left = [index for index, entry in enumerate(value) if entry is not _HOLE]
    if len(left) < len(value):
        kept[at] = left
    return [_without_holes(value[index], kept, (*at, index)) for index in left]


def _lost(data: Any, loc: Loc, meant: str | None) -> list[Loc]:
    """What is missing with a broken place: that, and what an unknown key was meant to be."""
    if not meant or meant in (_get(data, loc[:-1]) or {}):
        return [loc]
    return [loc, (*loc[:-1], meant)]


def _leave_out(data: Any, loc: Loc, fillers: Mapping[Loc, Any], hole: object) -> None:
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
            parent[keep[-1]] = hole
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
