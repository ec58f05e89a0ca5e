"""Signing in with a browser: a session for the token, and links that begin one once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from rlark.api import answers, page
from rlark.api.auth import LINKS, LOGIN, ONCE
from rlark.api.body import Text
from rlark.api.commands import JsonObject
from rlark.api.problems import Problem
from rlark.api.room import room, takes, told
from rlark.api.session import SESSION_S, Link, Sessions, cookie_name
from rlark.errors import AuthError, ClusterError, UsageError
from rlark.host.clock import stamp

FORM = "application/x-www-form-urlencoded"
LONGEST = 2000
"""Characters of a path to go on to."""
_FRESH = "ask for a fresh one with: rlark open console"
_WHY = {
    Link.USED: ("This link was used already", "A link signs in once, so that nobody can use it after you."),
    Link.EXPIRED: ("This link has expired", "A link is good for 60 seconds."),
    Link.UNKNOWN: (
        "This link is none of this platform",
        "It was cut, made by another platform, or the token was replaced since.",
    ),
}


async def _fields(request: Request, text: Text) -> JsonObject:
    """The fields of a form or of a JSON object; nothing of what cannot be read is told back."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == FORM:
        return dict(parse_qsl(text, keep_blank_values=True))
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise UsageError("the body is neither a form nor a JSON object", hint='send {"token": "..."}')
    return body


Fields = Annotated[JsonObject, Depends(_fields)]


def router(sessions: Sessions) -> APIRouter:
    """The routes by which a browser comes in and goes."""
    return _joined(_open(sessions), _closed(sessions))


def _open(sessions: Sessions) -> APIRouter:
    """What needs no token."""
    routes = room("login", closed=False)
    form = told(None, text="The page.", also={"text/html": "a form that asks for the token"})

    @routes.get(LOGIN, response_class=HTMLResponse, responses=form)
    def login_page(to: str = "/") -> Response:
        """The page that asks for the token; `to` is where it goes on to."""
        return page.sign_in(to if _is_ours(to) else "/")

    @routes.post(
        LOGIN,
        response_model=None,
        responses=told(answers.SignedIn, 400, 401, 413),
        openapi_extra=takes('`{"token": "...", "to": "/"}`', "application/json", FORM),
    )
    def sign_in(request: Request, fields: Fields) -> Response:
        """Begin a session in exchange for the token. A form is sent on (303) to `to`, a program is told it."""
        to = fields.get("to", "/")
        to = to if isinstance(to, str) and _is_ours(to) else "/"
        form = request.headers.get("content-type", "").startswith(FORM)
        given = fields.get("token")
        if not isinstance(given, str) or not sessions.token.matches(given.strip()):
            if form:
                return page.sign_in(to, "This is not the platform's token.", AuthError.http_status)
            raise AuthError("the token is not this platform's", hint="`rlark token show` on its machine prints it")
        answer = RedirectResponse(to, 303) if form else JSONResponse({"to": to})
        return _with_session(answer, request, sessions)

    @routes.get(f"{ONCE}{{code}}", response_class=RedirectResponse, status_code=303, responses=_ONCE)
    def follow_link(request: Request, code: str, accept: Annotated[str, Header()] = "") -> Response:
        """Begin a session and go on (303) to where the link leads; possible once, within 60 s."""
        try:
            worth, to = sessions.follow(code)
        except OSError as error:
            raise ClusterError(
                f"the link is not used, since that could not be written down: {error.strerror}",
                hint="free some space on the disk of the state directory, then try again",
            ) from None
        if worth is Link.GOOD:
            return _with_session(RedirectResponse(to, 303), request, sessions)
        title, text = _WHY[worth]
        status = 404 if worth is Link.UNKNOWN else 410
        if "text/html" in accept:
            return page.sentence(title, text, "Ask for a fresh one with: rlark open console", status)
        raise Problem(status, f"link_{worth.value}", f"{title}. {text}", _FRESH, AuthError.exit_code)

    return routes


def _closed(sessions: Sessions) -> APIRouter:
    routes = room("login")

    @routes.post(
        LINKS,
        response_model=None,
        status_code=201,
        responses=told(answers.OneTimeLink, 413, status=201),
        openapi_extra=takes('`{"to": "/docs"}`', "application/json"),
    )
    def make_link(fields: Fields) -> JsonObject:
        """Make a link that signs a browser in once, within 60 s, and leads to a path; with the token only."""
        to = fields.get("to")
        if not isinstance(to, str) or not _is_ours(to):
            raise UsageError("`to` is no path of this platform", hint='send {"to": "/docs"}: a path that begins with /')
        code, expires = sessions.link(to)
        return {"path": f"{ONCE}{code}", "to": to, "expiresAt": stamp(datetime.fromtimestamp(expires, UTC))}

    @routes.post("/logout", response_model=None, status_code=204, responses=told(None, status=204, text="Signed out."))
    def sign_out(request: Request) -> Response:
        """End the session of this browser; a new token (`rlark token rotate`) ends all of them."""
        answer = Response(status_code=204, headers={"Cache-Control": "no-store"})
        answer.delete_cookie(cookie_name(_host(request)), **_attributes(request))
        return answer

    return routes


_ONCE = told(None, 404, 410, status=303, text="Signed in; go on to where the link leads.")


def _with_session(answer: Response, request: Request, sessions: Sessions) -> Response:
    name, value = sessions.cookie(_host(request))
    answer.set_cookie(name, value, max_age=SESSION_S, **_attributes(request))
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _attributes(request: Request) -> Mapping[str, Any]:
    return {"path": "/", "httponly": True, "samesite": "strict", "secure": request.url.scheme == "https"}


def _host(request: Request) -> str:
    return request.headers.get("host", "")


def _is_ours(to: str) -> bool:
    """Whether it is a path of this address; browsers take two slashes, backslashes too, for another host's name."""
    if not to.startswith("/") or to.startswith("//") or len(to) > LONGEST:
        return False
    if "\\" in to or not to.isprintable() or " " in to:
        return False
    try:
        parts = urlsplit(to)
    except ValueError:
        return False
    return not parts.scheme and not parts.netloc


def _joined(*parts: APIRouter) -> APIRouter:
    joined = APIRouter(redirect_slashes=False)
    joined.routes.extend(route for part in parts for route in part.routes)
    return joined
