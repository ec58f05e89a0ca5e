"""HTTP to the API: one request, one connection, and every refusal as its `RlarkError`.

The standard library's client is used on purpose: it is imported in a few milliseconds, and it
asks no proxy for an address on this machine.
"""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from rlark.errors import BY_CODE, AuthError, ClusterError, RlarkError, UsageError

T = TypeVar("T")
JsonObject = dict[str, Any]
API = "/api/v1"
JOBS = f"{API}/rlinf.io/v1alpha1/jobs"
NODES = f"{API}/rlinf.io/v1alpha1/nodes"
SECRETS = f"{API}/secrets"
CHUNK = 1 << 16
CONNECT_TIMEOUT = 5.0
TIMEOUT = 60.0
STREAM_SILENCE = 45.0
"""Seconds without a byte (the API sends heartbeats) after which a stream counts as lost."""


@dataclass(frozen=True)
class Answer:
    """What the API said.

    Attributes:
        status: the HTTP status.
        type: the content type, without parameters.
        body: the bytes.
    """

    status: int
    type: str
    body: bytes

    def json(self) -> JsonObject:
        """The body as a JSON object.

        Raises:
            ClusterError: it is none; something else answers at this address.
        """
        try:
            value = json.loads(self.body or b"{}")
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise ClusterError(
                f"the answer (HTTP {self.status}, {self.type or 'no type'}) is not rlark's",
                hint="something else may listen at this address; see: rlark doctor",
            )
        return value


