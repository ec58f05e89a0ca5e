"""Follow a Job over server-sent events, through every interruption.

A stream that breaks is opened again behind the last event that arrived; only the `end` event ends
it. So a follower sees every line once, whichever part of the platform died in between.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

from rlark.errors import ClusterError
from rlark.host.clock import Clock, SystemClock
from rlark.sdk.transport import JsonObject

PATIENCE = 60.0
"""Seconds without any answer after which a follower gives up; a killed Serve proxy takes 5."""
PAUSES = (0.1, 0.3, 1.0, 2.0)
"""Seconds between attempts to open the stream again; the last one repeats."""

Open = Callable[[str], AbstractContextManager[Iterable[str]]]
"""Opens the stream behind an event's id and gives its lines."""


@dataclass(frozen=True)
class StreamEvent:
    """One server-sent event.

    Attributes:
        type: `status`, `event`, `metrics`, `log` or `end`.
        data: its JSON object.
        id: the cursor to go on from; empty when the server sent none.
    """

    type: str
    data: JsonObject
    id: str = ""


def parse(lines: Iterable[str]) -> Iterator[StreamEvent]:
    """Server-sent events from the lines of a stream; comments (heartbeats) and broken ends are dropped."""
    kind, cursor, data = "message", "", list[str]()
    for line in lines:
        if line:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                kind = value
            elif field == "id":
                cursor = value
            elif field == "data":
                data.append(value)
            continue
        if data:
            yield StreamEvent(kind, _object("\n".join(data)), cursor)
        kind, data = "message", []


def _object(text: str) -> JsonObject:
    value = json.loads(text)
    return value if isinstance(value, dict) else {"value": value}


def follow(open_stream: Open, *, clock: Clock | None = None, patience: float = PATIENCE) -> Iterator[StreamEvent]:
    """Every event up to `end`, the stream opened again as often as it breaks.

    Args:
        open_stream: opens the stream behind an event's id; empty from the start.
        clock: for the pauses.
        patience: seconds without any answer before giving up.

    Raises:
        ClusterError: nothing has answered for that long; the Job goes on.
        RlarkError: the API refused, for example because the Job was deleted.
    """
    clock = clock or SystemClock()
    cursor, failures, heard = "", 0, _Heard(clock)
    while True:
        reason: ClusterError | None = None
        try:
            with open_stream(cursor) as lines:
                for event in parse(heard.each(lines)):
                    cursor, failures = event.id or cursor, 0
                    yield event
                    if event.type == "end":
                        return
        except ClusterError as error:
            reason = error
        if heard.silence() > patience:
            raise _given_up(reason, patience)
        clock.sleep(PAUSES[min(failures, len(PAUSES) - 1)])
        failures += 1


class _Heard:
    """When the last line came; a heartbeat counts."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = clock.monotonic()

    def each(self, lines: Iterable[str]) -> Iterator[str]:
        for line in lines:
            self._last = self._clock.monotonic()
            yield line

    def silence(self) -> float:
        return self._clock.monotonic() - self._last


def _given_up(reason: ClusterError | None, patience: float) -> ClusterError:
    why = reason.message if reason else "the stream keeps closing"
    return ClusterError(
        f"nothing was heard for {patience:.0f} s ({why}); the Job may still be running",
        hint="see what is wrong with: rlark doctor",
    )
