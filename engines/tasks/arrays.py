"""One formula for numpy and for jax: which library an array belongs to."""

from __future__ import annotations

from typing import Any, TypeAlias

Array: TypeAlias = Any
"""A numpy or a jax array; the formulas use only what both offer."""


def library(array: Array) -> Any:
    """The namespace of the library that made `array` (numpy 2 and jax know their own)."""
    return array.__array_namespace__()
