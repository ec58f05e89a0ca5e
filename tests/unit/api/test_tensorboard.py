"""The way to a Job's TensorBoard, with a small server in its place."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rlark.api import tensorboard
from rlark.errors import ClusterError, ConflictError
from rlark.host.process import this_process
from rlark.testing import job_text
from tests.unit.api.conftest import JOBS, TOKEN, problem

BOARD = f"{JOBS}/demo/tensorboard"
CSP = "script-src 'self' 'unsafe-eval'"


class Echo(BaseHTTPRequestHandler):
    """Answers with what it was asked, and with headers that must not pass."""

    protocol_version = "HTTP/1.1"

    def read_body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def answer(self):
        body = self.read_body()
        if self.path.endswith("/moved"):
            self.send_response(301)
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}{BOARD}/there")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if self.path.endswith("/hangs-up"):
            self.connection.close()
            self.close_connection = True
            return
        told = {
            "method": self.command,
            "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": body.decode(),
        }
        text = json.dumps(told).encode()
        self.send_response(207)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Content-Security-Policy", CSP)
        self.send_header("Set-Cookie", "theirs=1")
        self.send_header("Connection", "X-Between-Us")
        self.send_header("X-Between-Us", "yes")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = answer  # noqa: N815 - as http.server looks for them

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def echo():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_port
    server.shutdown()
    server.server_close()


@pytest.fixture
def board(api, echo, monkeypatch):
    """The API over a controller that has a TensorBoard already."""
    monkeypatch.setattr(tensorboard, "PAUSE_S", 0.01)
    api.controller.submit(job_text())
    api.asked = []

    def verb(name, prefix):
        api.asked.append((name, prefix))
        return {"port": echo, "process": this_process().to_json(), "ready": len(api.asked) != 1}

    monkeypatch.setattr(api.controller, "tensorboard", verb)
    return api


def test_a_request_is_passed_on_once_tensorboard_is_ready(board):
    answer = board.get(f"{BOARD}/data/plugin/scalars/tags?run=a%2Fb&x=1")
    assert answer.status_code == 207
    assert answer.json()["path"] == f"{BOARD}/data/plugin/scalars/tags?run=a%2Fb&x=1"
    assert answer.json()["method"] == "GET"
    assert board.asked == [("demo", BOARD)] * 2


@pytest.mark.parametrize("path", ["", "/", "/a%20b/%C3%BC", "/%2e%2e/x"])
def test_paths_arrive_as_they_were_written(board, path):
    assert board.get(f"{BOARD}{path}").json()["path"] == f"{BOARD}{path}"


@pytest.mark.parametrize(
    "path", ["%2Fapi%2F@evil.example:80/x", "@evil.example/x", "//evil.example/x", "http://evil/x"]
)
def test_no_path_is_taken_for_a_host(path):
    scope = {"path": "/api/x", "raw_path": path.encode(), "query_string": b"a=@evil.example"}
    address = tensorboard._address(scope, 6006)
    assert (address.host, address.port, address.user) == ("127.0.0.1", 6006, None)
    assert address.raw_path == (path if path.startswith("/") else "/api/x")
    assert address.raw_query_string == "a=@evil.example"


@pytest.mark.parametrize("method", tensorboard.METHODS)
def test_every_method_is_passed_on(board, method):
    content = b"run=1" if method in ("POST", "PUT", "PATCH") else b""
    answer = board.ask(method, f"{BOARD}/data", content=content, headers={"X-XSRF-Protected": "1"})
    assert answer.status_code == 207
    if method == "HEAD":
        assert answer.content == b""
        assert int(answer.headers["content-length"]) > 0
    else:
        told = answer.json()
        assert (told["method"], told["body"], told["headers"]["x-xsrf-protected"]) == (method, content.decode(), "1")


def test_a_body_without_a_length_is_passed_on_as_it_comes(board):
    async def parts():
        yield b"run="
        yield b"1"

    answer = board.ask("POST", f"{BOARD}/data", content=parts())
    assert answer.json()["headers"]["transfer-encoding"] == "chunked"
    assert answer.json()["body"] == "run=1"


def test_the_token_cookies_and_what_is_between_two_parties_stay_behind(board):
    sent = {
        "Cookie": "session=x",
        "Connection": "X-Hop",
        "X-Hop": "1",
        "X-Forwarded-For": "10.0.0.1",
        "Accept": "application/json",
        "Range": "bytes=0-5",
    }
    answer = board.get(f"{BOARD}/data", headers=sent)
    arrived = answer.json()["headers"]
    assert not arrived.keys() & {"authorization", "cookie", "x-hop", "x-forwarded-for"}
    assert TOKEN not in json.dumps(arrived)
    assert (arrived["accept"], arrived["range"]) == ("application/json", "bytes=0-5")
    assert arrived["host"].startswith("127.0.0.1:")
    assert answer.headers["content-security-policy"] == CSP
    assert not answer.headers.keys() & {"set-cookie", "x-between-us", "connection", "server"}


def test_a_redirect_stays_under_the_prefix(board):
    answer = board.get(f"{BOARD}/moved")
    assert (answer.status_code, answer.headers["location"]) == (301, f"{BOARD}/there")


def test_the_controller_is_asked_now_and_then_and_not_for_every_file(board):
    for _ in range(3):
        board.get(f"{BOARD}/data")
    assert len(board.asked) == 2
    board.clock.advance(tensorboard.KNOWN_S)
    board.get(f"{BOARD}/data")
    assert len(board.asked) == 3


def test_another_program_at_the_port_of_one_that_ended_is_not_asked(board, monkeypatch):
    board.get(f"{BOARD}/data")
    monkeypatch.setattr(tensorboard.process, "alive", lambda one: False)
    board.get(f"{BOARD}/data")
    assert len(board.asked) == 3


def test_it_needs_the_token_like_everything_else(board):
    problem(board.get(f"{BOARD}/data", headers={"Authorization": ""}), 401, "unauthorized")
    assert board.asked == []


def test_a_job_that_is_not_there(board, api, monkeypatch):
    monkeypatch.undo()
    problem(api.get(f"{JOBS}/nobody/tensorboard/"), 404, "not_found")


@pytest.mark.parametrize(
    ("error", "status"),
    [(ClusterError("TensorBoard is not installed", hint="install it"), 503), (ConflictError("it goes"), 409)],
)
def test_what_the_controller_says_is_told(board, monkeypatch, error, status):
    def verb(name, prefix):
        raise error

    monkeypatch.setattr(board.controller, "tensorboard", verb)
    told = problem(board.get(f"{BOARD}/"), status, error.code)
    assert (told["detail"], told["hint"]) == (error.message, error.hint)


def test_one_that_does_not_start_in_time_is_a_problem_and_blocks_nobody(board, monkeypatch):
    monkeypatch.setattr(tensorboard, "START_S", 0.1)
    never = {"port": 1, "process": this_process().to_json(), "ready": False}
    monkeypatch.setattr(board.controller, "tensorboard", lambda name, prefix: never)
    answer = board.get(f"{BOARD}/")
    assert "not answered within 0.1 s" in problem(answer, 503, "unavailable")["detail"]
    assert answer.headers["retry-after"]


def test_one_that_hangs_up_is_a_problem_and_asked_for_again(board):
    assert "does not answer" in problem(board.get(f"{BOARD}/hangs-up"), 503, "unavailable")["detail"]
    board.get(f"{BOARD}/data")
    assert len(board.asked) == 3


def test_an_answer_that_breaks_off_is_not_made_whole(echo):
    """The rest is missing: whoever reads must not take it for all of it."""

    async def ask():
        async def cut(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(cut, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        sent = []

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "method": "GET", "path": "/x", "raw_path": b"/x", "query_string": b"", "headers": []}
        request = tensorboard.Request(scope)
        with pytest.raises(tensorboard.aiohttp.ClientError):
            await tensorboard._PassedOn(request, port, lambda: None)(scope, None, send)
        server.close()
        return sent

    sent = asyncio.run(ask())
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[-1] == {"type": "http.response.body", "body": b"half", "more_body": True}
