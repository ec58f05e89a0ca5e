"""Secrets that stand in clear in a Job, and how to tell of them without telling them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rlark.model import Model
from rlark.redactor import MASK, SHORTEST, spellings
from rlark.spec.detector import PRIVATE_KEY, Hit, assigned, hits, random
from rlark.spec.path import child, within

M = TypeVar("M", bound=Model)
_LEFT_OUT = ("spec.sshPublicKey", "status", "metadata.uid", "metadata.resourceVersion")
"""What is public, or the server's own."""
_KEYS_END = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_COMMENT = re.compile(r"^(?:[^\n#]|(?<=\S)#)*", re.MULTILINE)
"""What stands before the comment of a line."""
_WINDOW = 8
"""Characters; no text may show so many of a secret in a row."""
_MOST = 200
"""Leaks told of one Job; a file of nothing else is no Job."""
_LONGEST = 2**14
"""Characters of a secret that are hidden: no key is longer, and no message shows what lies further in."""
_CUT = re.compile(r"\.\.\.|['\"]|$")
"""Where a message leaves off in the middle of a value."""


@dataclass(frozen=True)
class Leak:
    """A secret that stands in clear.

    Attributes:
        code: of the finding.
        kind: what it is, for people; never a part of it.
        path: the place in the Job; empty for a comment, or for a text that could not be read.
        line: the line within the text at that place, from 1.
        column: within that line, from 1.
        lines: how many lines the text has.
        name: what the value is called, for a variable.
        value: the secret itself; goes into a `Veil` and nowhere else.
    """

    code: str
    kind: str
    path: str
    line: int
    column: int
    lines: int
    name: str
    value: str


def find_leaks(data: object, *, without: str = "", path: str = "") -> list[Leak]:
    """Every secret among plain values.

    Args:
        data: what was read: mappings, lists and texts.
        without: a place that is left out.
        path: the place of the data in the Job.
    """
    found: list[Leak] = []
    for leak in _walk(data, path, "", (without, *_LEFT_OUT)):
        found.append(leak)
        if len(found) >= _MOST:
            break
    return found


def find_in_text(text: str) -> list[Leak]:
    """Every secret in the lines of a text that is not read as values: a broken file."""
    return list(_in_lines(text, "", ""))[:_MOST]


def find_in_comments(text: str, known: Iterable[Leak]) -> list[Leak]:
    """Secrets in comments, which no value holds.

    Args:
        text: the file.
        known: what was found in its values; scripts have comments of their own.
    """
    values = {leak.value for leak in known}
    comments = _COMMENT.sub(lambda match: " " * len(match[0]), text)
    return [leak for leak in _in_lines(comments, "", "") if leak.value not in values][:_MOST]


def _walk(value: object, path: str, name: str, without: tuple[str, ...]) -> Iterator[Leak]:
    if any(place and within(path, place) for place in without):
        return
    if isinstance(value, Mapping):
        yield from _in_mapping(value, path, without)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, child(path, index), name, without)
    elif isinstance(value, str) and value:
        yield from _in_value(value, path, name)


def _in_mapping(mapping: Mapping[Any, Any], path: str, without: tuple[str, ...]) -> Iterator[Leak]:
    called = mapping.get("name")
    variable = called if isinstance(called, str) and isinstance(mapping.get("value"), str) else None
    for key, value in ((str(key), value) for key, value in mapping.items()):
        place = child(path, key)
        for hit in hits(key):  # a key that is a secret itself
            yield Leak(hit.code, hit.kind, place, 1, 1, 1, "", hit.value)
        if key == "value" and variable is not None and isinstance(value, str):
            yield from _in_variable(value, place, variable)
        else:
            yield from _walk(value, place, key, without)


def _in_variable(value: str, path: str, name: str) -> Iterator[Leak]:
    found = list(_in_value(value, path, name))
    hit = random(value) if not found else None
    yield from found
    if hit is not None:
        yield Leak(hit.code, hit.kind, path, 1, hit.column, 1, name, hit.value)


