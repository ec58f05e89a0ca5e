"""Who may come in: the bearer token or a browser's session, and the hosts this API answers to (DNS rebinding)."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from functools import cached_property
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from rlark.api.problems import Problem
from rlark.api.session import Sessions, cookie_name
from rlark.api.token import TokenFile
from rlark.errors import AuthError
from rlark.folder import Home, read_json

LOGIN = "/login"
ONCE = "/login/once/"
LINKS = "/api/v1/links"
OPEN = frozenset({"/livez", "/healthz", LOGIN})
"""Paths that need no token; so does what begins with `ONCE`."""
BEARER_ONLY = frozenset({LINKS})
"""Paths for which a session is not enough: a link begins a new one."""
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, never bound to


class Hosts:
    """The names and addresses under which this API may be asked."""

    def __init__(self, home: Home, more: Iterable[str] = ()) -> None:
        """Loopback, the address that the platform was started on, and `more`."""
        self._home = home
        self._more = frozenset(name.lower() for name in more)

    def allows(self, host: str) -> bool:
        """True for a host name or address, without its port, that is this API's own."""
        name = host.lower().rstrip(".").strip("[]")
        if name in _LOOPBACK or name in self._more or name.endswith(".localhost"):
            return True
        bound = self._bound
        if bound in _EVERYWHERE or self._more & _EVERYWHERE:
            # Every address of this machine is ours then; an address cannot be rebound, a name can.
            return _is_address(name) or name in self._own_names
        return bool(name) and name == bound

    @property
    def _bound(self) -> str:
        try:
            platform = read_json(self._home.platform) or {}
        except (OSError, ValueError):
            return ""
        return (urlsplit(str(platform.get("address", ""))).hostname or "").lower()

    @cached_property
    def _own_names(self) -> frozenset[str]:
        name = socket.gethostname().lower()
        return frozenset({name, name.partition(".")[0]})


class Gate:
    """ASGI middleware in front of everything: host, origin, then the token or a browser's session."""

    def __init__(self, app: ASGIApp, *, token: TokenFile, hosts: Hosts, sessions: Sessions) -> None:
        """Stand before an app."""
        self._app, self._token, self._hosts, self._sessions = app, token, hosts, sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with a problem; a browser that is not signed in is sent to do so."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "there is no WebSocket here"})
            return
        if scope["type"] == "http" and (answer := self._answer(scope, Headers(scope=scope))):
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _answer(self, scope: Scope, headers: Headers) -> Response | None:
        path = scope["path"]
        problem = self._foreign(headers)
        if problem is None and not (path in OPEN or path.startswith(ONCE)):
            problem = self._stranger(scope["method"], path, headers)
            if problem is not None and problem.status == AuthError.http_status and _is_visit(scope["method"], headers):
                return _to_login(scope)
        return problem.response(path) if problem else None

    def _foreign(self, headers: Headers) -> Problem | None:
        host = headers.get("host", "")
        if not self._hosts.allows(_name(host)):
            return _foreign("Host", host)
        origin = headers.get("origin")
        if origin is not None and not self._hosts.allows(_origin_name(origin)):
            return _foreign("Origin", origin)
        return None

    def _stranger(self, method: str, path: str, headers: Headers) -> Problem | None:
        authorization = headers.get("authorization", "")
        scheme, _, given = authorization.partition(" ")
        if scheme.lower() == "bearer" and self._token.matches(given.strip()):
            return None
        if not authorization and path not in BEARER_ONLY and self._in_session(headers):
            return None if method in _SAFE or _same_origin(headers) else _elsewhere()
        what = "the token is not this platform's" if given else "this needs a token"
        hint = "send Authorization: Bearer TOKEN; `rlark token show` on the platform's machine prints it"
        return Problem.of(AuthError(what, hint=hint))

    def _in_session(self, headers: Headers) -> bool:
        host = headers.get("host", "")
        value = cookie_parser(headers.get("cookie", "")).get(cookie_name(host))
        return value is not None and self._sessions.good(host, value)


def _is_visit(method: str, headers: Headers) -> bool:
    """Whether somebody goes to a page with a browser, rather than a program or a script of a page asking."""
    shown = "text/html" in headers.get("accept", "") and not headers.get("authorization")
    return method == "GET" and shown and headers.get("sec-fetch-mode", "navigate") == "navigate"


def _to_login(scope: Scope) -> Response:
    query = scope["query_string"].decode("ascii", "replace")
    to = quote(scope["path"] + (f"?{query}" if query else ""), safe="/")
    return RedirectResponse(f"{LOGIN}?to={to}", 303, {"Cache-Control": "no-store"})


def _same_origin(headers: Headers) -> bool:
    """Whether a page of this very address asks: browsers say so, and no page can make them say it."""
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site") == "same-origin"
    return urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def _elsewhere() -> Problem:
    return Problem(
        403,
        "foreign_origin",
        "a session changes things only for pages of this address, and this request does not say that it comes from one",
        "send the token instead, Authorization: Bearer TOKEN; `rlark token show` prints it",
        AuthError.exit_code,
    )


def _foreign(header: str, value: str) -> Problem:
    return Problem(
        403,
        "forbidden_host",
        f"the {header} {value[:100]!r} is not this platform's",
        "ask it under the address that `rlark up` prints, or through a tunnel to it on localhost",
        AuthError.exit_code,
    )


def _name(host: str) -> str:
    """The host of `host:port`."""
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _origin_name(origin: str) -> str:
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return (parts.hostname or "") if parts.scheme in ("http", "https") else ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
