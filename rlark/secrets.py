"""Secrets: what must not be seen is masked before it is written or sent."""

from __future__ import annotations

from collections.abc import Iterable

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
