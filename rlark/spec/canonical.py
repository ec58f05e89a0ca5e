"""The canonical text of a Job: what is previewed, stored, digested and can be submitted again."""

from __future__ import annotations

import functools
import hashlib
from typing import Any

from pydantic import BaseModel

from rlark.spec.emit import emit
from rlark.spec.job import BESIDE_KUBERNETES, Job, Ray, Worker

_ALWAYS = {(Worker, "head"), (Worker, "agent_type"), (Ray, "replicas")}
"""Written even where they have their default: people look for them."""
_SCRIPTS = {"prepare_script", "run_script"}
_RLARKS_ORDER = (
    *("name", "head", "agentType", "role", "nodeSelector", "prepareScript", "runScript", "tensorBoardDir"),
    *("kubernetes", "ray", "expect"),
)
"""Keys of a task in RLark's Kubernetes form, as its console writes them, then ours."""


def canonical_yaml(job: Job) -> str:
    """The Job as YAML: the same bytes for the same Job, read back to the identical Job.

    Fields that have their default are left out, and so are blank scripts; texts stay texts.
    """
    return emit(written(job))


def written(job: Job) -> dict[str, Any]:
    """What the canonical text holds, as plain values under the file's own names."""
    return _model(job)


def digest(text: str) -> str:
    """SHA-256 of a canonical text, in 64 hexadecimal digits."""
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def _fields(model: type[BaseModel]) -> list[tuple[str, str, Any]]:
    """Name, name in the file and default of every field."""
    return [
        (name, field.alias or name, field.get_default(call_default_factory=True))
        for name, field in model.model_fields.items()
    ]


def _model(model: BaseModel) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, alias, default in _fields(type(model)):
        value = getattr(model, name)
        absent = (name in _SCRIPTS and not value.strip()) or value == default
        if not absent or (type(model), name) in _ALWAYS:
            found[alias] = _value(value)
    return _as_rlark(found) if isinstance(model, Worker) and model.from_kubernetes else found


def _as_rlark(worker: dict[str, Any]) -> dict[str, Any]:
    """A task in the Kubernetes form, without what was read from its section."""
    worker["ray"] = {key: value for key, value in worker.get("ray", {}).items() if key in BESIDE_KUBERNETES}
    return {key: worker[key] for key in _RLARKS_ORDER if worker.get(key, {}) != {}}


def _value(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return _model(value)
    if isinstance(value, list) and value and isinstance(value[0], BaseModel):
        return [_model(item) for item in value]
    return value
