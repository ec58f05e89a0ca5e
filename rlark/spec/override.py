"""Overrides that are plain values, without Hydra: `algorithm.seed=7`.

Most overrides set one number or word that stands in the configuration already. Those mean the
same with and without Hydra, and are applied here in microseconds; whatever else Hydra's grammar
knows (new keys, groups, lists, quotes, interpolation, deletion) is left to it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_OVERRIDE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+)=([A-Za-z0-9_.+-]+)")
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)\.[0-9]+(?:e-?[0-9]{1,2})?|-?[1-9][0-9]*e-?[0-9]{1,2}")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:-[A-Za-z][A-Za-z0-9_]*)*")
_NOT_WORDS = {"true", "false", "null", "nan", "inf"}
_TRUTH = {"true": True, "false": False}


class NotPlain(Exception):
    """An override that only Hydra can apply."""


def apply_plain(data: Mapping[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """The configuration with plain overrides applied in order; the given one is not changed.

    Args:
        data: a configuration without defaults or interpolation.
        overrides: `section.key=value` each.

    Raises:
        NotPlain: one of them is something else, or its key does not hold a single value.
    """
    changed = dict(data)
    for override in overrides:
        match = _OVERRIDE.fullmatch(override)
        if match is None:
            raise NotPlain(override)
        _set(changed, match[1].split("."), _value(match[2]))
    return changed


def _set(mapping: dict[str, Any], keys: list[str], value: Any) -> None:
    *parents, last = keys
    for key in parents:
        inner = mapping.get(key)
        if not isinstance(inner, Mapping):
            raise NotPlain(key)
        mapping[key] = dict(inner)
        mapping = mapping[key]
    if last not in mapping or isinstance(mapping[last], Mapping | list):
        raise NotPlain(last)
    mapping[last] = value


def _value(text: str) -> Any:
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if text in _TRUTH:
        return _TRUTH[text]
    if _WORD.fullmatch(text) and text.lower() not in _NOT_WORDS:
        return text
    raise NotPlain(text)
