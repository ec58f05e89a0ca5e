"""Plain YAML scalars that RLinf's loader, which follows YAML 1.1, reads as something else."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Self

_WORDS = {"yes": True, "no": False, "on": True, "off": False}
_LONGEST = 100
"""Characters; no number that somebody means is longer."""
_BOOLEANS = {form: value for word, value in _WORDS.items() for form in (word, word.title(), word.upper())}


def _base60(digits: str) -> float:
    value: float = 0
    for field in digits.lstrip("+-").split(":"):
        value = value * 60 + (float(field) if "." in field else int(field))
    return -value if digits.startswith("-") else value


_READERS: tuple[tuple[re.Pattern[str], Callable[[str], object]], ...] = tuple(
    (re.compile(pattern), read)
    for pattern, read in (
        (r"[-+]?0b_*[01][01_]*", lambda digits: int(digits, 2)),
        (r"[-+]?0x_*[0-9a-fA-F][0-9a-fA-F_]*", lambda digits: int(digits, 16)),
        (r"[-+]?0[0-7_]+", lambda digits: int(digits, 8)),
        (r"[-+]?[1-9][0-9]*_[0-9_]*", int),
        (r"[-+]?(?=[0-9.]*_)[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?", float),
        (r"[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+", _base60),
        (r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*", _base60),
        (r"0o[0-7]+|[-+]?0[0-9]*[89][0-9]*", str),
    )
)
"""What a number looks like, and how it is read once its underscores are gone."""


class Unquoted(str):
    """A scalar that stands in the file without quotes and means something else to RLinf's loader.

    It behaves as the text that was written; whoever needs a number refuses it and says "quote it".

    Attributes:
        reads_as: what RLinf's loader makes of it, for example 60 of `1:0`.
    """

    __slots__ = ("reads_as",)

    reads_as: object

    def __new__(cls, text: str, reads_as: object) -> Self:
        """Keep the text and what it would be taken for."""
        made = super().__new__(cls, text)
        made.reads_as = reads_as
        return made

    def __getnewargs__(self) -> tuple[str, object]:  # type: ignore[override]
        return str(self), self.reads_as


def yaml11_surprise(text: str) -> object | None:
    """What YAML 1.1 reads in a plain scalar that YAML 1.2 reads otherwise, or that people misread.

    Covers base-60 integers and floats (`1:30` is 90), leading zeros (`010` is 8), hexadecimal and
    binary integers, underscores in numbers, and `yes`, `no`, `on`, `off`. Numbers that only YAML 1.2
    reads as such (`0o17`, `08`) come back as their own text.

    Args:
        text: the scalar as it stands in the file, without quotes.

    Returns:
        The value, or None where both read the same.
    """
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text[:1] not in "+-0123456789" or len(text) > _LONGEST:
        return None
    return next((read(text.replace("_", "")) for pattern, read in _READERS if pattern.fullmatch(text)), None)
