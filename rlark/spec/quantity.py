"""Amounts as people write them: `4Gi` of memory, `500m` of a CPU, `1h30m` of time."""

from __future__ import annotations

import math
import re
from typing import Annotated, TypeVar

from pydantic import BeforeValidator, WithJsonSchema

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
_MEMORY_UNITS = _BINARY | _DECIMAL
_AMOUNT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)([A-Za-z]{0,2})")
_TIME_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_TIME_PART = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)(ms|s|m|h|d)")
_TIME = re.compile(rf"(?:{_TIME_PART.pattern})+")
_MOST = 2**63 - 1
"""Of whatever is counted."""
_SHOWN = 60
"""Characters of a value that is none of these amounts."""


def memory_bytes(value: object) -> int:
    """Bytes of an amount of memory.

    Args:
        value: a whole number of bytes, or a text such as `4Gi`, `512Mi` or `2G`.

    Raises:
        ValueError: it is neither, with what to write instead.
    """
    count = -1
    if isinstance(value, int) and not isinstance(value, bool):
        count = value
    elif isinstance(value, str) and (match := _AMOUNT.fullmatch(value)) and match[2] in _MEMORY_UNITS:
        unit = _MEMORY_UNITS[match[2]]
        count = math.ceil(float(match[1]) * unit) if "." in match[1] else int(match[1]) * unit
    if not 0 <= count <= _MOST:
        raise ValueError(f"{_shown(value)} is no amount of memory: write 4Gi, 512Mi, 2G or a whole number of bytes")
    return count


def cpu_count(value: object) -> float:
    """CPUs of an amount of CPU.

    Args:
        value: a number, or a text such as `2`, `1.5` or `500m` (thousandths).

    Raises:
        ValueError: it is neither, or not above 0.
    """
    count = 0.0
    if isinstance(value, int | float) and not isinstance(value, bool):
        count = float(value) if abs(value) < _MOST else math.inf
    elif isinstance(value, str) and (match := _AMOUNT.fullmatch(value)) and match[2] in {"", "m"}:
        count = float(match[1]) / (1000 if match[2] else 1)
    if not (math.isfinite(count) and count > 0):
        raise ValueError(f"{_shown(value)} is no amount of CPU: write a number above 0, or thousandths as 500m")
    return count


def seconds(value: object) -> float:
    """Seconds of a duration.

    Args:
        value: a text such as `30s`, `5m`, `2h` or `1h30m`.

    Raises:
        ValueError: it is none, or not above 0.
    """
    total = 0.0
    if isinstance(value, str) and _TIME.fullmatch(value):
        total = sum(float(number) * _TIME_UNITS[unit] for number, unit in _TIME_PART.findall(value))
    if total <= 0:
        message = "write a number above 0 with its unit, as 30s, 5m, 2h or 1h30m"
        raise ValueError(f"{_shown(value)} is no duration: {message}")
    return total


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def spell_bytes(count: int) -> str:
    """Bytes for people: `4Gi`, `1.5Gi`, `700Mi`, `12`."""
    for unit in ("Pi", "Ti", "Gi", "Mi", "Ki"):
        size = _BINARY[unit]
        if count >= size:
            return f"{count / size:.4g}{unit}" if count / size < 1000 else f"{count // size}{unit}"
    return str(count)


Value = TypeVar("Value")


def _cpu(value: Value) -> Value:
    cpu_count(value)
    return value


def _memory(value: Value) -> Value:
    memory_bytes(value)
    return value


def _duration(value: Value) -> Value:
    seconds(value)
    return value


Cpu = Annotated[
    int | float | str,
    BeforeValidator(_cpu),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "exclusiveMinimum": 0},
                {"type": "string", "pattern": r"^[0-9]{1,18}(\.[0-9]{1,9})?m?$"},
            ]
        }
    ),
]
"""An amount of CPU as it is written."""
Memory = Annotated[
    int | str,
    BeforeValidator(_memory),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": r"^[0-9]{1,18}(\.[0-9]{1,9})?([KMGTP]i|[kMGTP])?$"},
            ]
        }
    ),
]
"""An amount of memory as it is written."""
Duration = Annotated[
    str,
    BeforeValidator(_duration),
    WithJsonSchema({"type": "string", "pattern": rf"^(?:{_TIME_PART.pattern})+$"}),
]
"""A span of time as it is written."""