@dataclass(frozen=True)
class Transport:
    """The way to one API.

    Attributes:
        address: `http://host:port`, without a slash at the end.
        token: the bearer token; empty when none is known.
        token_origin: where the token was found, for the message when it is refused.
        start_hint: what to do when nothing answers.
    """

    address: str
    token: str = field(default="", repr=False)
    token_origin: str = ""
    start_hint: str = "start the platform with: rlark up"

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: JsonObject | str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Ask once and read the whole answer.

        Args:
            method: the HTTP method.
            path: absolute, already quoted.
            query: parameters; those that are None or empty are left out.
            body: a JSON object, or YAML text.
            headers: further headers.

        Raises:
            RlarkError: the API refused; the class is the one it names.
            ClusterError: nothing answers.
        """
        with self._open(method, path, query=query, body=body, headers=headers) as response:
            answer = self._whole(response)
        if answer.status >= 400:
            raise self._refusal(answer)
        return answer

    def get(self, path: str, **query: object) -> JsonObject:
        """The JSON object at a path."""
        return self.request("GET", path, query=query).json()

    @contextmanager
    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        last_id: str = "",
        accept: str = "text/event-stream",
    ) -> Iterator[Iterator[str]]:
        """Open a stream and give its lines while they come.

        Args:
            path: absolute, already quoted.
            query: parameters.
            last_id: the id of the last event that arrived, to go on behind it.
            accept: what it should be made of; server-sent events by default.

        Raises:
            RlarkError: the API refused.
            ClusterError: nothing answers, or the stream broke.
        """
        headers = {"Accept": accept} | ({"Last-Event-ID": last_id} if last_id else {})
        with self._open("GET", path, query=query, headers=headers, silence=STREAM_SILENCE) as response:
            if response.status >= 400:
                raise self._refusal(self._whole(response))
            yield self._lines(response)

    def download(self, path: str, target: Path) -> None:
        """Write what stands at a path to a file.

        Raises:
            RlarkError: the API refused.
            ClusterError: nothing answers, or the connection broke.
            OSError: the file cannot be written.
        """
        with self._open("GET", path) as response:
            if response.status >= 400:
                raise self._refusal(self._whole(response))
            with target.open("wb") as file:
                while chunk := self._reading(lambda: response.read(CHUNK)):
                    file.write(chunk)

    def answers(self, timeout: float = 0.5) -> bool:
        """True when the port is open; says nothing about who holds it."""
        parts = urlsplit(self.address)
        try:
            with socket.create_connection((parts.hostname or "", _port(self.address)), timeout):
                return True
        except OSError:
            return False

    @contextmanager
    def _open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: JsonObject | str | None = None,
        headers: Mapping[str, str] | None = None,
        silence: float = TIMEOUT,
    ) -> Iterator[http.client.HTTPResponse]:
        connection = _connection(self.address)
        sent = {"Accept": "application/json", "Connection": "close"} | dict(headers or {})
        data, kind = _encode(body)
        if kind:
            sent["Content-Type"] = kind
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"

        def ask() -> http.client.HTTPResponse:
            connection.connect()
            connection.sock.settimeout(silence)
            connection.request(method, urlsplit(self.address).path + path + _query(query), data, sent)
            return connection.getresponse()

        try:
            yield self._reading(ask)
        finally:
            connection.close()

    def _reading(self, step: Callable[[], T]) -> T:
        try:
            return step()
        except (OSError, http.client.HTTPException) as error:
            raise self._silence(error) from error

    def _whole(self, response: http.client.HTTPResponse) -> Answer:
        return Answer(response.status, response.headers.get_content_type(), self._reading(response.read))

    def _lines(self, response: http.client.HTTPResponse) -> Iterator[str]:
        while line := self._reading(response.readline):
            yield line.decode("utf-8", "replace").rstrip("\r\n")

    def _silence(self, error: Exception) -> ClusterError:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return ClusterError(f"no answer from {self.address}: {reason}", hint=self.start_hint)

    def _refusal(self, answer: Answer) -> RlarkError:
        if answer.status == 401:
            origin = f"the one from {self.token_origin}" if self.token else "none was found"
            return AuthError(
                f"{self.address} does not accept this token ({origin})",
                hint="on the machine of the platform: rlark token show; elsewhere: export RLARK_TOKEN=...; "
                "a platform of somebody else: start your own with rlark up --port N",
            )
        return _from_problem(answer)


def _connection(address: str) -> http.client.HTTPConnection:
    parts = urlsplit(address)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname or "", _port(address), timeout=CONNECT_TIMEOUT)


def _port(address: str) -> int:
    parts = urlsplit(address)
    return parts.port or (443 if parts.scheme == "https" else 80)


def _query(query: Mapping[str, object] | None) -> str:
    wanted = {key: value for key, value in (query or {}).items() if value not in (None, "", False)}
    text = urlencode({key: "true" if value is True else str(value) for key, value in wanted.items()})
    return f"?{text}" if text else ""


def _encode(body: JsonObject | str | None) -> tuple[bytes | None, str]:
    if body is None:
        return None, ""
    if isinstance(body, str):
        return body.encode(), "application/yaml"
    return json.dumps(body).encode(), "application/json"


def _from_problem(answer: Answer) -> RlarkError:
    """The error that an `application/problem+json` stands for."""
    try:
        problem = answer.json()
    except ClusterError as foreign:
        return foreign
    kind = BY_CODE.get(str(problem.get("code") or problem.get("error"))) or _by_status(answer.status)
    message = str(problem.get("detail") or problem.get("title") or f"HTTP {answer.status}")
    return kind(
        message,
        hint=problem.get("hint") or None,
        findings=findings_from(problem.get("findings") or []),
        details=problem.get("details") or {},
    )


def _by_status(status: int) -> type[RlarkError]:
    """For a problem that names no code: somebody between us and the API wrote it."""
    if status in (401, 403):
        return AuthError
    if status >= 502:
        return ClusterError
    kinds = {kind.http_status: kind for kind in reversed(BY_CODE.values())}
    return kinds.get(status, UsageError)


def findings_from(items: list[JsonObject]) -> list[Any]:
    """Findings as they came over the wire."""
    from rlark.spec.finding import Finding

    return [Finding.model_validate(item) for item in items]
