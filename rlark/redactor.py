"""What must not be seen is masked before it is written or sent, in whatever form it would show."""

from __future__ import annotations

import base64
import json
import shlex
import textwrap
from collections.abc import Iterable, Iterator
from typing import TypeVar, cast
from urllib.parse import quote, quote_plus

MASK = "***"
SHORTEST = 4
"""Characters; masking what is shorter would eat the log."""
_SURE = 8
"""Characters; a shorter piece of a base64 text may well stand elsewhere by chance."""
_WRAPS = (76, 64)
"""Where `base64` and PEM files break their lines."""
T = TypeVar("T")


class Redactor:
    """Replaces known secrets in text.

    Values shorter than four characters are left alone: masking them would eat the log.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """Take the values to hide; the longest is replaced first."""
        self._secrets = sorted({s for s in secrets if len(s) >= SHORTEST}, key=len, reverse=True)

    def __bool__(self) -> bool:
        """Whether there is anything to hide."""
        return bool(self._secrets)

    def __call__(self, text: str) -> str:
        """The text with every secret masked."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text

    def tree(self, value: T) -> T:
        """A JSON value with every text in it masked; what describes it, its keys, is left."""
        if isinstance(value, str):
            return cast("T", self(value))
        if isinstance(value, dict):
            return cast("T", {key: self.tree(one) for key, one in value.items()})
        if isinstance(value, list | tuple):
            return cast("T", type(value)(self.tree(one) for one in value))
        return value

    @property
    def reach(self) -> int:
        """The most bytes that a secret takes."""
        return max((len(secret.encode()) for secret in self._secrets), default=0)

    def place_to_cut(self, data: bytes, at: int) -> int:
        """Where bytes can be cut at or before a place, so that no secret is cut; the place itself if there is none."""
        wanted, moved = at, True
        while moved:
            moved = False
            for secret in (secret.encode() for secret in self._secrets):
                found = data.find(secret, max(0, at - len(secret) + 1), at + len(secret) - 1)
                if 0 <= found < at:
                    at, moved = found, True
        return at or wanted


def forms(value: str) -> Iterator[str]:
    """Everything that a secret may look like in a log: as it is, line by line, quoted and encoded."""
    yield from spellings(value)
    yield from _encoded(value.encode())
    yield from _encoded(value.strip().encode())


def spellings(value: str) -> Iterator[str]:
    """A secret as a message may show it: as it is and line by line, each of these quoted too."""
    lines = [line.strip() for line in value.splitlines() if len(line.strip()) >= SHORTEST]
    for text in (value, value.strip(), *lines):
        yield text
        yield from _quoted(text)


def _quoted(text: str) -> Iterator[str]:
    yield json.dumps(text)[1:-1]
    yield json.dumps(text, ensure_ascii=False)[1:-1]
    yield repr(text)[1:-1]
    yield quote(text)
    yield quote(text, safe="")
    yield quote_plus(text)
    yield shlex.quote(text)  # as `set -x` shows it
    yield text.replace("'", "'\\''")


def _encoded(value: bytes) -> Iterator[str]:
    """The value in hexadecimal, and in base64: alone or amid something else, such as the name of a user before it."""
    yield value.hex()
    yield value.hex().upper()
    plain = base64.b64encode(value).decode()
    yield from _both_alphabets(plain)
    yield from _both_alphabets(plain.rstrip("="))
    for before in range(3):
        text = base64.b64encode(bytes(before) + value + bytes(3)).decode()
        whole = text[-(-8 * before // 6) : 8 * (before + len(value)) // 6]  # what the neighbours have no bit of
        if len(whole) >= _SURE:
            yield from _both_alphabets(whole)
    for width in _WRAPS:
        yield from (line for line in textwrap.wrap(plain, width) if len(line) >= _SURE)


def _both_alphabets(text: str) -> tuple[str, str]:
    return text, text.replace("+", "-").replace("/", "_")
