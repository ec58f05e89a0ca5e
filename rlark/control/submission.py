"""A Job on its way in: checked once, in the words the ledger stores."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rlark.control.ledger import Key, Texts
from rlark.control.record import Event, JsonObject, Kind, Wanted
from rlark.errors import SpecError, UsageError
from rlark.folder import Home
from rlark.host.clock import new_id
from rlark.plan.facts import Facts
from rlark.plan.node import Inventory, Node
from rlark.preflight import Preview, is_here, look_elsewhere, look_here, preflight
from rlark.spec import load
from rlark.spec.finding import Finding, refusal
from rlark.spec.job import Job
from rlark.spec.yaml import parse

Check = Callable[[str, Inventory], Preview]
"""Checks the text of a Job against the nodes there are."""
LONGEST_KEY = 255
MOST_WARNINGS = 20
"""Warnings of a check that become events; a Job has a few."""


@dataclass(frozen=True)
class Submission:
    """A Job that may be stored.

    Attributes:
        name: its name.
        texts: what is written of it, and the plan.
        wanted: what the controller needs of that.
        stopped: True when it is to be stored and not started.
        warnings: what the check found and did not refuse.
    """

    name: str
    texts: Texts
    wanted: Wanted
    stopped: bool
    warnings: tuple[Finding, ...] = ()

    def same(self, body: Mapping[str, Any]) -> bool:
        """True when another body asks for the same run; `spec.stopped` is a wish, not a part of it."""
        return identity(self.texts.body) == identity(body)

    def accepted(self, time: datetime) -> Event:
        """The event that makes a new Job of it, under a fresh id."""
        reason, message = "Accepted", "checked, stored and queued"
        if self.stopped:
            reason, message = "Stopped", "stored and not started: spec.stopped is true"
        data = {
            "uid": new_id(),
            "name": self.name,
            "stopped": self.stopped,
            "wanted": self.wanted.model_dump(mode="json", by_alias=True),
        }
        return Event(kind=Kind.ACCEPTED, time=time, reason=reason, message=message, data=data)

    def noted(self, time: datetime, attempt: int = 0) -> list[Event]:
        """The warnings as events."""
        return [
            Event(
                kind=Kind.NOTED,
                time=time,
                attempt=attempt,
                type="Warning",
                reason=finding.code,
                message=f"{finding.path}: {finding.message}" if finding.path else finding.message,
            )
            for finding in self.warnings[:MOST_WARNINGS]
        ]


def checker(home: Home) -> Check:
    """The one preflight, looking at this machine with this state directory; relative paths are refused."""

    def check(text: str, inventory: Inventory) -> Preview:
        def look(job: Job, node: Node) -> Facts:
            here = not node.name or is_here(node, inventory)
            return look_here(job, node, home) if here else look_elsewhere(job, node)

        return preflight(load(text), inventory, look)

    return check


def accept(preview: Preview) -> Submission:
    """The Job of a preview without errors.

    Raises:
        SpecError: it has errors that no node could cure.
        PlacementError: it can never run on these nodes.
    """
    if preview.exit_code:
        raise refusal(preview.findings)
    if preview.job is None or preview.plan is None:
        raise SpecError("the Job could not be planned", findings=preview.findings)
    plan, job = preview.plan, preview.job
    components = {name: [rank.to_json() for rank in ranks] for name, ranks in plan.placement.items()}
    wanted = Wanted.model_validate(
        {
            "digest": preview.digest,
            "node": plan.node,
            "ask": plan.ask,
            "priority": job.spec.priority,
            "graceS": plan.grace_s,
            "backoffLimit": plan.backoff_limit,
            "expects": plan.expects,
            "fused": plan.fused if plan.engine and components else None,
            "placement": components,
        }
    )
    body = _plain(parse(preview.yaml).data)
    warnings = tuple(f for f in preview.findings if f.severity == "warning")
    return Submission(job.name, Texts(preview.yaml, body, plan), wanted, job.spec.stopped, warnings)


def identity(body: Mapping[str, Any]) -> JsonObject:
    """What makes a Job this Job: all that is written of it but `spec.stopped`."""
    spec = {key: value for key, value in (body.get("spec") or {}).items() if key != "stopped"}
    return {**body, "spec": spec}


def key_of(key: str | None, text: str) -> Key | None:
    """An Idempotency-Key with the fingerprint of its request; None where none was given.

    Raises:
        UsageError: it is empty, too long, or not printable.
    """
    if key is None:
        return None
    if not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise UsageError(f"an Idempotency-Key has 1 to {LONGEST_KEY} printable characters; this one has {len(key)}")
    return Key(key, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest())


def _plain(data: Any) -> JsonObject:
    """Plain JSON values, without the parser's own kinds of text."""
    plain: JsonObject = json.loads(json.dumps(data, ensure_ascii=False))
    return plain
