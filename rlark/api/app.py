"""The whole API as one FastAPI app. It knows neither Ray nor Serve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version

from fastapi import APIRouter, FastAPI
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from rlark.api import (
    answers,
    artifacts,
    checkpoints,
    checks,
    engines,
    jobs,
    login,
    nodes,
    problems,
    secrets,
    streams,
    tensorboard,
)
from rlark.api.auth import Gate, Hosts
from rlark.api.commands import Commands, JsonObject
from rlark.api.room import describe, room, told
from rlark.api.session import Sessions
from rlark.api.token import TokenFile
from rlark.control.reader import LedgerReader
from rlark.errors import ClusterError
from rlark.folder import Home
from rlark.host.clock import Clock, SystemClock
from rlark.spec.status import Phase

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
_METRICS = told(None, text="Gauges of Jobs, the queue, nodes and what is leased.", also={"text/plain": "one line each"})


def build_app(
    commands: Commands,
    reader: LedgerReader,
    home: Home,
    *,
    hosts: Iterable[str] = (),
    clock: Clock | None = None,
) -> FastAPI:
    """Build the API.

    Args:
        commands: the controller's verbs.
        reader: the ledger, for every question.
        home: the state directory: token, job folders.
        hosts: further host names under which this API is asked.
        clock: time, for `since`.
    """
    token = TokenFile(home.token)
    sessions = Sessions(token, home.links, clock or SystemClock())
    rooms = (
        _open(),
        _front(commands, reader),
        checks.router(commands),
        streams.router(reader, home, clock),
        artifacts.router(reader, home),
        checkpoints.router(reader, home),
        tensorboard.router(commands, clock),
        jobs.router(commands, reader, home),
        nodes.router(commands, reader),
        engines.router(),
        secrets.router(home),
        login.router(sessions),
    )
    app = FastAPI(
        title="rlark",
        version=_version(),
        description="Checked, leased, placed and verified training jobs for robot policies, on Ray.",
        routes=[route for part in rooms for route in part.routes],
        redirect_slashes=False,
        redoc_url=None,  # /docs shows the same, and each such page runs somebody else's script beside a session
        swagger_ui_oauth2_redirect_url=None,
    )
    problems.install(app)
    describe(app)
    app.add_middleware(Gate, token=token, hosts=Hosts(home, hosts), sessions=sessions)
    return app


def _open() -> APIRouter:
    """What needs no token."""
    routes = room("platform", closed=False)

    @routes.get("/livez", response_model=None, responses=told(answers.Alive))
    async def livez() -> JsonObject:  # async: it needs no thread, all of which may wait for the controller
        """This process answers."""
        return {"ok": True}

    @routes.get("/healthz", response_model=None, responses=told(answers.Health))
    async def healthz() -> JsonObject:
        """What answers here."""
        return {"ok": True, "service": "rlark", "version": _version()}

    return routes


def _front(commands: Commands, reader: LedgerReader) -> APIRouter:
    routes = room("platform")

    @routes.get("/", response_model=None, responses=told(answers.Index))
    def index() -> JsonObject:
        """Where to go from here."""
        return {"service": "rlark", "version": _version(), "docs": "/docs", "openapi": "/openapi.json"}

    @routes.get("/readyz", response_model=None, responses=told(answers.Ready))
    def readyz() -> Response:
        """Whether a Job can be taken now; 503 with the reason when not."""
        state = commands.ready()
        if not state["ready"]:
            raise ClusterError(f"no job can be taken now: {state['reason']}", hint="see: rlark doctor")
        return JSONResponse(state)

    @routes.get("/metrics", response_class=PlainTextResponse, responses=_METRICS)
    def metrics() -> Response:
        """The platform's state for Prometheus."""
        return PlainTextResponse(_prometheus(reader), media_type=PROMETHEUS)

    return routes


def _prometheus(reader: LedgerReader) -> str:
    phases, seen = reader.phases(), reader.nodes()
    lines = [
        *_gauge("rlark_jobs", "Jobs in each phase.", [({"phase": p.value}, phases.get(p.value, 0)) for p in Phase])
    ]
    lines += _gauge("rlark_queue_depth", "Jobs that wait.", [({}, len(reader.queue()))])
    lines += _gauge(
        "rlark_node_online", "1 for a node that is there.", [({"node": n["name"]}, int(n["online"])) for n in seen]
    )
    for what, text in (("gpus", "GPUs"), ("cpus", "CPUs")):
        samples = []
        for node in seen:
            labels = {"node": node["name"]} | ({"faked": str(node["gpusFaked"]).lower()} if what == "gpus" else {})
            used = node["used"][what]
            samples.append((labels | {"state": "leased"}, used))
            samples.append((labels | {"state": "free"}, max(0, node["capacity"][what] - used)))
        lines += _gauge(f"rlark_{what}", f"{text} of each node by whether a Job leases them.", samples)
    return "\n".join(lines) + "\n"


def _gauge(name: str, text: str, samples: Iterable[tuple[Mapping[str, str], float]]) -> list[str]:
    rows = [f"{name}{_labels(labels)} {value:g}" for labels, value in samples]
    return [f"# HELP {name} {text}", f"# TYPE {name} gauge", *rows]


def _labels(labels: Mapping[str, str]) -> str:
    def quoted(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    inside = ",".join(f'{key}="{quoted(value)}"' for key, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _version() -> str:
    try:
        return version("rlark")
    except PackageNotFoundError:
        return "unknown"
