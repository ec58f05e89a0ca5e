"""Plain values as YAML that every reader takes for the same values, byte for byte the same each time.

Texts of several lines are literal blocks, as people write scripts; a text that YAML 1.1 or 1.2
could take for something else is quoted. Written here and not by a library, so that the digest of
a Job does not change with one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from rlark.spec.yaml import plain

_LONGEST_KEY = 500
"""Characters; YAML wants the colon within 1024 of the key's start."""
_SAFE = re.compile(r"(?:[A-Za-z_/][A-Za-z0-9_./@+-]*|[0-9]+[A-Za-z]+)(?: [A-Za-z0-9_./@+(-][A-Za-z0-9_./@+()-]*)*")
_WORDS_OF_YAML_11 = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_UNPRINTABLE = re.compile(r"[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def emit(value: dict[str, Any]) -> str:
    """A mapping as a YAML document.

    Args:
        value: mappings with texts as keys, lists, texts, numbers, truth values and None.
    """
    return "".join(f"{line}\n" for line in _mapping(value, 0)) if value else "{}\n"


def _mapping(value: dict[str, Any], indent: int) -> Iterator[str]:
    pad = " " * indent
    for key, entry in value.items():
        name = _text(key)
        if len(name) > _LONGEST_KEY:
            yield f"{pad}? {name}"
            name = ""
        yield from _entry(f"{pad}{name}:", entry, indent)


def _entry(head: str, value: Any, indent: int) -> Iterator[str]:
    """A value behind `key:`, on its line or below it."""
    if isinstance(value, dict) and value:
        yield head
        yield from _mapping(value, indent + 2)
    elif isinstance(value, list) and value and not _flows(value):
        yield head
        yield from _list(value, indent + 2)
    else:
        yield from _scalar(f"{head} ", value, indent)


def _list(value: list[Any], indent: int) -> Iterator[str]:
    pad = " " * indent
    for item in value:
        if isinstance(item, dict | list) and item and not (isinstance(item, list) and _flows(item)):
            lines = _mapping(item, indent + 2) if isinstance(item, dict) else _list(item, indent + 2)
            yield f"{pad}- {next(lines)[indent + 2 :]}"
            yield from lines
        else:
            yield from _scalar(f"{pad}- ", item, indent)


def _flows(value: list[Any]) -> bool:
    """True for a list of numbers: it is read better on one line."""
    return all(item is None or isinstance(item, bool | int | float) for item in value)


def _scalar(head: str, value: Any, indent: int) -> Iterator[str]:
    if isinstance(value, str) and _fits_block(value):
        yield from _block(head, value, indent)
    elif isinstance(value, list):
        yield f"{head}[{', '.join(_number(item) for item in value)}]"
    elif isinstance(value, dict):
        yield f"{head}{{}}"
    else:
        yield head + (_text(value) if isinstance(value, str) else _number(value))


def _number(value: Any) -> str:
    """A number as YAML 1.1 and 1.2 both read it; truth values and None too."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    mantissa, exponent, power = repr(float(value)).partition("e")
    return f"{mantissa}{'' if '.' in mantissa else '.0'}{exponent}{power}"


def _fits_block(text: str) -> bool:
    """True when a literal block can hold the text to the last blank."""
    return "\n" in text and bool(text.strip("\n \t")) and not _UNPRINTABLE.search(text)


def _block(head: str, text: str, indent: int) -> Iterator[str]:
    chomp = "+" if text.endswith("\n\n") else "" if text.endswith("\n") else "-"
    indented = "2" if text[0] in {" ", "\n", "\t"} else ""
    yield f"{head}|{indented}{chomp}"
    pad = " " * (indent + 2)
    for line in text.removesuffix("\n").split("\n"):
        yield pad + line if line else ""


def _text(text: str) -> str:
    """A text on one line: plain where nobody can mistake it, else quoted."""
    if _SAFE.fullmatch(text) and text.lower() not in _WORDS_OF_YAML_11 and type(plain(text)) is str:
        return text
    if ("\\" in text or '"' in text) and "\n" not in text and not _UNPRINTABLE.search(text):
        return "'" + text.replace("'", "''") + "'"
    return '"' + "".join(_escaped(character) for character in text) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if not _UNPRINTABLE.match(character):
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
