"""The word that was probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant; None where none is near."""
    spelt = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), spelt, 1)
    return spelt[near[0]] if near else None
