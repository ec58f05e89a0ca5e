"""Server-sent events: on the wire, over time, and until somebody hangs up."""

from __future__ import annotations

import asyncio
import time

import anyio

from rlark.api import sse
from rlark.testing import job_text, run_through

from .conftest import JOBS, TOKEN, events_of


def start(api, **more):
    api.controller.submit(job_text(**more))
    return api.cluster.worker("demo")


def test_an_event_on_the_wire():
    message = sse.Message("log", {"line": "a\nb\r 训"}, "1.2.3")
    assert message.encode().decode() == 'id: 1.2.3\nevent: log\ndata: {"line":"a\\nb\\r 训"}\n\n'


class Slow:
    """A source that has something to say only now and then."""

    pause = 0.01

    def __init__(self, rounds: int) -> None:
        self.left = rounds
        self.done = False

    def poll(self):
        self.left -= 1
        self.done = self.left <= 0
        return [sse.Message("end", {})] if self.done else []


def test_heartbeats_fill_the_silence(monkeypatch):
    monkeypatch.setattr(sse, "HEARTBEAT_S", 0.0)
    monkeypatch.setattr(sse, "HOT_S", -1.0)

    async def run() -> bytes:
        return b"".join([chunk async for chunk in sse.pump(Slow(4))])

    told = asyncio.run(run()).decode()
    assert told.count(": alive") >= 2
    assert told.endswith("event: end\ndata: {}\n\n")


async def asgi(app, path: str, on_body, *, query: str = "", seconds: float = 10.0) -> None:
    """One streaming request straight at the app; `on_body` raises to hang up."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {TOKEN}".encode())],
        "server": ("127.0.0.1", 1),
        "client": ("127.0.0.1", 2),
        "scheme": "http",
        "root_path": "",
    }
    gone = asyncio.Event()

    async def receive():
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message):
        if on_body(message.get("body", b"").decode()):
            gone.set()

    with anyio.fail_after(seconds):
        await app(scope, receive, send)


def test_a_line_reaches_a_follower_within_a_tenth_of_a_second_and_hanging_up_ends_it(api):
    worker = start(api)
    delays = []
    wrote = [0.0]

    def on_body(body: str) -> bool:
        if "line 3" in body:
            delays.append(time.monotonic() - wrote[0])
            return True
        return False

    async def run() -> None:
        async def write() -> None:
            for number in range(4):
                await anyio.sleep(0.12)
                wrote[0] = time.monotonic()
                worker.log(f"line {number}")

        writer = asyncio.create_task(write())
        await asgi(api.app, f"{JOBS}/demo/follow", on_body)
        await writer

    asyncio.run(run())
    assert len(delays) == 1
    assert delays[0] < 0.3  # 0.05 and what a loaded machine adds
    assert api.reader.job("demo")["status"]["phase"] == "Running"


def test_watching_the_list_goes_on_until_one_hangs_up(api):
    start(api)
    told = []

    def on_body(body: str) -> bool:
        told.append(body)
        if len(told) == 3:
            api.controller.stop("demo")
        return '"Stopped"' in body

    asyncio.run(asgi(api.app, JOBS, on_body, query="watch=1&labelSelector=!hidden"))
    events = events_of("".join(told))
    assert events[0][0] == "job"
    assert events[-1][1]["status"]["phase"] == "Stopped"


def test_an_ended_job_is_told_whole(api):
    api.cluster.script = run_through
    start(api)
    api.tick()
    told = events_of(api.get(f"{JOBS}/demo/follow").text)
    kinds = [event for event, _, _ in told]
    assert kinds[-2:] == ["status", "end"]
    assert [data["reason"] for event, data, _ in told if event == "event"][-1] == "Released"
