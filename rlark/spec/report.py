"""One line of `worker.jsonl`: what the worker tells the platform."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Report:
    """One line that the worker wrote (`worker.jsonl`).

    Attributes:
        n: counted from 1 over the file; `observe(after=n)` gives what follows.
        attempt: the try it belongs to.
        time: ISO 8601, UTC.
        type: a `ConditionType`, or `Outcome` as the last of an attempt, or `Warning`.
        status: whether the condition holds.
        reason: one CamelCase word.
        message: a sentence.
        data: further facts: of `Placed` the ranks, of `Outcome` see `rlark.worker.life`.
    """

    n: int
    attempt: int
    time: str
    type: str
    status: bool = True
    reason: str = ""
    message: str = ""
    data: dict[str, object] = field(default_factory=dict)
