"""Jobs: list and watch, submit, look, change, stop, start, restart, delete."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header, Query
from fastapi.responses import JSONResponse, Response

from rlark.api import answers, curves, selector
from rlark.api.body import Change, Text
from rlark.api.checks import JOB
from rlark.api.commands import Commands, JsonObject
from rlark.api.follow import JobsWatcher
from rlark.api.room import EVENTS, MERGE_PATCH, PREFIX, room, takes, told
from rlark.api.sse import respond
from rlark.control.reader import LedgerReader, page_token
from rlark.errors import NotFound, UsageError
from rlark.folder import Home
from rlark.spec.status import JobStatus, Phase
from rlark.spec.story import points_at

PAGE = 500
LARGEST_PAGE = 1000
_LIST = told(answers.JobList, also={EVENTS: "`job` and `deleted`, with `watch`"})
_SUBMITTED = told(answers.Job, 409, 413, 422, text="It was there already.") | told(
    answers.Job, status=201, text="A new Job, or a new attempt of it."
)
_CHANGED = told(answers.Job, 404, 409, 413, 422)
_CHANGE = takes("a merge patch (RFC 7396)", MERGE_PATCH, "application/json")
_DELETED = told(answers.Job, 404, status=202, text="Its processes still end.") | told(None, status=204, text="Gone.")


def router(commands: Commands, reader: LedgerReader, home: Home) -> APIRouter:
    """The routes of Jobs as objects."""
    routes = room("jobs", f"{PREFIX}/jobs")
    _all(routes, reader, home)
    _new(routes, commands, home)
    _one(routes, commands, reader, home)
    return routes


def _all(routes: APIRouter, reader: LedgerReader, home: Home) -> None:
    @routes.get("", response_model=None, responses=_LIST)
    def list_jobs(
        *,
        label_selector: Annotated[str, Query(alias="labelSelector")] = "",
        phase: str = "",
        limit: Annotated[int, Query(ge=1, le=LARGEST_PAGE)] = PAGE,
        token: Annotated[str | None, Query(alias="continue")] = None,
        watch: bool = False,
        last_event_id: Annotated[str, Header()] = "",
    ) -> Response:
        """Jobs, the newest first; with `watch` an event stream of `job` and `deleted`."""
        labels, phases = selector.parse(label_selector), _phases(phase)
        if watch:
            watcher = JobsWatcher(
                reader, _watched(labels, phases), last_event_id, show=lambda job: described(home, job)
            )
            return respond(watcher, watcher.poll())
        items, more = reader.jobs(phases=phases, labels=labels, limit=limit, before=page_token(token))
        shown = [described(home, job) for job in items]
        return JSONResponse({"items": shown, "continue": None if more is None else str(more)})


def _new(routes: APIRouter, commands: Commands, home: Home) -> None:
    @routes.post("", response_model=None, status_code=201, responses=_SUBMITTED, openapi_extra=JOB)
    def submit_job(
        *,
        text: Text,
        idempotency_key: Annotated[str | None, Header()] = None,
        dry_run: Annotated[Literal["All"] | None, Query(alias="dryRun")] = None,
        replace: bool = False,
    ) -> Response:
        """Check, store and queue a Job: 201 for a new one or a new attempt, 200 where it was already there."""
        done = commands.submit(text, idempotency_key=idempotency_key, dry_run=dry_run is not None, replace=replace)
        headers = {"Location": f"{PREFIX}/jobs/{done.job['metadata']['name']}"}
        return JSONResponse(described(home, done.job), 201 if done.created else 200, headers=headers)


def _one(routes: APIRouter, commands: Commands, reader: LedgerReader, home: Home) -> None:
    def shown(job: JsonObject) -> JsonObject:
        return described(home, job)

    @routes.get("/{name}", response_model=None, responses=told(answers.Job, 404))
    def get_job(name: str) -> JsonObject:
        """One Job with its status."""
        return shown(reader.job(name))

    @routes.put("/{name}", response_model=None, responses=_CHANGED, openapi_extra=JOB)
    def put_job(name: str, text: Text) -> JsonObject:
        """Replace what is written of a Job; while it runs only labels, annotations and priority may differ."""
        return shown(commands.put(name, text))

    @routes.patch("/{name}", response_model=None, responses=_CHANGED, openapi_extra=_CHANGE)
    def patch_job(name: str, change: Change) -> JsonObject:
        """Merge-patch a Job: `{"spec": {"stopped": true}}` stops it, false starts it."""
        return shown(commands.patch(name, change))

    @routes.post("/{name}/restart", response_model=None, responses=told(answers.Job, 404, 409, 422))
    def restart_job(name: str) -> JsonObject:
        """Stop and start: a new attempt."""
        return shown(commands.restart(name))

    @routes.delete("/{name}", response_model=None, status_code=204, responses=_DELETED)
    def delete_job(name: str) -> Response:
        """Remove a Job and its folder: 204 when it is gone, 202 while its processes still end."""
        uid = reader.standing(name).uid
        commands.delete(name)
        try:
            left = reader.job(name)
        except NotFound:
            left = None
        if left is None or left["metadata"]["uid"] != uid:
            return Response(status_code=204)
        return JSONResponse(left, 202)


def described(home: Home, job: JsonObject) -> JsonObject:
    """A Job whose status says how far its training is, and where to look first."""
    status: JsonObject = job["status"]
    missing = points_at(job)
    status = {**status, "pointsAt": missing.to_json() if missing else None}
    if status.get("startedAt"):
        progress = curves.progress(home.job(job["metadata"]["name"]), JobStatus.model_validate(status))
        status["progress"] = progress.to_json() if progress else None
    return {**job, "status": status}


def _phases(text: str) -> list[str]:
    """The phases that a list of words names, in any case."""
    known = {phase.value.lower(): phase.value for phase in Phase}
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word.lower() not in known:
            raise UsageError(f"phase={word[:40]!r} is no phase", hint=f"there are {', '.join(known.values())}")
    return [known[word.lower()] for word in words]


def _watched(labels: Callable[[Mapping[str, str]], bool], phases: Sequence[str]) -> Callable[[Mapping[str, Any]], bool]:
    def wanted(job: Mapping[str, Any]) -> bool:
        if phases and job["status"]["phase"] not in phases:
            return False
        return labels(job["metadata"].get("labels") or {})

    return wanted
