"""Secrets: named, set and deleted here; no answer ever holds a value."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.responses import Response

from rlark.api import answers
from rlark.api.body import Text
from rlark.api.commands import JsonObject
from rlark.api.room import room, takes, told
from rlark.errors import ClusterError, UsageError
from rlark.folder import Home
from rlark.host.clock import stamp
from rlark.secrets import Entry, SecretStore

PREFIX = "/api/v1/secrets"
_BODY = takes('`{"value": "..."}`', "application/json")
_HINT = 'send {"value": "..."}'


async def _value(text: Text) -> str:
    """The value in the body; nothing of a body that cannot be read is told back."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise UsageError("the body is not JSON", hint=_HINT) from None
    if not isinstance(body, dict) or set(body) != {"value"} or not isinstance(body["value"], str):
        raise UsageError("the body must hold a value, which is text, and nothing else", hint=_HINT)
    return str(body["value"])


Value = Annotated[str, Depends(_value)]


def router(home: Home) -> APIRouter:
    """The routes of the secret store of a state directory."""
    routes, store = room("secrets", PREFIX), SecretStore(home.secrets)

    @routes.get("", response_model=None, responses=told(answers.SecretList))
    def list_secrets() -> JsonObject:
        """Every secret with its keys and when it was changed; never a value."""
        with _told():
            return {"items": [_shown(entry) for entry in store.entries()]}

    @routes.put("/{name}/{key}", response_model=None, responses=told(answers.Secret, 404, 413), openapi_extra=_BODY)
    def put_secret(name: str, key: str, value: Value) -> JsonObject:
        """Set a value; Jobs see it from their next attempt on."""
        with _told():
            return _shown(store.put(name, key, value))

    @routes.delete("/{name}", response_model=None, status_code=204, responses=told(None, 404, status=204, text="Gone."))
    def delete_secret(name: str) -> Response:
        """Delete a secret with all its values; an attempt of a Job that refers to it fails from then on."""
        with _told():
            store.delete(name)
        return Response(status_code=204)

    @routes.delete(
        "/{name}/{key}", response_model=None, status_code=204, responses=told(None, 404, status=204, text="Gone.")
    )
    def delete_secret_value(name: str, key: str) -> Response:
        """Delete one value of a secret; with its last one the secret goes."""
        with _told():
            store.delete(name, key)
        return Response(status_code=204)

    return routes


@contextmanager
def _told() -> Iterator[None]:
    """Say in words of ours when the store cannot be used."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = error.strerror or type(error).__name__ if isinstance(error, OSError) else error
        hint = "look at the folder on the platform's machine: it and its files must be yours, of mode 0700 and 0600"
        raise ClusterError(f"the secret store cannot be used: {reason}", hint=hint) from None


def _shown(entry: Entry) -> JsonObject:
    return {"name": entry.name, "keys": list(entry.keys), "updatedAt": stamp(entry.updated_at)}
