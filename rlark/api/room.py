"""A part of the API: routes under one prefix, described alike.

What a route answers is described beside it: `told(JobList, 404)`. The shapes are those of
`rlark.api.answers`; the answers themselves are written as they are and never pass through them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from rlark.api import answers
from rlark.errors import PlacementError, SpecError

PREFIX = "/api/v1/rlinf.io/v1alpha1"
PROBLEM = "application/problem+json"
EVENTS = "text/event-stream"
MERGE_PATCH = "application/merge-patch+json"
_SHAPES = "#/components/schemas/"
Told = dict[int | str, dict[str, Any]]
_BEARER = Depends(HTTPBearer(auto_error=False, description="the platform's token: `rlark token show`"))
_REFUSALS = {
    400: "the request cannot be read",
    401: "no token, or not this platform's",
    403: "the Host or Origin is not this platform's",
    404: "there is no such Job, node, engine, attempt or file",
    409: "the name is taken, or the state does not allow it",
    410: "the link was used, or is older than 60 s",
    413: "the body is too large",
    422: f"findings; exitCode {SpecError.exit_code} or {PlacementError.exit_code}, and nothing was started",
    503: "the controller, the ledger or Ray does not answer; try again after Retry-After seconds",
}


def room(tag: str, prefix: str = "", *, closed: bool = True) -> APIRouter:
    """An empty part.

    Args:
        tag: under which the document lists its routes.
        prefix: of their paths.
        closed: False where no token is needed; `rlark.api.auth` decides, this only describes it.
    """
    return APIRouter(
        prefix=prefix,
        tags=[tag],
        dependencies=[_BEARER] if closed else [],
        responses=_refused(400, 401, 403, 503) if closed else _refused(403),
        generate_unique_id_function=_operation_id,
        redirect_slashes=False,
    )


def told(
    answer: type[BaseModel] | None,
    *refusals: int,
    status: int = 200,
    text: str = "",
    also: Mapping[str, str] | None = None,
) -> Told:
    """What a route answers, for the document.

    Args:
        answer: the shape of its JSON; None where it answers none.
        refusals: the statuses of its refusals beyond those of every route.
        status: of the answer.
        text: what the answer is; the shape's own description by default.
        also: further media types, and what each holds.
    """
    content = {} if answer is None else {"application/json": {"schema": _reference(answer)}}
    for media, what in (also or {}).items():
        content[media] = {"schema": {"type": "string", "description": what}}
    described = text or (answer.__doc__ if answer else "") or ""
    return {status: {"description": described, "content": content}, **_refused(*refusals)}


def takes(text: str, *media: str) -> dict[str, Any]:
    """The body that a route reads, for the document: `openapi_extra=takes("a Job", "application/yaml")`."""
    content = {one: {"schema": {"type": "object" if one.endswith("json") else "string"}} for one in media}
    return {"requestBody": {"required": True, "description": text, "content": content}}


def describe(app: FastAPI) -> None:
    """Put the shapes of all answers into an app's document."""
    written = app.openapi

    def document() -> dict[str, Any]:
        made = written()
        _, defined = models_json_schema(
            [(shape, "serialization") for shape in _shapes()], ref_template=_SHAPES + "{model}"
        )
        made.setdefault("components", {}).setdefault("schemas", {}).update(defined["$defs"])
        return made

    app.openapi = document  # type: ignore[method-assign]


def _shapes() -> list[type[BaseModel]]:
    found = [value for value in vars(answers).values() if isinstance(value, type) and issubclass(value, BaseModel)]
    return [shape for shape in found if shape.__module__ == answers.__name__]


def _refused(*statuses: int) -> Told:
    problem = {PROBLEM: {"schema": _reference(answers.Problem)}}
    named: Told = {status: {"description": _REFUSALS[status], "content": problem} for status in statuses}
    return named | {"default": {"description": "any other refusal", "content": problem}}


def _reference(shape: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _SHAPES + shape.__name__}


def _operation_id(route: APIRoute) -> str:
    return route.name
