"""The platform's secrets: set, named and deleted; no value ever comes back."""

from __future__ import annotations

from urllib.parse import quote

from rlark.sdk.transport import SECRETS, JsonObject, Transport
from rlark.secrets import check_names


class Secrets:
    """The secret store of one platform.

    A Job reads from it by `valueFrom.secretRef` in its `env`, anew with each attempt.
    """

    def __init__(self, transport: Transport) -> None:
        """Take the way to the API."""
        self._transport = transport

    def list(self) -> list[JsonObject]:
        """Every secret: `name`, `keys`, `updatedAt`."""
        items: list[JsonObject] = self._transport.get(SECRETS)["items"]
        return items

    def set(self, name: str, key: str, value: str) -> JsonObject:
        """Set a value.

        Args:
            name: of the secret, 1 to 63 of a-z, A-Z, 0-9, '-', '_' and '.', not all of them dots.
            key: within it, of the same form.
            value: at least four characters, so that it can be masked in logs.

        Returns:
            `{name, keys, updatedAt}`.

        Raises:
            UsageError: the name, the key or the value cannot be kept.
        """
        check_names(name, key)
        return self._transport.request("PUT", _path(name, key), body={"value": value}).json()

    def delete(self, name: str, key: str | None = None) -> None:
        """Delete a secret, or one of its values.

        Raises:
            NotFound: there is none.
            UsageError: it cannot be the name of one.
        """
        keys = () if key is None else (key,)
        check_names(name, *keys)
        self._transport.request("DELETE", _path(name, *keys))


def _path(*parts: str) -> str:
    return "/".join([SECRETS, *(quote(part, safe="") for part in parts)])
