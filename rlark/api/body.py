"""The body of a request: bounded, decoded, and refused with a reason."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import Depends, Request

from rlark.api.commands import JsonObject
from rlark.api.problems import Problem
from rlark.errors import UsageError

LARGEST = 1024 * 1024
"""Bytes; a Job is a page, not a data set."""


async def _text(request: Request) -> str:
    """The body as text; nothing above the limit is kept."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > LARGEST:
        raise _too_large()
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > LARGEST:
            raise _too_large()
        parts.append(part)
    try:
        return b"".join(parts).decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"the body is not UTF-8: byte {error.start} cannot be read") from None


Text = Annotated[str, Depends(_text)]
"""A Job as YAML or JSON; both are read by the same parser."""


async def _object(text: Text) -> JsonObject:
    try:
        value: Any = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"the body is not JSON: {error}", hint='send an object, {"spec": {"stopped": true}}') from None
    if not isinstance(value, dict):
        raise UsageError("the body is not a JSON object", hint='send {"spec": {"stopped": true}}')
    return value


Change = Annotated[JsonObject, Depends(_object)]
"""A JSON merge patch."""


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON")


def _too_large() -> Problem:
    return Problem(
        413,
        "too_large",
        f"the body is larger than {LARGEST} bytes",
        "put data into files and mount them; a job only names them",
    )
