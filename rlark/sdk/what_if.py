"""When a Job would start if it were submitted now: pure, by the rules of the queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rlark.plan.node import Node
from rlark.plan.plan import Plan
from rlark.spec.quantity import spell_bytes

if TYPE_CHECKING:
    from rlark.sdk.transport import JsonObject


def what_if(plan: Plan, node: Node, priority: int, queue: Sequence[JsonObject]) -> JsonObject:
    """Where a Job would stand.

    First in, first out within a priority, and nothing overtakes a Job that waits for the same node.

    Args:
        plan: of the Job.
        node: where it would run, with what is free there.
        priority: the Job's.
        queue: the waiting Jobs, `{job, position, reason, priority}`.

    Returns:
        `{job, startsNow, position, reason}`; position 0 where it would not wait.
    """
    ahead = [str(item["job"]) for item in queue if item["priority"] >= priority]
    reason = f"behind {', '.join(ahead)}" if ahead else _lack(plan, node)
    position = len(ahead) + 1 if reason else 0
    return {"job": plan.job, "startsNow": not reason, "position": position, "reason": reason}


def _lack(plan: Plan, node: Node) -> str:
    """What is busy that the Job asks for; empty when all of it is free."""
    ask = plan.ask
    if node.free_gpus is not None and ask.gpus > node.free_gpus:
        held = ", ".join(f"{count} by {job}" for job, count in sorted(node.holders.items()))
        return f"asks for {ask.gpus} GPUs, {node.free_gpus} of {node.gpus} are free ({held or 'holders unknown'})"
    if node.free_cpus is not None and ask.cpus > node.free_cpus:
        return f"asks for {ask.cpus:g} CPUs, {node.free_cpus:g} of {node.cpus:g} are free"
    if node.memory and node.free_memory is not None and ask.memory > node.free_memory:
        return f"asks for {spell_bytes(ask.memory)}, {spell_bytes(node.free_memory)} are free"
    return ""
