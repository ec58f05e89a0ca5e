"""Label selectors as Kubernetes writes them: `a=b,c!=d,e in (x,y),f,!g`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from rlark.errors import UsageError

Labels = Mapping[str, str]
_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9_./-]{0,251}[A-Za-z0-9])?"
_VALUE = r"[A-Za-z0-9_.-]{0,253}"
_TERM = re.compile(
    rf"\s*(?:(?P<set>{_KEY})\s+(?P<word>in|notin)\s*\(\s*(?P<many>{_VALUE}(?:\s*,\s*{_VALUE})*)\s*\)"
    rf"|(?P<key>{_KEY})\s*(?P<sign>==|=|!=)\s*(?P<value>{_VALUE})"
    rf"|(?P<absent>!)?\s*(?P<bare>{_KEY}))\s*(?:,|$)"
)
LONGEST = 2000


def parse(text: str) -> Callable[[Labels], bool]:
    """What a selector asks of labels; an empty one asks nothing.

    Raises:
        UsageError: it cannot be read.
    """
    terms, place = [], 0
    while place < len(text):
        match = _TERM.match(text, place) if len(text) <= LONGEST else None
        if match is None or match.end() == place:
            raise UsageError(
                f"the labelSelector {text[:200]!r} cannot be read at character {place + 1}",
                hint="write key=value, key!=value, key, !key or key in (a,b), joined by commas",
            )
        terms.append(_term(match))
        place = match.end()
    return lambda labels: all(term(labels) for term in terms)


def _term(match: re.Match[str]) -> Callable[[Labels], bool]:
    if match["set"]:
        key, values = match["set"], {value.strip() for value in match["many"].split(",")}
        if match["word"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match["key"]:
        key, value = match["key"], match["value"]
        if match["sign"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    key = match["bare"]
    if match["absent"]:
        return lambda labels: key not in labels
    return lambda labels: key in labels
