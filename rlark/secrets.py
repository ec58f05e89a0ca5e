"""Secrets: what must not be seen is masked before it is written or sent."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rlark.folder import read_json

MASK = "***"
SHORTEST = 4


class Redactor:
    """Replaces known secrets in text.

    Values shorter than four characters are left alone: masking them would eat the log.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        """Take the values to hide; the longest is replaced first."""
        self._secrets = sorted({s for s in secrets if len(s) >= SHORTEST}, key=len, reverse=True)

    def __call__(self, text: str) -> str:
        """The text with every secret masked."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return text


class SecretStore:
    """The server's secrets: one JSON file of mode 0600 for each name, `{key: value}`.

    Attributes:
        folder: where they lie; mode 0700.
    """

    def __init__(self, folder: Path) -> None:
        """Take the folder, `Home.secrets`; it is made with the first secret."""
        self.folder = folder

    def get(self, name: str, key: str) -> str | None:
        """The value; None where there is none.

        Raises:
            ValueError: the file is no secret file.
            OSError: it cannot be read.
        """
        found = read_json(self.folder / f"{name}.json")
        value = found.get(key) if found else None
        return value if isinstance(value, str) else None

    def __contains__(self, entry: tuple[str, str]) -> bool:
        """Whether there is a value for `(name, key)`."""
        try:
            return self.get(*entry) is not None
        except (OSError, ValueError):
            return False
