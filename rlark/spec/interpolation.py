"""Interpolation of a composed configuration: `${section.key}`, `${oc.env:NAME}`, and RLinf's own arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

_RLINFS: Mapping[str, Callable[..., Any]] = {
    "multiply": lambda one, other: one * other,
    "int_div": lambda one, other: one // other,
    "subtract": lambda one, other: one - other,
    "not": lambda value: not bool(value),
}
"""What RLinf's driver makes known to OmegaConf before it composes, by name."""
_MANDATORY = "???"


@contextmanager
def rlinf_resolvers() -> Iterator[None]:
    """Let RLinf's own resolvers be known for a while; RLinf in the same process registers them itself later."""
    from omegaconf import OmegaConf

    added = [name for name in _RLINFS if not OmegaConf.has_resolver(name)]
    for name in added:
        OmegaConf.register_new_resolver(name, _RLINFS[name])
    try:
        yield
    finally:
        for name in added:
            OmegaConf.clear_resolver(name)


def resolve(config: Any, *, lenient: bool) -> tuple[dict[str, Any], list[Exception]]:
    """A composed configuration in plain values.

    Args:
        config: OmegaConf's.
        lenient: True when values outside the cluster section may stay as they are written.

    Returns:
        The values, and what could not be resolved.
    """
    from omegaconf import OmegaConf

    written = cast("dict[str, Any]", OmegaConf.to_container(config, resolve=False))
    wrong: list[Exception] = []
    found = {
        key: _section(config, key, value, wrong, lenient=lenient and key != "cluster") for key, value in written.items()
    }
    return found, wrong


def _section(config: Any, key: str, written: Any, wrong: list[Exception], *, lenient: bool) -> Any:
    """One section: as it is written where nothing in it is to be resolved, which is quick."""
    if not needs_resolving(written):
        return written
    from omegaconf.errors import OmegaConfBaseException

    try:
        return _plain(config[key], throw_on_missing=not lenient)
    except (OmegaConfBaseException, TypeError, ValueError, ArithmeticError) as error:
        if not lenient:
            wrong.append(error)
            return written
    return _leniently(config, key, written)


def _plain(value: Any, *, throw_on_missing: bool) -> Any:
    from omegaconf import OmegaConf

    if not OmegaConf.is_config(value):
        return value
    return OmegaConf.to_container(value, resolve=True, throw_on_missing=throw_on_missing)


def _leniently(parent: Any, key: Any, written: Any) -> Any:
    """Every value that can be resolved; the others as they are written."""
    from omegaconf.errors import OmegaConfBaseException

    if not needs_resolving(written):
        return written
    try:
        if isinstance(written, Mapping):
            inner = parent[key]
            return {name: _leniently(inner, name, value) for name, value in written.items()}
        if isinstance(written, list):
            inner = parent[key]
            return [_leniently(inner, index, value) for index, value in enumerate(written)]
        return _plain(parent[key], throw_on_missing=False)
    except (OmegaConfBaseException, TypeError, ValueError, ArithmeticError):
        return written


def needs_resolving(value: Any) -> bool:
    """True when something in a value is to be resolved, or is yet to be given."""
    if isinstance(value, str):
        return "${" in value or value == _MANDATORY
    if isinstance(value, Mapping):
        return any(map(needs_resolving, value.values()))
    return isinstance(value, list) and any(map(needs_resolving, value))
