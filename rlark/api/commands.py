"""What the API asks the controller to do; every verb either answers or raises a `RlarkError`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class Submitted:
    """The answer to a submission.

    Attributes:
        job: the Job as `GET .../jobs/{name}` shows it.
        created: True for a new Job or a new attempt (201), False when it was already there (200).
    """

    job: JsonObject
    created: bool


class Commands(Protocol):
    """The controller's verbs, as plain values so that they cross a process."""

    def submit(
        self, text: str, *, idempotency_key: str | None = None, dry_run: bool = False, replace: bool = False
    ) -> Submitted:
        """Check, store and queue a Job given as YAML or JSON."""
        ...

    def preview(self, text: str) -> JsonObject:
        """Everything that would be decided; the form of contract `preview -o json`."""
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

    def patch_node(self, name: str, change: JsonObject) -> JsonObject:
        """Cordon (`{"spec": {"unschedulable": true}}`) or label a node."""
        ...

    def ready(self) -> JsonObject:
        """`{"ready": bool, "reason": str}`: can a Job be taken now."""
        ...
