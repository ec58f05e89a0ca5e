"""A Job's TensorBoard, passed on: the controller starts it on demand, and nobody but the API talks to it.

Bodies pass in both directions as they come. What is between two parties only (hop-by-hop headers, the
platform's token, cookies) stays behind; what TensorBoard says about caching and content security is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from urllib.parse import quote

import aiohttp
from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from starlette.types import Receive, Scope, Send
from yarl import URL

from rlark.api.commands import Commands
from rlark.api.room import PREFIX, room, told
from rlark.errors import ClusterError
from rlark.host import process
from rlark.host.clock import Clock, SystemClock
from rlark.host.process import ProcessId

START_S = 30.0
"""How long a request waits for a TensorBoard that starts."""
PAUSE_S = 0.2
KNOWN_S = 20.0
"""The controller is told so often that somebody looks; it ends what nobody looks at."""
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_CONNECT_S, _SILENCE_S = 5.0, 120.0
_HOPS = frozenset({"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}) | frozenset(
    {"proxy-authenticate", "proxy-authorization"}
)
_OURS = frozenset({"authorization", "cookie", "host", "forwarded"})
_THEIRS = frozenset({"set-cookie", "server", "date"})
_ITS_OWN = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""What aiohttp would add where the browser sent none."""
_PAGE = told(None, 404, 409, text="What TensorBoard answers.", also={"text/html": "its page; other paths are its own"})


def router(commands: Commands, clock: Clock | None = None) -> APIRouter:
    """The way to the TensorBoard of each Job.

    Args:
        commands: the controller's verbs.
        clock: time.
    """
    routes = room("jobs", f"{PREFIX}/jobs/{{name}}/tensorboard")
    doors = _Doors(commands, clock or SystemClock())
    others = [method for method in METHODS if method != "GET"]

    @routes.get("/{path:path}", response_class=Response, responses=_PAGE)
    @routes.api_route("/{path:path}", methods=others, response_class=Response, include_in_schema=False)
    async def tensorboard(name: str, path: str, request: Request) -> Response:  # noqa: ARG001 - passed on as it came
        """The Job's TensorBoard, started when somebody looks at it; every other method is passed on to it too."""
        return _PassedOn(request, await doors.port(name), lambda: doors.forget(name))

    @routes.api_route("", methods=list(METHODS), response_class=Response, include_in_schema=False)
    async def tensorboard_itself(name: str, request: Request) -> Response:
        return await tensorboard(name, "", request)

    return routes


@dataclass(frozen=True)
class _Door:
    port: int
    process: ProcessId
    until: float


class _Doors:
    """Where each TensorBoard answers, as the controller said not long ago."""

    def __init__(self, commands: Commands, clock: Clock) -> None:
        self._commands, self._clock = commands, clock
        self._known: dict[str, _Door] = {}

    async def port(self, name: str) -> int:
        """The port of a Job's TensorBoard, once it answers there.

        Raises:
            NotFound, ConflictError, ClusterError: as the controller says; it does not answer in time.
        """
        door = self._known.get(name)
        # another program may get the port of one that has ended
        if door and self._clock.monotonic() < door.until and process.alive(door.process):
            return door.port
        try:
            async with asyncio.timeout(START_S):
                return await self._opened(name)
        except TimeoutError:
            raise ClusterError(
                f"the TensorBoard of job {name!r} has not answered within {START_S:g} s",
                hint="it goes on starting; try again in a moment",
            ) from None

    async def _opened(self, name: str) -> int:
        while True:
            told = await run_in_threadpool(self._commands.tensorboard, name, f"{PREFIX}/jobs/{name}/tensorboard")
            identity = ProcessId.from_json(told["process"])
            if told["ready"] and identity:
                self._known[name] = _Door(told["port"], identity, self._clock.monotonic() + KNOWN_S)
                return self._known[name].port
            await asyncio.sleep(PAUSE_S)

    def forget(self, name: str) -> None:
        """Ask the controller again next time."""
        self._known.pop(name, None)


class _PassedOn(Response):
    """TensorBoard's answer, fetched while it is sent on."""

    def __init__(self, request: Request, port: int, lost: Callable[[], None]) -> None:
        super().__init__()
        self._request, self._port, self._lost = request, port, lost

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - the request has it
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_SILENCE_S)
        began = False
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, auto_decompress=False, skip_auto_headers=_ITS_OWN) as session,
                session.request(
                    self._request.method,
                    _address(scope, self._port),
                    headers=_sent_on(self._request),
                    data=self._request.stream() if _has_body(self._request) else None,
                    allow_redirects=False,
                ) as answer,
            ):
                await send(
                    {"type": "http.response.start", "status": answer.status, "headers": self._handed_back(answer)}
                )
                began = True
                async for part in answer.content.iter_any():
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
        except (aiohttp.ClientError, TimeoutError) as error:
            self._lost()
            if began:
                raise  # the rest is missing: the connection must not end as if it were whole
            raise ClusterError(
                f"TensorBoard does not answer: {error or type(error).__name__}", hint="try again in a moment"
            ) from error

    def _handed_back(self, answer: aiohttp.ClientResponse) -> list[tuple[bytes, bytes]]:
        left = _HOPS | _THEIRS | _named(answer.headers.getall("Connection", []))
        kept = [
            (name.lower(), value) for name, value in answer.raw_headers if name.lower().decode("latin-1") not in left
        ]
        own = f"http://127.0.0.1:{self._port}".encode()
        return [(name, value.removeprefix(own) if name == b"location" else value) for name, value in kept]


def _address(scope: Scope, port: int) -> URL:
    """The same path and query there, as they came; nothing of a path is ever taken for a host."""
    path = (scope.get("raw_path") or b"").decode("latin-1")
    if not path.startswith("/"):
        path = quote(scope["path"])
    query = scope["query_string"].decode("latin-1")
    return URL.build(scheme="http", host="127.0.0.1", port=port, path=path, query_string=query, encoded=True)


def _sent_on(request: Request) -> list[tuple[str, str]]:
    left = _HOPS | _OURS | _named(request.headers.getlist("connection"))
    return [
        (name, value)
        for name, value in request.headers.items()
        if name not in left and not name.startswith("x-forwarded")
    ]


def _has_body(request: Request) -> bool:
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


def _named(connection: Iterable[str]) -> frozenset[str]:
    """The headers that a Connection header names: they are between two parties too."""
    return frozenset(name.strip().lower() for value in connection for name in value.split(","))
