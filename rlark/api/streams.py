"""What a Job says: logs, events, training curves, and all of it as one stream."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from fastapi import APIRouter, Header, Query
from fastapi.responses import PlainTextResponse, Response, StreamingResponse

from rlark.api import answers, curves, logs
from rlark.api.commands import JsonObject
from rlark.api.follow import JobFollower
from rlark.api.logs import Line, Wanted
from rlark.api.room import EVENTS, PREFIX, room, told
from rlark.api.sse import EventStream, respond
from rlark.control.reader import LedgerReader
from rlark.folder import Home
from rlark.host.clock import Clock, SystemClock

MOST_TAIL = 100_000
PIECE = 64 * 1024
"""Characters of a log that are sent at once."""
Format = Literal["text", "records"]
_STREAM = "`status`, `event`, `metrics`, `log` and at last `end`; each id is a place to go on from."
_LOGS = told(
    answers.LogRecords,
    404,
    text="The lines.",
    also={
        "text/plain": "one line each",
        "application/x-ndjson": "a record each line",
        EVENTS: "`log` and at last `end`, with `follow`",
    },
)


def router(reader: LedgerReader, home: Home, clock: Clock | None = None) -> APIRouter:
    """The routes that tell what a Job says."""
    routes = room("jobs", f"{PREFIX}/jobs/{{name}}")
    _logs(routes, reader, home, clock or SystemClock())
    _rest(routes, reader, home)
    return routes


def _logs(routes: APIRouter, reader: LedgerReader, home: Home, clock: Clock) -> None:
    @routes.get("/logs", response_class=PlainTextResponse, responses=_LOGS)
    def read_logs(
        *,
        name: str,
        follow: bool = False,
        tail: Annotated[int | None, Query(ge=0, le=MOST_TAIL)] = None,
        since: str = "",
        stream: str = "",
        component: str = "",
        attempt: Annotated[int | None, Query(ge=1)] = None,
        format: Format = "text",  # noqa: A002 - the parameter's name
        accept: Annotated[str, Header()] = "",
        last_event_id: Annotated[str, Header()] = "",
    ) -> Response:
        """The log of an attempt as text, or as records (`format=records`); with `follow` an event stream.

        The stream's events are `log`, each a record, and at the end `end` with the phase. All streams are
        told by default: the worker's own merged by time, the ranks' behind the line that says the run starts.
        """
        folder, wanted = home.job(name), Wanted(stream, component, logs.since_text(since, clock.now()), tail)
        if follow:
            follower = JobFollower(
                reader, folder, last_id=last_event_id, wanted=wanted, attempt=attempt, logs_only=True
            )
            return respond(follower, follower.poll())
        chosen = logs.check_attempt(folder, attempt, reader.standing(name).status.attempt)
        lines = logs.whole(logs.streams(folder, chosen, wanted), wanted) if chosen else iter(())
        if "application/x-ndjson" in accept:
            return StreamingResponse(_pieces(_ndjson(lines, chosen)), media_type="application/x-ndjson")
        if format == "records" or ("application/json" in accept.split(",")[0] and format != "text"):
            return StreamingResponse(_pieces(_records(lines, chosen)), media_type="application/json")
        return StreamingResponse(_pieces(f"{line.text}\n" for line in lines), media_type="text/plain")


def _rest(routes: APIRouter, reader: LedgerReader, home: Home) -> None:
    @routes.get("/follow", response_class=EventStream, responses=told(None, 404, text=_STREAM, also={EVENTS: _STREAM}))
    def follow_job(
        *,
        name: str,
        stream: str = "",
        component: str = "",
        tail: Annotated[int | None, Query(ge=0, le=MOST_TAIL)] = None,
        last_event_id: Annotated[str, Header()] = "",
    ) -> Response:
        """Everything that happens up to the end: `status`, `event`, `metrics`, `log`, and once `end`."""
        wanted = Wanted(stream, component, "", tail)
        follower = JobFollower(reader, home.job(name), last_id=last_event_id, wanted=wanted)
        return respond(follower, follower.poll())

    @routes.get("/events", response_model=None, responses=told(answers.EventList, 404))
    def list_events(name: str, after: Annotated[int, Query(ge=0)] = 0) -> JsonObject:
        """Why things happened, the oldest first."""
        return {"items": [event.to_json() for event in reader.events(name, after)]}

    @routes.get("/metrics", response_model=None, responses=told(answers.Curves, 404))
    def read_metrics(name: str) -> JsonObject:
        """The training curves of the current attempt: one list a metric, null where nothing was measured."""
        found, count = curves.columns(home.job(name).metrics, reader.standing(name).status)
        return {"metrics": found, "count": count}


def _pieces(texts: Iterable[str]) -> Iterator[str]:
    """Texts joined until a piece is worth its way: each costs a thread's turn."""
    piece, size = list[str](), 0
    for text in texts:
        piece.append(text)
        size += len(text)
        if size >= PIECE:
            yield "".join(piece)
            piece, size = [], 0
    yield "".join(piece)


def _ndjson(lines: Iterator[Line], attempt: int) -> Iterator[str]:
    for line in lines:
        yield json.dumps(line.record(attempt), ensure_ascii=False) + "\n"


def _records(lines: Iterator[Line], attempt: int) -> Iterator[str]:
    """One JSON object, written as it is read."""
    comma = ""
    yield '{"items":['
    for line in lines:
        yield comma + json.dumps(line.record(attempt), ensure_ascii=False)
        comma = ","
    yield "]}"
