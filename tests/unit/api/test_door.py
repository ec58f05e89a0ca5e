"""The door: token, host, origin; and every refusal in one form."""

from __future__ import annotations

import asyncio
import inspect

import pytest
from fastapi.routing import APIRoute

from rlark.api.app import build_app
from rlark.api.auth import Hosts
from rlark.folder import write_json, write_text

from .conftest import JOBS, TOKEN, Api, problem

OPEN = ("/livez", "/healthz")
LOGIN = ("/login", "/login/once/{code}")
CLOSED = ("/", "/readyz", "/metrics", "/docs", "/openapi.json", JOBS, f"{JOBS}/x", "/api/v1/queue", "/nothing")


def test_open_to_everybody(api):
    for path in OPEN:
        answer = api.get(path, headers={"Authorization": ""})
        assert answer.status_code == 200
        assert answer.json()["ok"] is True


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", TOKEN])
def test_closed_without_the_token(api, given):
    for path in CLOSED:
        answer = api.get(path, headers={"Authorization": given})
        body = problem(answer, 401, "unauthorized")
        assert body["exitCode"] == 6
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert TOKEN not in answer.text


def test_every_route_but_the_open_ones_is_closed(api):
    paths = {route.path for route in api.app.routes if isinstance(route, APIRoute)}
    assert len(paths) > 15
    for path in paths - set(OPEN) - set(LOGIN):
        assert api.get(path.replace("{name}", "x"), headers={"Authorization": "Bearer no"}).status_code == 401, path


def test_without_a_token_file_nobody_comes_in(api):
    api.home.token.unlink()
    problem(api.get("/", headers={"Authorization": "Bearer "}), 401, "unauthorized")
    write_text(api.home.token, "")
    problem(api.get("/", headers={"Authorization": "Bearer "}), 401, "unauthorized")


def test_a_rotated_token_counts_at_once(api):
    assert api.get("/").status_code == 200
    write_text(api.home.token, "the-next-token")
    assert api.get("/").status_code == 401
    assert api.get("/", headers={"Authorization": "Bearer the-next-token"}).status_code == 200


def test_hosts_of_this_machine(api):
    for host in ("127.0.0.1:19091", "localhost:1", "LOCALHOST", "[::1]:19091", "x.localhost:19091"):
        assert api.get("/livez", headers={"Host": host}).status_code == 200, host


def test_foreign_hosts_are_turned_away_even_from_open_routes(api):
    evil = ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "", "10.0.0.1", "[::1")
    for host in evil:
        assert problem(api.get("/livez", headers={"Host": host}), 403, "forbidden_host")["exitCode"] == 6, host


def test_foreign_origins_are_turned_away(api):
    for origin in ("http://evil.example", "null", "file://", "https://127.0.0.1.evil.example"):
        problem(api.get("/", headers={"Origin": origin}), 403, "forbidden_host")
    assert api.get("/", headers={"Origin": "http://localhost:3000"}).status_code == 200


def test_the_address_it_was_started_on_is_its_own(api):
    problem(api.get("/", headers={"Host": "10.1.2.3:19091"}), 403, "forbidden_host")
    write_json(api.home.platform, {"address": "http://10.1.2.3:19091"})
    assert api.get("/", headers={"Host": "10.1.2.3:19091"}).status_code == 200
    write_json(api.home.platform, {"address": "http://0.0.0.0:19091"})
    assert api.get("/", headers={"Host": "192.168.7.7"}).status_code == 200
    problem(api.get("/", headers={"Host": "evil.example"}), 403, "forbidden_host")


def test_further_hosts_can_be_named(api):
    app = build_app(api.controller, api.reader, api.home, hosts=["gpu-box.lan"])
    assert (
        Api(api.home, api.clock, api.cluster, api.controller, api.reader, app)
        .get("/livez", headers={"Host": "GPU-box.lan:19091"})
        .status_code
        == 200
    )
    assert Hosts(api.home, ["0.0.0.0"]).allows("192.168.7.7")
    assert not Hosts(api.home, ["0.0.0.0"]).allows("evil.example")
    assert not Hosts(api.home).allows("192.168.7.7")


def test_a_websocket_is_closed(api):
    sent = []

    async def run():
        async def send(message):
            sent.append(message)

        await api.app({"type": "websocket", "path": "/", "headers": []}, None, send)

    asyncio.run(run())
    assert sent[0]["type"] == "websocket.close"


def test_what_fastapi_refuses_is_a_problem_too(api):
    problem(api.get("/nothing/here"), 404, "no_such_route")
    answer = api.ask("DELETE", JOBS)
    body = problem(answer, 405, "method_not_allowed")
    assert "GET" in answer.headers["allow"]
    assert "DELETE" in body["detail"]
    for query in ("limit=0", "limit=many", "limit=5000", "watch=perhaps"):
        body = problem(api.get(f"{JOBS}?{query}"), 400, "usage")
        assert body["exitCode"] == 2
        assert query.partition("=")[0] in body["detail"]


def test_a_bug_is_a_problem_without_its_insides(api, monkeypatch):
    def broken():
        raise KeyError("secret inside")

    monkeypatch.setattr(api.reader, "queue", broken)
    body = problem(api.get("/api/v1/queue"), 500, "internal")
    assert "secret inside" not in str(body)
    assert body["exitCode"] == 1


def test_a_controller_that_is_down_is_a_503_and_reading_goes_on(api, monkeypatch):
    from rlark.errors import ClusterError
    from rlark.testing import job_text

    api.controller.submit(job_text())

    def down(*_args, **_kwargs):
        raise ClusterError("the controller is being started again", hint="try again")

    monkeypatch.setattr(api.controller, "submit", down)
    monkeypatch.setattr(api.controller, "ready", down)
    answer = api.post(JOBS, job_text("two"))
    assert problem(answer, 503, "unavailable")["exitCode"] == 5
    assert int(answer.headers["retry-after"]) > 0
    problem(api.get("/readyz"), 503, "unavailable")
    assert api.get(f"{JOBS}/demo").status_code == 200


def test_the_document_describes_what_there_is(api):
    document = api.get("/openapi.json").json()
    assert f"{JOBS}/{{name}}/follow" in document["paths"]
    assert document["paths"][JOBS]["post"]["operationId"] == "submit_job"
    assert document["components"]["securitySchemes"]
    assert api.get("/docs").status_code == 200
    for other in ("/redoc", "/docs/oauth2-redirect"):
        problem(api.get(other), 404, "no_such_route")
    assert api.get("/").json()["docs"] == "/docs"


def test_liveness_needs_no_thread(api):
    """All of them may be waiting for a controller that does not answer."""
    routes = {route.path: route.endpoint for route in api.app.routes if hasattr(route, "endpoint")}
    assert all(inspect.iscoroutinefunction(routes[path]) for path in ("/livez", "/healthz"))
