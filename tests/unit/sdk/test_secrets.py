from __future__ import annotations

import json
from typing import Any

import pytest

from rlark.errors import NotFound, UsageError
from rlark.sdk.client import Client


@pytest.fixture
def client(api: Any) -> Client:
    return Client({"address": api.address, "token": "t"})


def test_set_list_and_delete(api: Any, client: Client) -> None:
    entry = {"name": "hub", "keys": ["token"], "updatedAt": "2026-01-01T00:00:00.000Z"}
    api.says("PUT /api/v1/secrets/hub/a.b-c_D", entry)
    api.says("GET /api/v1/secrets", {"items": [entry]})
    api.says("DELETE /api/v1/secrets/hub", b"", 204)
    api.says("DELETE /api/v1/secrets/hub/token", {"code": "not_found", "detail": "there is none"}, 404)
    assert client.secrets.set("hub", "a.b-c_D", "a-value") == entry
    assert json.loads(api.asked[0]["body"]) == {"value": "a-value"}
    for name, key in (("h/b", "token"), ("hub", "../token")):
        with pytest.raises(UsageError, match="cannot be the"):
            client.secrets.set(name, key, "a-value")
        with pytest.raises(UsageError, match="cannot be the"):
            client.secrets.delete(name, key)
    with pytest.raises(UsageError, match="'' cannot be the name"):
        client.secrets.delete("")
    assert client.secrets.list() == [entry]
    client.secrets.delete("hub")
    with pytest.raises(NotFound, match="there is none"):
        client.secrets.delete("hub", "token")


def test_a_link_is_an_address_of_this_platform(api: Any, client: Client) -> None:
    api.says("POST /api/v1/links", {"path": "/login/once/x.y", "to": "/docs", "expiresAt": "..."}, 201)
    assert client.link("/docs") == f"{api.address}/login/once/x.y"
    assert json.loads(api.asked[0]["body"]) == {"to": "/docs"}
