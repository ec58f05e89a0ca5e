"""Plain YAML scalars that RLinf's loader, which follows YAML 1.1, reads as something else."""

from __future__ import annotations

import re

_WORDS = {"yes": True, "no": False, "on": True, "off": False}
_BOOLEANS = {form: value for word, value in _WORDS.items() for form in (word, word.title(), word.upper())}
_BINARY = re.compile(r"[-+]?0b[01_]*[01][01_]*")
_HEX = re.compile(r"[-+]?0x[0-9a-fA-F_]*[0-9a-fA-F][0-9a-fA-F_]*")
_OCTAL = re.compile(r"[-+]?0[0-7_]+")
_GROUPED = re.compile(r"[-+]?[1-9][0-9]*_[0-9_]*")
_GROUPED_FLOAT = re.compile(r"[-+]?(?=[0-9.]*_)[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?")
_SEXAGESIMAL = re.compile(r"[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+")
_SEXAGESIMAL_FLOAT = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*")
_TEXT_AFTER_ALL = re.compile(r"0o[0-7]+|[-+]?0[0-9]*[89][0-9]*")


class Unquoted(str):
    """A scalar that stands in the file without quotes and means something else to RLinf's loader.

    It behaves as the text that was written; whoever needs a number refuses it and says "quote it".

    Attributes:
        reads_as: what RLinf's loader makes of it, for example 60 of `1:0`.
    """

    __slots__ = ("reads_as",)

    reads_as: object

    def __new__(cls, text: str, reads_as: object) -> Unquoted:
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
    if not text[:1].isdigit() and text[:1] not in "+-":
        return None
    return _number(text)


def _number(text: str) -> object | None:
    digits = text.replace("_", "")
    if _BINARY.fullmatch(text):
        return int(digits, 2)
    if _HEX.fullmatch(text):
        return int(digits, 16)
    if _OCTAL.fullmatch(text):
        return int(digits, 8)
    if _GROUPED.fullmatch(text):
        return int(digits)
    if _GROUPED_FLOAT.fullmatch(text):
        return float(digits)
    if _SEXAGESIMAL.fullmatch(text):
        return _base60(digits)
    if _SEXAGESIMAL_FLOAT.fullmatch(text):
        return _base60(digits)
    return text if _TEXT_AFTER_ALL.fullmatch(text) else None


def _base60(digits: str) -> float:
    value: float = 0
    for field in digits.lstrip("+-").split(":"):
        value = value * 60 + (float(field) if "." in field else int(field))
    return -value if digits.startswith("-") else value
