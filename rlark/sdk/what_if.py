"""When a Job would start if it were submitted now: pure, by the rules of the queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlark.spec.finding import Finding

if TYPE_CHECKING:
    from rlark.sdk.transport import JsonObject

WAITS = "RL220"
"""What the check tells of capacity that is not free now."""


def what_if(job: str, priority: int, findings: Sequence[Finding], queue: Sequence[JsonObject]) -> JsonObject:
    """Where a Job would stand.

    First in, first out within a priority, and nothing overtakes a Job that waits.

    Args:
        job: its name.
        priority: its priority.
        findings: of its check against the nodes as they are now.
        queue: the waiting Jobs, `{job, position, reason, priority}`.

    Returns:
        `{job, startsNow, position, reason}`; position 0 where it would not wait.
    """
    ahead = [str(item["job"]) for item in queue if item["priority"] >= priority]
    lacks = [finding.message for finding in findings if finding.code == WAITS]
    reason = f"behind {', '.join(ahead)}" if ahead else "; ".join(lacks)
    position = len(ahead) + 1 if reason else 0
    return {"job": job, "startsNow": not reason, "position": position, "reason": reason}
