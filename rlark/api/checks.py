"""Checking without starting: validate and preview."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from rlark.api import answers
from rlark.api.body import Text
from rlark.api.commands import Commands, JsonObject
from rlark.api.room import room, takes, told
from rlark.errors import SpecError
from rlark.spec.finding import Finding, refusal

JOB = takes("a Job", "application/yaml", "application/json")
"""How the text of a Job is described in the OpenAPI document."""
_PREVIEW = told(
    answers.Preview, 413, 422, also={"application/yaml": "the canonical YAML", "image/svg+xml": "the placement map"}
)


def router(commands: Commands) -> APIRouter:
    """The routes that check a Job and store nothing."""
    routes = room("checks", "/api/v1")

    @routes.post("/validate", response_model=None, responses=told(answers.Validation, 413), openapi_extra=JOB)
    def validate(text: Text) -> JsonObject:
        """Everything that is wrong with a Job, in one pass."""
        decided = commands.preview(text)
        return {key: decided[key] for key in ("ok", "exitCode", "findings")}

    @routes.post("/preview", response_model=None, responses=_PREVIEW, openapi_extra=JOB)
    def preview(text: Text, format: Literal["json", "yaml", "svg"] = "json") -> Response:  # noqa: A002 - the parameter's name
        """The canonical YAML, the review table and the placement map; nothing is stored.

        `format=yaml` gives the canonical YAML alone, `format=svg` the map as a picture; both are refused with
        422 while the Job has errors.
        """
        decided = commands.preview(text, picture=format == "svg")
        if format == "json":
            return JSONResponse(decided)
        if not decided["ok"]:
            findings = [Finding.model_validate(finding) for finding in decided["findings"]]
            raise refusal(findings, decided["exitCode"])
        if format == "yaml":
            return PlainTextResponse(decided["yaml"], media_type="application/yaml")
        if not decided.get("svg"):
            raise SpecError("the job places no components, so there is no map", hint="ask for format=json")
        return Response(decided["svg"], media_type="image/svg+xml")

    return routes
