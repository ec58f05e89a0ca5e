"""The waiting line in motion: asks the pure queue whose turn it is, and lets those Jobs start."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from rlark.control.attempts import RETRY_S, Attempts
from rlark.control.capacity import holding
from rlark.control.ledger import Ledger
from rlark.control.queue import Turn, Waiting, turns
from rlark.control.record import Event, JobRecord, Kind
from rlark.host.clock import Clock
from rlark.plan.node import Inventory
from rlark.spec.status import ConditionType

WAITING = "Waiting"
SeenBy = Callable[[Iterable[JobRecord]], Inventory]
"""The nodes, with what these records' leases leave free."""


class Line:
    """Looks at the queue only when something changed, or when the cluster refused and may do so no longer."""

    def __init__(self, ledger: Ledger, attempts: Attempts, clock: Clock) -> None:
        """Start with a queue that has to be looked at."""
        self._ledger, self._attempts, self._clock = ledger, attempts, clock
        self._dirty = True
        self._refused: dict[str, str] = {}
        self._retry_at = self._not_before = 0.0
        self._written: list[Turn] | None = None

    def changed(self) -> None:
        """Something happened that may let a Job start."""
        self._dirty = True

    def advance(self, records: Sequence[JobRecord], inventory: SeenBy) -> list[JobRecord]:
        """Start every Job whose turn it is; store the others' places and reasons.

        Args:
            records: every active Job.
            inventory: the nodes.

        Returns:
            The records that changed. After an exception that may be any of them, and the queue is looked at again.
        """
        time = self._clock.monotonic()
        if time < self._not_before or not (self._dirty or (self._refused and time >= self._retry_at)):
            return []
        now = {record.uid: record for record in records}
        before = {record.uid: record.seq for record in records}
        self._dirty, self._refused = False, {}
        try:
            line = self._start_ready(now, inventory)
            self._write(line)
            self._say_why(now, line)
        except Exception:
            self._dirty, self._not_before = True, time + RETRY_S
            raise
        return [record for uid, record in now.items() if record.seq != before[uid]]

    def _start_ready(self, now: dict[str, JobRecord], inventory: SeenBy) -> list[Turn]:
        """One start at a time, because what one Job takes decides about the next."""
        while True:
            line = self._look(now.values(), inventory)
            turn = next((turn for turn in line if turn.ready), None)
            if turn is None:
                return line
            now[turn.uid], reason = self._attempts.launch(now[turn.uid])
            if reason:
                self._refused[turn.uid] = reason
                self._retry_at = self._clock.monotonic() + RETRY_S

    def _look(self, records: Iterable[JobRecord], inventory: SeenBy) -> list[Turn]:
        known = list(records)
        waiting = [_waiting(record) for record in known if record.queued]
        if not waiting:
            return []
        held = [hold for record in known if (hold := holding(record))]
        return turns(waiting, held, inventory(known), self._refused)

    def _write(self, line: list[Turn]) -> None:
        if line != self._written:
            self._ledger.write_queue(line)
            self._written = line

    def _say_why(self, now: dict[str, JobRecord], line: list[Turn]) -> None:
        """The first reason to wait becomes an event; later ones stand in the queue only."""
        for turn in line:
            record = now[turn.uid]
            if _condition_reason(record) != WAITING:
                event = Event(
                    kind=Kind.WAITING,
                    time=self._clock.now(),
                    attempt=record.attempt,
                    reason=WAITING,
                    message=turn.reason,
                )
                now[turn.uid] = self._ledger.write(record, [event])


def _waiting(record: JobRecord) -> Waiting:
    wanted = record.wanted
    return Waiting(
        uid=record.uid,
        job=record.name,
        node=wanted.node,
        ask=wanted.ask,
        priority=wanted.priority,
        seq=record.queued_seq,
        ending=record.lease is not None,
    )


def _condition_reason(record: JobRecord) -> str:
    return next((c.reason for c in record.status.conditions if c.type is ConditionType.QUEUED), "")
