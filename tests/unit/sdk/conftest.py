from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class ScriptedApi:
    """An HTTP server on loopback that answers as it was told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answers: dict[str, list[tuple[int, str, bytes]]] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def says(self, route: str, body: object, status: int = 200, kind: str = "application/json") -> None:
        """Answer `METHOD /path` so; several answers to one route are given in turn, the last one repeats."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.answers.setdefault(route, []).append((status, kind, data))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        api = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                path, _, query = self.path.partition("?")
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                api.asked.append(
                    {"route": f"{self.command} {path}", "query": query, "headers": dict(self.headers), "body": body}
                )
                waiting = api.answers.get(f"{self.command} {path}") or [(404, "text/plain", b"nothing here")]
                status, kind, data = waiting.pop(0) if len(waiting) > 1 else waiting[0]
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Say nothing."""

        return Handler


@pytest.fixture
def api() -> Iterator[ScriptedApi]:
    server = ScriptedApi()
    yield server
    server.close()


@pytest.fixture
def job_record() -> Callable[..., dict[str, Any]]:
    def make(name: str = "demo", phase: str = "Running", **status: object) -> dict[str, Any]:
        return {"metadata": {"name": name}, "spec": {}, "status": {"phase": phase, **status}}

    return make
