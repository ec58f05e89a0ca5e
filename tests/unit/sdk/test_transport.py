from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from rlark.errors import AuthError, ClusterError, ConflictError, NotFound, RlarkError, SpecError, UsageError
from rlark.sdk.transport import Transport

PROBLEM = "application/problem+json"


def test_a_request_carries_token_query_and_body(api: Any) -> None:
    api.says("POST /x", {"ok": True}, status=201)
    answer = Transport(api.address, "secret").request(
        "POST",
        "/x",
        query={"a": 1, "b": None, "c": "", "d": True, "e": False},
        body="kind: Job\n",
        headers={"Idempotency-Key": "k"},
    )
    asked = api.asked[0]
    assert (answer.status, answer.json()) == (201, {"ok": True})
    assert asked["query"] == "a=1&d=true"
    assert asked["body"] == "kind: Job\n"
    assert asked["headers"]["Authorization"] == "Bearer secret"
    assert asked["headers"]["Content-Type"] == "application/yaml"
    assert asked["headers"]["Idempotency-Key"] == "k"


def test_the_token_is_not_in_the_repr() -> None:
    assert "secret" not in repr(Transport("http://x", "secret"))


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (409, "conflict", ConflictError),
        (404, "not_found", NotFound),
        (422, "invalid_spec", SpecError),
        (400, "usage", UsageError),
        (503, "unavailable", ClusterError),
        (500, "internal", RlarkError),
    ],
)
def test_a_problem_is_raised_as_the_error_it_names(api: Any, status: int, code: str, kind: type[RlarkError]) -> None:
    finding = {"code": "RL021", "message": "one only", "path": "spec", "line": 3, "column": 2, "file": "job.yaml"}
    problem = {"title": "t", "status": status, "detail": "what", "code": code, "hint": "do", "findings": [finding]}
    api.says("GET /x", problem, status=status, kind=PROBLEM)
    with pytest.raises(kind) as caught:
        Transport(api.address).get("/x")
    assert type(caught.value) is kind
    assert (caught.value.message, caught.value.hint) == ("what", "do")
    assert str(caught.value.findings[0]) == "job.yaml:3:2: error RL021 spec: one only"


@pytest.mark.parametrize(
    ("status", "kind"), [(413, UsageError), (504, ClusterError), (409, ConflictError), (403, AuthError)]
)
def test_a_problem_without_a_code_goes_by_its_status(api: Any, status: int, kind: type[RlarkError]) -> None:
    api.says("GET /x", {"title": "t"}, status=status, kind=PROBLEM)
    with pytest.raises(kind) as caught:
        Transport(api.address).get("/x")
    assert caught.value.message == "t"


@pytest.mark.parametrize(("token", "told"), [("", "none was found"), ("old", "the one from RLARK_TOKEN")])
def test_a_refused_token_says_where_it_came_from(api: Any, token: str, told: str) -> None:
    api.says("GET /x", {"detail": "no"}, status=401, kind=PROBLEM)
    with pytest.raises(AuthError, match=told):
        Transport(api.address, token, "RLARK_TOKEN").get("/x")


def test_nothing_there_says_how_to_start_it() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    transport = Transport(f"http://127.0.0.1:{port}")
    with pytest.raises(ClusterError, match="Connection refused") as caught:
        transport.get("/x")
    assert caught.value.hint == "start the platform with: rlark up"
    assert not transport.answers()


def test_somebody_else_at_the_address_is_recognised(api: Any) -> None:
    api.says("GET /x", b"<html>", kind="text/html")
    transport = Transport(api.address)
    with pytest.raises(ClusterError, match="is not rlark's"):
        transport.get("/x")
    with pytest.raises(ClusterError, match="is not rlark's"):
        transport.get("/nothing")
    assert transport.answers()


def test_something_that_speaks_no_http() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        import threading

        def hang_up() -> None:
            server.accept()[0].close()

        threading.Thread(target=hang_up, daemon=True).start()
        with pytest.raises(ClusterError, match="no answer from"):
            Transport(f"http://127.0.0.1:{server.getsockname()[1]}").get("/x")


def test_a_stream_gives_lines_and_asks_behind_the_last_event(api: Any) -> None:
    api.says("GET /s", b"event: log\r\ndata: {}\n\n", kind="text/event-stream")
    with Transport(api.address).stream("/s", last_id="41") as lines:
        assert list(lines) == ["event: log", "data: {}", ""]
    assert api.asked[0]["headers"]["Last-Event-ID"] == "41"


def test_a_refused_stream_raises(api: Any) -> None:
    api.says("GET /s", {"code": "not_found", "detail": "no such Job"}, status=404, kind=PROBLEM)
    with pytest.raises(NotFound, match="no such Job"), Transport(api.address).stream("/s"):
        pass


def test_download_writes_a_file_and_leaves_its_errors_alone(api: Any, tmp_path: Path) -> None:
    api.says("GET /f", b"\x00" * 200_000, kind="application/octet-stream")
    transport = Transport(api.address)
    transport.download("/f", tmp_path / "f")
    assert (tmp_path / "f").stat().st_size == 200_000
    with pytest.raises(FileNotFoundError):
        transport.download("/f", tmp_path / "no" / "f")


def test_an_address_may_have_a_prefix(api: Any) -> None:
    api.says("GET /rlark/x", {"a": 1})
    assert Transport(f"{api.address}/rlark").get("/x") == {"a": 1}
