"""What the API asks the controller to do; every verb either answers or raises a `RlarkError`."""

from __future__ import annotations

from typing import Protocol

from rlark.control.record import JsonObject, Submitted

__all__ = ["Commands", "JsonObject", "Submitted"]


class Commands(Protocol):
    """The controller's verbs, as plain values so that they cross a process."""

    def submit(
        self, text: str, *, idempotency_key: str | None = None, dry_run: bool = False, replace: bool = False
    ) -> Submitted:
        """Check, store and queue a Job given as YAML or JSON."""
        ...

    def preview(self, text: str, *, picture: bool = False) -> JsonObject:
        """Everything that would be decided; the form of contract `preview -o json`, and `exitCode`.

        With `picture`, and where components are placed, also `svg`: the placement map.
        """
        ...

    def put(self, name: str, text: str) -> JsonObject:
        """Replace what is written of a Job, given as YAML or JSON; `spec.stopped` stops or starts it."""
        ...

    def patch(self, name: str, change: JsonObject) -> JsonObject:
        """Merge-patch a Job; `{"spec": {"stopped": true}}` stops it."""
        ...

    def stop(self, name: str) -> JsonObject:
        """Stop a Job; stopping twice is harmless."""
        ...

    def start(self, name: str) -> JsonObject:
        """Start an ended Job again: a new attempt."""
        ...

    def restart(self, name: str) -> JsonObject:
        """Stop and start."""
        ...

    def delete(self, name: str) -> None:
        """Remove an ended Job and its folder; a running one is stopped first."""
        ...

    def tensorboard(self, name: str, prefix: str) -> JsonObject:
        """The Job's TensorBoard, started where none runs: `{"port", "process": {"pid", "starttime"}, "ready"}`."""
        ...

    def patch_node(self, name: str, change: JsonObject) -> JsonObject:
        """Cordon (`{"spec": {"unschedulable": true}}`) or label a node."""
        ...

    def ready(self) -> JsonObject:
        """`{"ready": bool, "reason": str}`: can a Job be taken now."""
        ...
