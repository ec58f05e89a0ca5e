"""`artifact://` references: how a product or a checkpoint is named on the wire."""

from __future__ import annotations

import re

_REFERENCE = re.compile(r"artifact://[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}(/[a-zA-Z0-9][a-zA-Z0-9._-]{0,119}){0,8}")
_UNFIT = re.compile(r"[^a-zA-Z0-9._-]+")


def valid_reference(text: object) -> bool:
    """True for an `artifact://` reference in the contract's form."""
    return isinstance(text, str) and _REFERENCE.fullmatch(text) is not None


def slug(text: str, longest: int = 48) -> str:
    """A text as one part of a reference: letters, digits, '.', '_' and '-', beginning with a letter or digit.

    Args:
        text: somebody else's name for something.
        longest: characters at most.
    """
    return _UNFIT.sub("-", text).lstrip("._-")[:longest] or "unnamed"
