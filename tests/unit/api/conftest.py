"""The whole API over a real controller and a fake cluster, asked in-process."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from rlark.api.app import build_app
from rlark.control.controller import Controller
from rlark.control.reader import LedgerReader
from rlark.folder import Home, JobFolder, write_text
from rlark.testing import FakeClock, FakeCluster, a_node

TOKEN = "a-token-for-tests-0123456789"
ADDRESS = "http://127.0.0.1:19091"
JOBS = "/api/v1/rlinf.io/v1alpha1/jobs"
NODES = "/api/v1/rlinf.io/v1alpha1/nodes"


@dataclass
class Api:
    """A platform and the way to ask it."""

    home: Home
    clock: FakeClock
    cluster: FakeCluster
    controller: Controller
    reader: LedgerReader
    other: FastAPI | None = None

    @cached_property
    def app(self) -> FastAPI:
        """Built when it is first asked: many tests look at the parts alone."""
        return self.other or build_app(self.controller, self.reader, self.home, clock=self.clock)

    def ask(self, method: str, path: str, *, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
        """One request, with the token unless the headers say otherwise."""
        sent = {"Authorization": f"Bearer {TOKEN}"} | (headers or {})

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=ADDRESS, trust_env=False) as client:
                return await client.request(method, path, headers=sent, **more)

        return asyncio.run(send())

    def get(self, path: str, **more: Any) -> httpx.Response:
        return self.ask("GET", path, **more)

    def post(self, path: str, content: str | bytes = "", **more: Any) -> httpx.Response:
        return self.ask("POST", path, content=content, **more)

    def folder(self, name: str = "demo") -> JobFolder:
        return self.home.job(name)

    def tick(self, times: int = 2) -> None:
        for _ in range(times):
            self.controller.tick()


@pytest.fixture
def api(tmp_path):
    home, clock = Home(tmp_path / "home"), FakeClock()
    cluster = FakeCluster([a_node(gpus=2)], clock)
    controller, reader = Controller(home, cluster, clock), LedgerReader(home)
    write_text(home.token, TOKEN + "\n")
    yield Api(home, clock, cluster, controller, reader)
    controller.close()
    reader.close()


def events_of(text: str) -> list[tuple[str, Any, str]]:
    """The events of a finished stream: type, data, id."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "data" in fields:
            found.append((fields["event"], json.loads(fields["data"]), fields.get("id", "")))
    return found


def problem(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """A refusal in the one form of the API."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert {"type", "title", "status", "detail", "instance", "code", "exitCode", "error", "findings"} <= set(body)
    assert (body["status"], body["code"], body["error"]) == (status, code, body["detail"])
    return body
