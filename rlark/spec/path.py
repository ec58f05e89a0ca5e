"""Dotted places in a Job: `spec.tasks[0].ray.replicas`, `metadata.labels["rlark.io/team"]`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_STEP = re.compile(r'\[([0-9]+)\]|\[("(?:[^"\\]|\\.)*")\]|\.?([^.\[\]]+)')


def child(path: str, key: str | int) -> str:
    """The place of an entry.

    Args:
        path: the place of the mapping or list; empty for the whole file.
        key: a key of the mapping, or a position in the list.
    """
    if isinstance(key, int):
        return f"{path}[{key}]"
    if not _WORD.fullmatch(key):
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{key}" if path else key


def join(path: str, keys: Iterable[str | int]) -> str:
    """The place below `path` that the keys lead to."""
    for key in keys:
        path = child(path, key)
    return path


def steps(path: str) -> list[str | int]:
    """The keys and positions that lead to a place; the inverse of `join("", keys)`."""
    found: list[str | int] = []
    for number, quoted, word in _STEP.findall(path):
        found.append(int(number) if number else json.loads(quoted) if quoted else word)
    return found


def within(path: str, parent: str) -> bool:
    """True when a place is `parent` or lies below it."""
    return path == parent or (path.startswith(parent) and (not parent or path[len(parent)] in ".["))
