"""Engines that are installed here, with what they need and whether that is met."""

from __future__ import annotations

from fastapi import APIRouter

from rlark.api import answers
from rlark.api.commands import JsonObject
from rlark.api.room import room, told
from rlark.engine import Engine, find_engines
from rlark.errors import NotFound


def router() -> APIRouter:
    """The routes of engines."""
    routes = room("engines", "/api/v1/engines")

    @routes.get("", response_model=None, responses=told(answers.EngineList))
    def list_engines() -> JsonObject:
        """Every engine."""
        return {"items": [engine_json(engine) for engine in find_engines().values()]}

    @routes.get("/{engine}", response_model=None, responses=told(answers.EngineState, 404))
    def get_engine(engine: str) -> JsonObject:
        """One engine."""
        engines = find_engines()
        if engine not in engines:
            raise NotFound(f"there is no engine {engine[:100]!r}", hint=f"there are {', '.join(engines) or 'none'}")
        return engine_json(engines[engine])

    return routes


def engine_json(engine: Engine) -> JsonObject:
    """An engine on the wire."""
    requirements = [
        {"name": requirement.name, "kind": requirement.kind, "met": requirement.met(), "install": requirement.install}
        for requirement in engine.requirements
    ]
    return {
        "id": engine.id,
        "title": engine.title,
        "components": list(engine.components),
        "tasks": list(engine.tasks),
        "canFuse": engine.can_fuse,
        "usesGpu": engine.uses_gpu,
        "maxRanks": dict(engine.max_ranks),
        "requirements": requirements,
        "available": all(requirement["met"] for requirement in requirements),
    }
