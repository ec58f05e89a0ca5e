"""Browsers: the page, the session it begins, what a session may do, and links that begin one once."""

from __future__ import annotations

import json
import re
import stat
from datetime import datetime
from urllib.parse import parse_qs, urlsplit

import pytest

from rlark.api import answers
from rlark.api.app import build_app
from rlark.control.reader import LedgerReader
from rlark.folder import write_text
from rlark.testing import job_text

from .conftest import ADDRESS, JOBS, TOKEN, Api, problem

LINKS = "/api/v1/links"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
HOST = "127.0.0.1:19091"
ORIGIN = {"Origin": ADDRESS}
PAGE = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}
NOBODY = {"Authorization": ""}


def sign_in(api: Api, host: str = HOST) -> str:
    """A session's cookie, as the browser sends it."""
    answer = api.ask("POST", "/login", json={"token": TOKEN}, headers=NOBODY | {"Host": host})
    assert answer.status_code == 200
    return answer.headers["set-cookie"].partition(";")[0]


def by_cookie(api: Api, cookie: str, path: str = "/", method: str = "GET", content: str = "", **headers: str):
    sent = {key.replace("_", "-"): value for key, value in headers.items()}
    return api.ask(method, path, content=content, headers=NOBODY | {"Cookie": cookie.encode()} | sent)


def link(api: Api, to: str = "/docs") -> str:
    answer = api.ask("POST", LINKS, json={"to": to})
    assert answer.status_code == 201, answer.text
    return answers.OneTimeLink.model_validate(answer.json()).path


# the page


def test_the_page_asks_for_the_token_and_loads_nothing(api):
    answer = api.get("/login?to=/docs%3Fa%3D1", headers=NOBODY)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-store"
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["referrer-policy"] != "no-referrer"  # the form's Origin would be "null", which is refused
    assert 'name="to" value="/docs?a=1"' in answer.text
    assert len(re.findall(r"<input[^>]*type=\"password\"", answer.text)) == 1
    assert "prefers-color-scheme: dark" in answer.text
    assert not re.search(r"<script|<link|<img|src=|https?://|@import|url\(", answer.text)


def test_the_style_of_the_page_is_the_one_that_its_policy_allows(api):
    import base64
    import hashlib

    answer = api.get("/login", headers=NOBODY)
    style = answer.text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in answer.headers["content-security-policy"]


def test_nothing_of_the_address_gets_into_the_page(api):
    for to in ('/"><script>', "//evil.example", "https://evil.example", "/\\evil", "javascript:alert(1)", "/\tx", "x"):
        text = api.get("/login", headers=NOBODY, params={"to": to}).text
        assert "<script" not in text
        assert "evil" not in text
        assert "javascript" not in text


# signing in


def test_the_form_begins_a_session_and_goes_on(api):
    answer = api.ask("POST", "/login", content=f"token=+{TOKEN}%0A&to=%2Fdocs", headers=NOBODY | FORM | ORIGIN)
    assert (answer.status_code, answer.headers["location"]) == (303, "/docs")
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert {part.lower() for part in attributes} == {"httponly", "samesite=strict", "path=/", "max-age=43200"}
    assert TOKEN not in answer.headers["set-cookie"]
    assert answer.headers["cache-control"] == "no-store"
    assert by_cookie(api, cookie).status_code == 200
    assert by_cookie(api, cookie, JOBS).json()["items"] == []


def test_over_https_the_cookie_stays_there(api):
    answer = api.ask("POST", f"https://{HOST}/login", json={"token": TOKEN}, headers=NOBODY)
    assert "secure" in answer.headers["set-cookie"].lower()


def test_a_program_is_told_where_to_go(api):
    answer = api.ask("POST", "/login", json={"token": TOKEN, "to": "/docs"}, headers=NOBODY)
    assert answers.SignedIn.model_validate(answer.json()).to == "/docs"


def test_nobody_is_sent_elsewhere(api):
    for to in ("//evil.example", "https://evil.example/", "/\\evil.example", "\\\\evil", "/\n/evil", "evil", "", 7):
        answer = api.ask("POST", "/login", json={"token": TOKEN, "to": to}, headers=NOBODY)
        assert answer.json() == {"to": "/"}, to


@pytest.mark.parametrize("token", ["", "wrong", f"{TOKEN}x", TOKEN[:-1], "ü", "\ud800", None, 7, [TOKEN]])
def test_a_wrong_token_begins_nothing(api, token):
    answer = api.ask("POST", "/login", content=json.dumps({"token": token}), headers=NOBODY)
    problem(answer, 401, "unauthorized")
    assert "set-cookie" not in answer.headers


def test_the_form_says_that_the_token_was_wrong(api):
    answer = api.ask("POST", "/login", content="token=wr%3Cng&to=%2Fdocs", headers=NOBODY | FORM)
    assert answer.status_code == 401
    assert "not the platform&#x27;s token" in answer.text
    assert 'value="/docs"' in answer.text
    assert "wr<ng" not in answer.text
    assert "wr&lt;ng" not in answer.text
    assert "set-cookie" not in answer.headers


