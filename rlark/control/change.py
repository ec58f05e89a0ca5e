"""A change to a Job: a JSON merge patch, and what of it is a wish rather than a new text."""

from __future__ import annotations

from typing import Any

from rlark.control.record import JsonObject
from rlark.errors import UsageError


def merge(target: Any, change: Any) -> Any:
    """A JSON merge patch (RFC 7396): objects are merged, null takes away, everything else replaces."""
    if not isinstance(change, dict):
        return change
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in change.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def wish(change: JsonObject) -> bool | None:
    """What a change says of `spec.stopped`; None where it says nothing.

    Raises:
        UsageError: it is neither true nor false.
    """
    spec = change.get("spec")
    if not isinstance(spec, dict) or "stopped" not in spec:
        return None
    stopped = spec["stopped"]
    if not isinstance(stopped, bool):
        raise UsageError(
            f"spec.stopped is {stopped!r}; it is true or false", hint='{"spec": {"stopped": true}} stops the job'
        )
    return stopped


def without_stopped(change: JsonObject) -> JsonObject:
    """The rest of a change; `status` is the server's and is left out."""
    rest = {key: value for key, value in change.items() if key != "status"}
    if isinstance(rest.get("spec"), dict):
        rest["spec"] = {key: value for key, value in rest["spec"].items() if key != "stopped"}
    return {key: value for key, value in rest.items() if value != {}}


def only_words(old: JsonObject, new: JsonObject) -> bool:
    """True when two texts differ in labels, annotations, priority and `stopped` only: the run is the same."""

    def rest(body: JsonObject) -> JsonObject:
        spec = {key: value for key, value in body["spec"].items() if key not in {"priority", "stopped"}}
        return {**body, "metadata": body["metadata"]["name"], "spec": spec}

    return rest(old) == rest(new)
