"""Server-sent events: what a source has to tell, polled from files and the ledger, with heartbeats."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import anyio
import anyio.to_thread
from fastapi.responses import StreamingResponse

from rlark.api.room import EVENTS

HEARTBEAT_S = 10.0
HOT_S = 2.0
"""After the last message a source is asked often for so long."""
FAST_S = 0.05


@dataclass(frozen=True)
class Message:
    """One event.

    Attributes:
        event: its type.
        data: a JSON value.
        id: where to go on behind it.
    """

    event: str
    data: object
    id: str = ""

    def encode(self) -> bytes:
        """As it goes over the wire."""
        data = json.dumps(self.data, ensure_ascii=False, separators=(",", ":"))
        place = f"id: {self.id}\n" if self.id else ""
        return f"{place}event: {self.event}\ndata: {data}\n\n".encode()


class Source(Protocol):
    """Something that is followed. `poll` may block and runs in a thread, never twice at a time."""

    @property
    def done(self) -> bool:
        """True when nothing will ever follow."""
        ...

    @property
    def pause(self) -> float:
        """Seconds until the next poll while nothing happens."""
        ...

    def poll(self) -> Sequence[Message]:
        """What is new: a bounded number of messages."""
        ...


class EventStream(StreamingResponse):
    """An answer that goes on."""

    media_type = EVENTS


def respond(source: Source, first: Sequence[Message] = ()) -> EventStream:
    """Follow a source until it is done or the client goes."""
    return EventStream(pump(source, first), headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


async def pump(source: Source, first: Sequence[Message] = ()) -> AsyncIterator[bytes]:
    """Encoded events; a comment as heartbeat where nothing else was sent for a while.

    Args:
        source: what to follow.
        first: what was polled already.
    """
    messages = first
    spoke = told = anyio.current_time()
    yield b": rlark\n\n"
    while True:
        for message in messages:
            yield message.encode()
        now = anyio.current_time()
        if messages:
            spoke = told = now
        elif now - told >= HEARTBEAT_S:
            told = now
            yield b": alive\n\n"
        if source.done:
            return
        hot = now - spoke < HOT_S
        await anyio.sleep(FAST_S if hot else source.pause)
        messages = await anyio.to_thread.run_sync(source.poll)
