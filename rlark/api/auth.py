"""Who may come in: the bearer token, and the hosts this API answers to (against DNS rebinding)."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from rlark.api.problems import Problem
from rlark.errors import AuthError
from rlark.folder import Home, read_json

OPEN = frozenset({"/livez", "/healthz"})
"""Paths that need no token."""
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, never bound to


class TokenFile:
    """The token in its file; read again when the file was changed (`rlark token rotate`)."""

    def __init__(self, path: Path) -> None:
        """Name the file; it need not be there yet."""
        self._path = path
        self._seen: tuple[int, int, int] | None = None
        self._token = b""

    def matches(self, given: str) -> bool:
        """Compare in constant time; without a token in the file nothing matches."""
        token = self._read()
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token) and bool(token)

    def _read(self) -> bytes:
        try:
            state = self._path.stat()
            seen = (state.st_mtime_ns, state.st_size, state.st_ino)
            if seen != self._seen:
                self._token = self._path.read_bytes().strip()
                self._seen = seen
        except OSError:
            self._token, self._seen = b"", None
        return self._token


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
    """ASGI middleware in front of everything: host, origin, token, in this order."""

    def __init__(self, app: ASGIApp, *, token: TokenFile, hosts: Hosts) -> None:
        """Stand before an app."""
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it with a problem."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008, "reason": "there is no WebSocket here"})
            return
        if scope["type"] == "http" and (problem := self._refuse(scope["path"], Headers(scope=scope))):
            await problem.response(scope["path"])(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refuse(self, path: str, headers: Headers) -> Problem | None:
        host = headers.get("host", "")
        if not self._hosts.allows(_name(host)):
            return _foreign("Host", host)
        origin = headers.get("origin")
        if origin is not None and not self._hosts.allows(_origin_name(origin)):
            return _foreign("Origin", origin)
        if path in OPEN:
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._token.matches(given.strip()):
            return None
        what = "the token is not this platform's" if given else "this needs a token"
        hint = "send Authorization: Bearer TOKEN; `rlark token show` on the platform's machine prints it"
        return Problem.of(AuthError(what, hint=hint))


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