def test_what_is_no_form_and_no_json_is_refused_without_being_told(api):
    for body in (b"\xff", b"mytoken", b'["mytoken"]', b'{"token": "mytoken"', b"[" * 5000):
        answer = api.ask("POST", "/login", content=body, headers=NOBODY)
        problem(answer, 400, "usage")
        assert "mytoken" not in answer.text


def test_without_a_token_nobody_signs_in_and_nobody_stays_in(api):
    cookie, once = sign_in(api), link(api)
    api.home.token.unlink()
    problem(api.ask("POST", "/login", json={"token": ""}, headers=NOBODY), 401, "unauthorized")
    problem(by_cookie(api, cookie), 401, "unauthorized")
    problem(api.get(once, headers=NOBODY), 404, "link_unknown")
    forged = build_app(api.controller, api.reader, api.home, clock=api.clock)
    write_text(api.home.token, "")
    assert (
        by_cookie(Api(api.home, api.clock, api.cluster, api.controller, api.reader, forged), cookie).status_code == 401
    )


# what a session is worth


def test_a_session_ends_after_half_a_day(api):
    cookie = sign_in(api)
    api.clock.advance(12 * 3600 - 1)
    assert by_cookie(api, cookie).status_code == 200
    api.clock.advance(2)
    problem(by_cookie(api, cookie), 401, "unauthorized")


def test_a_new_token_ends_every_session_and_every_link(api):
    cookie, once = sign_in(api), link(api)
    write_text(api.home.token, "the-next-token")
    problem(by_cookie(api, cookie), 401, "unauthorized")
    problem(api.get(once, headers=NOBODY), 404, "link_unknown")
    assert api.get("/", headers={"Authorization": "Bearer the-next-token"}).status_code == 200


def test_a_session_is_good_at_its_own_address_only(api):
    cookie = sign_in(api)
    problem(by_cookie(api, cookie, Host="localhost:19091"), 401, "unauthorized")
    name, _, value = cookie.partition("=")
    other = sign_in(api, "localhost:8080")
    assert other.partition("=")[0] != name  # so that two platforms on one host do not push each other out
    problem(by_cookie(api, f"{other.partition('=')[0]}={value}", Host="localhost:8080"), 401, "unauthorized")
    assert by_cookie(api, f"{cookie}; {other}", Host="localhost:8080").status_code == 200


def test_a_cookie_that_was_changed_is_worth_nothing(api):
    cookie = sign_in(api)
    name, _, value = cookie.partition("=")
    expires, nonce, mac = value.split(".")
    later = str(int(expires) + 1)
    changed = (f"{later}.{nonce}.{mac}", f"{expires}.{nonce[1:]}.{mac}", f"{expires}.{nonce}.{mac[:-1]}", f"{mac}", "")
    for one in (*changed, "..", f"{expires}.{nonce}.", "ü.ü.ü"):
        answer = by_cookie(api, f"{name}={one}")
        problem(answer, 401, "unauthorized")
    once = link(api).rpartition("/")[2]
    problem(by_cookie(api, f"{name}={once}"), 401, "unauthorized")


def test_a_wrong_token_is_not_mended_by_a_session(api):
    cookie = sign_in(api)
    problem(api.get("/", headers={"Authorization": "Bearer wrong", "Cookie": cookie}), 401, "unauthorized")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://127.0.0.1:3000"},
        {"Origin": "http://localhost:19091"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://127.0.0.1:3000", "Sec-Fetch-Site": "same-origin"},
    ],
    ids=str,
)
def test_by_cookie_only_a_page_of_this_address_changes_anything(api, headers):
    api.controller.submit(job_text())
    cookie = sign_in(api)
    for method, path in (
        ("POST", JOBS),
        ("DELETE", f"{JOBS}/demo"),
        ("PATCH", f"{JOBS}/demo"),
        ("PUT", "/api/v1/secrets/hub/token"),
        ("POST", "/logout"),
    ):
        answer = api.ask(method, path, content='{"value": "12345"}', headers=NOBODY | {"Cookie": cookie} | headers)
        problem(answer, 403, "foreign_origin")
    assert api.get(f"{JOBS}/demo").status_code == 200
    assert not api.home.secrets.exists()
    assert api.ask("GET", JOBS, headers=NOBODY | {"Cookie": cookie} | headers).status_code == 200


@pytest.mark.parametrize("headers", [ORIGIN, {"Sec-Fetch-Site": "same-origin"}], ids=str)
def test_a_page_of_this_address_does_by_cookie_what_the_token_does(api, headers):
    sent = NOBODY | {"Cookie": sign_in(api)} | headers
    assert api.ask("POST", JOBS, content=job_text(), headers=sent).status_code == 201
    assert api.ask("DELETE", f"{JOBS}/demo", headers=sent).status_code == 204


def test_signing_out_takes_the_cookie_back(api):
    cookie = sign_in(api)
    answer = api.ask("POST", "/logout", headers=NOBODY | {"Cookie": cookie} | ORIGIN)
    assert answer.status_code == 204
    assert answer.headers["set-cookie"].startswith(f'{cookie.partition("=")[0]}=""')
    assert "Max-Age=0" in answer.headers["set-cookie"]


