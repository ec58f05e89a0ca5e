"""Components that leave the device between their phases, so that others have room on it.

An iteration has two phases: in the rollout the Env and the Rollout compute, in the update the
Actor. With `actor.enable_offload`, `rollout.enable_offload` or `env.train.enable_offload` the runtime
has a component move away what it holds on its device while it has nothing to do there, and says in
the metrics how many bytes that moved.

Whoever tells another that its phase begins has left before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from rlark.runtime.component import Metrics

MOVED = "OffloadBytes"
"""How the names of those metrics end."""


class Offloads(Protocol):
    """A component that can leave its device."""

    def offload(self) -> int:
        """Move what it holds on the device to the host: how many bytes; 0 where it is on the host already.

        What it gave before stays as it is: weights, a step, a decision.
        """
        ...

    def onload(self) -> int:
        """Move it back, the same to the byte: how many bytes."""
        ...


class Presence:
    """Whether one component is on its device, and what it moved.

    A component that is not to be offloaded is always there, and nothing is counted. One that has nothing
    to move, since it computes in the host's memory, is told of once in the log.
    """

    def __init__(self, name: str, component: Any, *, offloaded: bool) -> None:
        """It is there.

        Args:
            name: `actor`, `rollout` or `env`.
            component: it.
            offloaded: whether it is to leave between its phases.

        Raises:
            ValueError: it is, and it cannot.
        """
        if offloaded and not (hasattr(component, "offload") and hasattr(component, "onload")):
            raise ValueError(
                f"{_key(name)}: the {name} of this engine has nothing that could be moved off its device: write false"
            )
        self._name, self._component = name, component
        self.offloaded = offloaded
        self._there, self._moved, self._told = True, 0, False

    def leave(self) -> None:
        """Its phase is over."""
        if self.offloaded and self._there:
            moved = self._component.offload()
            self._moved += moved
            self._there = False
            if not moved and not self._told:
                logging.getLogger(self._name).warning(
                    "%s has no effect: this %s holds nothing on a device, it computes in the host's memory",
                    _key(self._name),
                    self._name,
                )
                self._told = True

    def come(self) -> None:
        """Its phase begins."""
        if self.offloaded and not self._there:
            self._moved += self._component.onload()
            self._there = True

    @contextmanager
    def present(self) -> Iterator[None]:
        """There for a moment, and afterwards where it was."""
        away = not self._there
        self.come()
        yield
        if away:
            self.leave()

    def metrics(self) -> Metrics:
        """Bytes moved, both ways, since the last call: `actorOffloadBytes` and the like."""
        if not self.offloaded:
            return {}
        moved, self._moved = self._moved, 0
        return {f"{self._name}{MOVED}": float(moved)}


def offloaded(config: Mapping[str, Any]) -> frozenset[str]:
    """The components that a configuration wants offloaded."""
    env = _section(config, "env")
    sections = {
        "actor": _section(config, "actor"),
        "rollout": _section(config, "rollout"),
        "env": _section(env, "train"),
    }
    return frozenset(name for name, section in sections.items() if section.get("enable_offload") is True)


def _key(name: str) -> str:
    return f"{'env.train' if name == 'env' else name}.enable_offload"


def _section(config: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = config.get(name)
    return section if isinstance(section, Mapping) else {}
