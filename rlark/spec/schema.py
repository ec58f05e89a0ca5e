"""The JSON schemas of a Job file and of an engine's configuration, for editors.

A schema says what an editor can check while one types: names, kinds, amounts, and what a single
node leaves of them. What it cannot say (what exists, what fits) `rlark validate` says.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from rlark.spec.draft7 import Schema, draft7_schema, each_property, ref_to
from rlark.spec.job import API_VERSION, KIND, WORKER, Job
from rlark.spec.source import SERVER_METADATA
from rlark.spec.workload import Section

_NAME = {"pattern": "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", "maxLength": 63}
_ABSOLUTE = "^/"
_ONE_NODE: dict[tuple[str, str], Schema] = {
    ("Metadata", "name"): _NAME,
    ("Spec", "tasks"): {"minItems": 1, "maxItems": 1},
    ("Spec", "domain"): {"const": ""},
    ("Worker", "name"): {"const": WORKER},
    ("Worker", "head"): {"const": True},
    ("Worker", "agentType"): {"enum": ["Ray", "Kubernetes"]},
    ("Worker", "nodeSelector"): {"propertyNames": {"pattern": r"\S"}},
    ("Ray", "replicas"): {"const": 1},
    ("EnvVar", "name"): {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
    ("Mount", "mountPath"): {"pattern": _ABSOLUTE},
}
"""What the rules of a single node leave of a field."""
_ONE_NODE_IF_GIVEN: dict[tuple[str, str], Schema] = {
    ("Ray", "image"): {"pattern": r"^\S+$"},
    ("Mount", "hostPath"): {"pattern": _ABSOLUTE},
    ("Mount", "volume"): _NAME,
}
"""The same of fields that may be null."""
_ONE_OF: dict[str, list[Schema]] = {
    "EnvVar": [{"required": ["value"]}, {"required": ["valueFrom"]}],
    "Mount": [
        {"required": ["hostPath"]},
        {"required": ["volume"]},
        {"required": ["scratch"], "properties": {"scratch": {"const": True}}},
    ],
    "ConfigSource": [{"required": ["path"]}, {"required": ["dir", "name"]}, {"required": ["inline"]}],
}
"""Forms of which exactly one is written."""
_INTERPOLATION = "Interpolation"


def job_schema() -> Schema:
    """The draft-07 schema of a Job file."""
    schema = draft7_schema(Job, "A Job of rlark")
    parts = schema["definitions"]
    for (part, field), words in _ONE_NODE.items():
        parts[part]["properties"][field].update(words)
    for (part, field), words in _ONE_NODE_IF_GIVEN.items():
        branches = parts[part]["properties"][field]["anyOf"]
        next(branch for branch in branches if branch["type"] == "string").update(words)
    for part, forms in _ONE_OF.items():
        parts[part]["oneOf"] = forms
    parts["Worker"]["required"].append("head")
    schema["properties"]["apiVersion"]["const"] = API_VERSION
    schema["properties"]["kind"]["const"] = KIND
    _accept_servers_own(schema)
    _accept_rlarks_form(schema)
    return schema


def _accept_rlarks_form(schema: Schema) -> None:
    """The Kubernetes form as it is read: unknown keys are accepted there, for they are only told of."""
    form = draft7_schema(Section, "RLark's own form of a Job")
    parts = form.pop("definitions")
    del form["$schema"]
    schema["definitions"] |= {**parts, Section.__name__: form}
    worker = schema["definitions"]["Worker"]["properties"]
    worker["kubernetes"] |= {"anyOf": [ref_to(Section.__name__), {"type": "null"}]}


def _accept_servers_own(schema: Schema) -> None:
    """What a server answers is accepted, and ignored, so that it can be submitted again."""
    schema["properties"]["status"] = {
        "description": "Written by a server; accepted and ignored.",
        "examples": [{"phase": "Succeeded"}],
    }
    schema["definitions"]["Metadata"]["properties"] |= {
        name: {"description": "Written by a server; accepted and ignored.", "examples": [_server_example(name)]}
        for name in SERVER_METADATA
    }


def _server_example(name: str) -> Any:
    if name.endswith("Timestamp"):
        return "2026-01-31T12:00:00Z"
    if name in ("managedFields", "ownerReferences", "finalizers"):
        return []
    return 1 if name in ("generation", "deletionGracePeriodSeconds") else "1"


def config_schema(model: type[BaseModel], title: str) -> Schema:
    """The draft-07 schema of a configuration file.

    Nothing is required, because a file may be a part that Hydra composes with others, and every
    value may be an interpolation.

    Args:
        model: the engine's configuration.
        title: what it is, for people.
    """
    schema = draft7_schema(model, title)
    for part in (schema, *schema["definitions"].values()):
        if "properties" in part:
            part.pop("required", None)
    _accept_pack_names(schema)
    each_property(schema, _interpolated)
    schema["definitions"][_INTERPOLATION] = {
        "type": "string",
        "pattern": r"\$\{|^\?\?\?$",
        "description": "A value that is filled in when the configuration is composed.",
        "examples": ["${oc.env:SEED}"],
    }
    schema["properties"] |= _hydras_own()
    return schema


def _accept_pack_names(schema: Schema) -> None:
    """A task pack may be named by its id or its file."""
    if "TaskPack" in schema["definitions"]:
        by_name = {"type": "string", "examples": ["originbot-goal-navigation"]}
        packs = [ref_to(name) for name in ("TaskPack", "PendulumPack") if name in schema["definitions"]]
        for part in schema["definitions"].values():
            task = part.get("properties", {}).get("task")
            if task is not None and packs[0] in _branches(task):
                about = {"description": task.get("description", "The task pack: its id, its file or itself.")}
                part["properties"]["task"] = about | {"examples": by_name["examples"], "anyOf": [by_name, *packs]}


def _branches(entry: Schema) -> list[Schema]:
    """The schemas that a value may follow, however deep they are nested."""
    nested = entry.get("anyOf") or entry.get("allOf") or []
    return [entry, *(found for branch in nested for found in _branches(branch))]


def _interpolated(entry: Schema) -> Schema:
    about = {word: entry[word] for word in ("description", "default", "examples") if word in entry}
    rest = {word: value for word, value in entry.items() if word not in about}
    if not rest or rest == {"type": "string"}:
        return entry
    branches = rest["anyOf"] if list(rest) == ["anyOf"] else rest["allOf"] if list(rest) == ["allOf"] else [rest]
    return about | {"anyOf": [*branches, ref_to(_INTERPOLATION)]}


def _hydras_own() -> Schema:
    return {
        "defaults": {
            "description": "Hydra's defaults list: what this file is composed of, in order.",
            "examples": [["base", "_self_"]],
            "type": "array",
        },
        "hydra": {
            "description": "Hydra's own settings, such as searchpath.",
            "examples": [{"searchpath": ["file:///data/configs"]}],
            "type": "object",
        },
    }


def schema_text(schema: Schema) -> str:
    """A schema as it is printed and committed: JSON, indented, with a newline at the end."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
