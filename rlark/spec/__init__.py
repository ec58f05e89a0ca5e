"""What is written: the Job, its status, findings, and YAML with positions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlark.spec.source import Source as Source
    from rlark.spec.source import load as load

__all__ = ["Source", "load"]


def __getattr__(name: str) -> object:
    """Load the reader on first use: most of what is here is needed without it."""
    if name in __all__:
        from rlark.spec import source

        return getattr(source, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