def _in_value(value: str, path: str, name: str) -> Iterator[Leak]:
    found = list(_in_lines(value, path, name))
    hit = assigned(name, value) if not found else None
    yield from found
    if hit is not None:
        yield Leak(hit.code, hit.kind, path, 1, 1, 1, name, hit.value)


def _in_lines(text: str, path: str, name: str) -> Iterator[Leak]:
    lines = text.split("\n")
    behind = 0
    for number, line in enumerate(lines, 1):
        if number <= behind:
            continue
        for hit in hits(line):
            value = hit.value
            if hit.code == PRIVATE_KEY:
                value, behind = _whole_key(lines, number, hit)
            yield Leak(hit.code, hit.kind, path, number, hit.column, len(lines), name, value)


def _whole_key(lines: list[str], number: int, hit: Hit) -> tuple[str, int]:
    """A private key with the lines below its first one, and the number of its last line."""
    rest = lines[number - 1][hit.column - 1 :]
    last = number
    if not _KEYS_END.search(rest):
        last = next((n for n, line in enumerate(lines[number:], number + 1) if _KEYS_END.search(line)), len(lines))
    return "\n".join([rest, *lines[number:last]]), last


class Veil:
    """Hides secrets in texts for people, whole or in parts: a message may show the start of a value."""

    def __init__(self, leaks: Iterable[Leak]) -> None:
        """Take what was found."""
        values = {leak.value[:_LONGEST] for leak in leaks}
        texts = {form for value in values for form in spellings(value) if len(form) >= SHORTEST}
        texts |= {part for value in values for part in re.split(r"\s+|\\n", value) if len(part) >= SHORTEST}
        long = [text for text in texts if len(text) >= _WINDOW]
        self._windows = {text[i : i + _WINDOW] for text in long for i in range(len(text) - _WINDOW + 1)}
        self._starts = {text[:length] for text in long for length in range(SHORTEST - 1, _WINDOW)}
        self._short = [re.compile(rf"(?<!\w){re.escape(text)}(?!\w)") for text in texts if len(text) < _WINDOW]

    def __bool__(self) -> bool:
        """Whether there is anything to hide."""
        return bool(self._windows or self._short)

    def __call__(self, text: str) -> str:
        """The text with every secret, and every part of one that can be told for one, masked."""
        if not self:
            return text
        for pattern in self._short:
            text = pattern.sub(MASK, text)
        return self._without_ends(self._without_parts(text))

    def shown(self, model: M) -> M:
        """A finding, or another model of texts, that shows no secret; the name of a file is left."""
        texts = {name: self(value) for name, value in model if isinstance(value, str) and name != "file"}
        return model.model_copy(update=texts) if self else model

    def _without_parts(self, text: str) -> str:
        """Masked wherever as many characters as a window's stand in a secret, too."""
        shown, at = [], 0
        while at < len(text):
            end = at
            while text[end : end + _WINDOW] in self._windows:
                end += 1
            if end > at:
                shown.append(MASK)
                at = end + _WINDOW - 1
            else:
                shown.append(text[at])
                at += 1
        return "".join(shown)

    def _without_ends(self, text: str) -> str:
        """Masked where a text was cut soon after a secret's start."""
        shown, at = [], 0
        for end in (match.start() for match in _CUT.finditer(text)):
            starts = (end - length for length in range(_WINDOW - 1, SHORTEST - 2, -1) if end - length >= at)
            start = next((start for start in starts if self._starts_at(text, start, end)), None)
            if start is not None:
                shown += [text[at:start], MASK]
                at = end
        return "".join([*shown, text[at:]])

    def _starts_at(self, text: str, start: int, end: int) -> bool:
        """True where the start of a secret stands, and not the end of a longer word."""
        alone = start == 0 or not (text[start - 1].isalnum() or text[start - 1] == "_")
        return alone and text[start:end] in self._starts
