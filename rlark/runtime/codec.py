"""Values on their way to another process of the run: a small body, and the large arrays beside it, not copied."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any


def pack(value: object) -> tuple[bytes, list[memoryview]]:
    """Take a value apart: a body, and flat views of the arrays in it, in the order in which `unpack` wants them."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return body, [buffer.raw() for buffer in buffers]


def unpack(body: bytes | memoryview, buffers: Sequence[memoryview | bytearray]) -> Any:
    """Put it together again; its arrays look into the buffers, so give buffers that nobody else writes."""
    return pickle.loads(body, buffers=buffers)  # noqa: S301  a process of this run sent it
