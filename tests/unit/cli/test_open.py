from __future__ import annotations

import urllib.request
import webbrowser
from typing import Any

import pytest

from rlark.api.app import build_app
from rlark.control.reader import LedgerReader

JOBS = "/api/v1/rlinf.io/v1alpha1/jobs"


class Stay(urllib.request.HTTPRedirectHandler):
    """A browser that tells where it is sent, and does not go."""

    def redirect_request(self, *_arguments: Any) -> None:
        return None


def visit(address: str) -> tuple[int, str, str]:
    """Status, place and cookie that a browser gets at an address."""
    try:
        with urllib.request.build_opener(Stay).open(address, timeout=10) as answer:
            return answer.status, "", answer.headers.get("Set-Cookie", "")
    except urllib.error.HTTPError as answer:
        return answer.code, answer.headers.get("Location", ""), answer.headers.get("Set-Cookie", "")


def test_the_console_opens_by_a_link_that_is_good_once(rlark: Any, platform: Any) -> None:
    result = rlark("open", "console")
    assert result.code == 0
    [address] = result.out.splitlines()
    assert address.startswith(f"{platform.address}/login/once/")
    assert "secret" not in address  # the token of the test
    assert "once, within 60 seconds" in result.err
    status, to, cookie = visit(address)
    assert (status, to) == (303, "/docs")  # there is no page at / yet
    assert cookie.startswith("rlark_session_")
    assert visit(address)[0] == 410


def test_once_there_is_a_page_at_the_front_it_leads_there(rlark: Any, platform: Any, server: Any) -> None:
    from fastapi.responses import HTMLResponse

    reader = LedgerReader(platform.home)
    app = build_app(platform.controller, reader, platform.home)
    app.router.routes[:] = [route for route in app.router.routes if getattr(route, "path", "") != "/"]
    app.add_api_route("/", lambda: HTMLResponse("<p>hello</p>"))
    server.app = app
    assert visit(rlark("open", "console").out.strip())[:2] == (303, "/")
    reader.close()


def test_a_jobs_tensorboard(rlark: Any, platform: Any) -> None:
    rlark("submit", "-d", platform.write_job())
    address = rlark("open", "tensorboard", "demo", "-o", "json").json["url"]
    assert visit(address)[:2] == (303, f"{JOBS}/demo/tensorboard/")
    missing = rlark("open", "tensorboard", "nobody")
    assert missing.code == 102
    assert missing.out == ""
    assert rlark("open", "tensorboard").code == 2


def test_a_browser_is_opened_only_where_somebody_can_see_it(
    rlark: Any, platform: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    rlark("open", "console")
    monkeypatch.setenv("DISPLAY", ":0")
    rlark("open", "console", "--no-browser")
    assert opened == []
    result = rlark("open", "console")
    assert opened == [result.out.strip()]


def test_without_a_platform_it_says_how_to_start_one(rlark: Any) -> None:
    result = rlark("open", "console", "--address", "http://127.0.0.1:1")
    assert (result.code, result.out) == (5, "")
    assert "hint:" in result.err


def test_a_new_token_ends_the_link(rlark: Any, platform: Any) -> None:
    address = rlark("open", "console").out.strip()
    rotated = rlark("token", "rotate")
    assert "browsers must sign in again" in rotated.err
    assert visit(address)[0] == 404
    assert visit(rlark("open", "console").out.strip())[0] == 303  # and the platform goes on being usable