# visitors


def test_who_visits_a_page_is_sent_to_sign_in_and_back(api):
    for path in ("/", "/docs", f"{JOBS}/demo?a=1&b=%2F", "/nothing"):
        answer = api.get(path, headers=NOBODY | PAGE)
        assert answer.status_code == 303
        parts = urlsplit(answer.headers["location"])
        assert (parts.scheme, parts.netloc, parts.path) == ("", "", "/login")
        assert parse_qs(parts.query)["to"][0].partition("?")[0] == path.partition("?")[0]
    assert "b%253D" not in answer.headers["location"]
    problem(api.get("/", headers=NOBODY | PAGE | {"Sec-Fetch-Mode": "cors"}), 401, "unauthorized")
    problem(api.get("/", headers=PAGE | {"Authorization": "Bearer wrong"}), 401, "unauthorized")
    problem(api.ask("POST", JOBS, headers=NOBODY | PAGE), 401, "unauthorized")
    problem(api.get("/", headers=NOBODY | PAGE | {"Host": "evil.example"}), 403, "forbidden_host")


# links


def test_a_link_signs_in_once_and_leads_where_it_says(api):
    once = link(api, "/docs?a=1#b")
    assert once.startswith("/login/once/")
    assert TOKEN not in once
    answer = api.get(once, headers=NOBODY)
    assert (answer.status_code, answer.headers["location"]) == (303, "/docs?a=1#b")
    assert answer.headers["cache-control"] == "no-store"
    assert by_cookie(api, answer.headers["set-cookie"].partition(";")[0]).status_code == 200
    again = api.get(once, headers=NOBODY)
    body = problem(again, 410, "link_used")
    assert "rlark open console" in body["hint"]
    assert "set-cookie" not in again.headers
    page = api.get(once, headers=NOBODY | PAGE)
    assert page.status_code == 410
    assert "used already" in page.text
    assert "rlark open console" in page.text


def test_a_link_is_used_up_for_every_replica(api):
    once = link(api)
    reader = LedgerReader(api.home)
    other = Api(api.home, api.clock, api.cluster, api.controller, reader, None)
    assert other.get(once, headers=NOBODY).status_code == 303
    problem(api.get(once, headers=NOBODY), 410, "link_used")
    reader.close()
    [mark] = api.home.links.iterdir()
    assert stat.S_IMODE(mark.stat().st_mode) == 0o600
    assert mark.stat().st_size == 0


def test_a_link_is_good_for_a_minute(api):
    early, late = link(api), link(api)
    told = api.ask("POST", LINKS, json={"to": "/"}).json()["expiresAt"]
    assert (datetime.fromisoformat(told) - api.clock.now()).total_seconds() == 60
    api.clock.advance(59)
    assert api.get(early, headers=NOBODY).status_code == 303
    api.clock.advance(2)
    answer = api.get(late, headers=NOBODY)
    assert "60 seconds" in problem(answer, 410, "link_expired")["detail"]
    assert "set-cookie" not in answer.headers


def test_that_links_were_used_is_forgotten_once_they_have_expired(api):
    for _ in range(3):
        api.get(link(api), headers=NOBODY)
    assert len(list(api.home.links.iterdir())) == 3
    api.clock.advance(200)
    api.get(link(api), headers=NOBODY)
    assert len(list(api.home.links.iterdir())) == 1


def test_only_the_token_makes_links_and_only_to_paths_of_ours(api):
    cookie = sign_in(api)
    answer = api.ask("POST", LINKS, json={"to": "/"}, headers=NOBODY | {"Cookie": cookie} | ORIGIN)
    problem(answer, 401, "unauthorized")
    for to in ("//evil.example", "https://evil.example", "docs", "", None, "/\\evil", "/a b", "/" + "x" * 3000):
        problem(api.ask("POST", LINKS, json={"to": to}), 400, "usage")
    problem(api.post(LINKS, "no JSON"), 400, "usage")


def test_a_code_that_was_changed_or_made_up_is_worth_nothing(api):
    once = link(api)
    text, _, mac = once.rpartition("/")[2].partition(".")
    for code in (
        text,
        f"{text}.",
        f"{text[:-2]}.{mac}",
        f"{text}.{mac[:-1]}",
        f".{mac}",
        "x",
        "ü.ü",
        "..%2F..%2Ftoken",
    ):
        answer = api.get(f"/login/once/{code}", headers=NOBODY)
        problem(answer, 404, answer.json()["code"])
        assert answer.json()["code"] in ("link_unknown", "no_such_route")
    cookie = sign_in(api).partition("=")[2]
    problem(api.get(f"/login/once/{cookie}", headers=NOBODY), 404, "link_unknown")
    assert not api.home.links.exists()
    assert api.get(once, headers=NOBODY).status_code == 303


def test_a_link_whose_use_cannot_be_written_down_is_not_used(api):
    once = link(api)
    api.home.links.write_text("")
    answer = api.get(once, headers=NOBODY)
    problem(answer, 503, "unavailable")
    assert "set-cookie" not in answer.headers
