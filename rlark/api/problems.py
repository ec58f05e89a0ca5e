"""Every refusal of the API as `application/problem+json` (RFC 9457)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from rlark.api.room import PROBLEM
from rlark.errors import ClusterError, RlarkError, UsageError
from rlark.spec.finding import Finding

log = logging.getLogger(__name__)
RETRY_AFTER_S = 2


@dataclass
class Problem(Exception):
    """A refusal in the API's own words, where no error of the house fits.

    Attributes:
        status: the HTTP status.
        code: one word for programs.
        detail: where, what and why.
        hint: how to mend it.
        exit_code: what `rlark` exits with.
        findings: what was found in a Job.
        details: further facts for programs.
        headers: of the answer.
    """

    status: int
    code: str
    detail: str
    hint: str | None = None
    exit_code: int = UsageError.exit_code
    findings: Sequence[Finding] = ()
    details: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, error: RlarkError) -> Problem:
        """The refusal that an error of the house is."""
        # A followed Job's outcome has the status 200; as a refusal it would not be one.
        status = error.http_status if error.http_status >= 400 else 409
        headers = {"Retry-After": str(RETRY_AFTER_S)} if isinstance(error, ClusterError) else {}
        if status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = 'Bearer realm="rlark"'
        return cls(
            status, error.code, error.message, error.hint, error.exit_code, error.findings, error.details, headers
        )

    def response(self, path: str) -> Response:
        """The answer to a request for a path."""
        body = {
            "type": f"urn:rlark:problem:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "detail": self.detail,
            "instance": path,
            "code": self.code,
            "exitCode": self.exit_code,
            "error": self.detail,
            "hint": self.hint,
            "findings": [finding.to_json() for finding in self.findings],
            "details": dict(self.details),
        }
        return JSONResponse(body, self.status, headers=dict(self.headers), media_type=PROBLEM)


def install(app: FastAPI) -> None:
    """Let every error of an app leave as a problem."""
    app.add_exception_handler(RlarkError, _house)
    app.add_exception_handler(Problem, _own)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _parameters)
    app.add_exception_handler(Exception, _bug)


async def _house(request: Request, error: Exception) -> Response:
    assert isinstance(error, RlarkError)
    if error.http_status >= 500 and not isinstance(error, ClusterError):
        log.error("%s %s: %s", request.method, request.url.path, error)
    return Problem.of(error).response(request.url.path)


async def _own(request: Request, error: Exception) -> Response:
    assert isinstance(error, Problem)
    return error.response(request.url.path)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.url.path
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.NOT_FOUND:
        hint = "GET /openapi.json lists what there is"
        return Problem(404, "no_such_route", f"there is nothing at {path}", hint, 102, headers=headers).response(path)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = headers.get("Allow", headers.get("allow", ""))
        takes = f"it takes {allowed}" if allowed else None
        detail = f"{request.method} is not possible at {path}"
        return Problem(405, "method_not_allowed", detail, takes, headers=headers).response(path)
    return Problem(error.status_code, "refused", str(error.detail), headers=headers).response(path)


async def _parameters(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    said = [f"{_place(one.get('loc', ()))}: {one.get('msg', 'is wrong')}" for one in error.errors()]
    detail = "the request cannot be read: " + "; ".join(said)
    return Problem(400, UsageError.code, detail, "see GET /openapi.json").response(request.url.path)


def _place(steps: Sequence[object]) -> str:
    """`limit (query)` of `("query", "limit")`."""
    where, *rest = [str(step) for step in steps] or [""]
    return f"{'.'.join(rest)} ({where})" if rest else where


async def _bug(request: Request, error: Exception) -> Response:
    log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    detail = f"rlark met something it did not expect: {type(error).__name__}"
    hint = "the log of the API replica has the details; please report it"
    return Problem(500, RlarkError.code, detail, hint, RlarkError.exit_code).response(request.url.path)
