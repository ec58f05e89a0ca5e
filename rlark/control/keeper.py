"""What keeps Jobs moving between commands: the active records, and the tick over them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path

from rlark.cluster.base import Cluster
from rlark.control.attempts import Attempts
from rlark.control.ledger import Ledger
from rlark.control.line import Line
from rlark.control.nodes import Nodes
from rlark.control.record import Event, JobRecord, Kind
from rlark.control.volumes import belongings
from rlark.errors import ClusterError, ConflictError, NotFound
from rlark.folder import Home
from rlark.host.clock import Clock
from rlark.host.remove import remove
from rlark.plan.node import Inventory

log = logging.getLogger(__name__)
PAUSE_S = 0.05
REMOVE_RETRY_S = 5.0
SWEEP_S = 30.0
"""Between looks for leases that no Job knows of."""


class Keeper:
    """The active Jobs, their attempts, the queue and the nodes, behind one lock.

    Attributes:
        lock: held by whoever changes anything.
        ledger: the truth on disk.
        nodes: the nodes there are.
        attempts: what drives one attempt.
    """

    def __init__(self, home: Home, cluster: Cluster, clock: Clock, store: str | None) -> None:
        """Open the ledger; the first `tick` brings it up to what the cluster shows."""
        self.lock = threading.RLock()
        self.ledger = Ledger(home, store)
        self.nodes = Nodes(cluster, self.ledger, clock)
        self.attempts = Attempts(home, cluster, self.ledger, clock)
        self._home, self._cluster, self._clock = home, cluster, clock
        self._line = Line(self.ledger, self.attempts, clock)
        self._records = {record.uid: record for record in self.ledger.active()}
        self._unsettled = set(self._records)
        self._adopted = False
        self._sweep_at = float("-inf")
        self._remove_at: dict[str, float] = {}
        self._told_kept: dict[str, str] = {}

    def tick(self) -> None:
        """Look at running Jobs, let the next ones start, keep the nodes fresh. Costs nothing when idle."""
        with self.lock:
            if self.nodes.refresh():
                self._line.changed()
            self._sweep()
            for record in list(self._records.values()):
                if record.lease or not record.queued:
                    self._watch(record)
            self.advance()

    @property
    def idle(self) -> bool:
        """True while no Job needs anything: only the nodes are looked at."""
        return not self._records and self._adopted

    def _watch(self, record: JobRecord) -> None:
        """Look after one Job; a fault there must not stand in the way of the others."""
        try:
            kept = self.keep(self.attempts.watch(record))
            if record.lease and not kept.lease:
                self.nodes.refresh(now=True)  # what was given back shows at once
        except ConflictError:
            raise  # another controller writes: this one must stop
        except Exception:
            log.exception("job %s cannot be looked after; the next tick tries again", record.name)
            self._read_again(record)

    def advance(self) -> None:
        """Let everything start whose turn it is, and let go of what is done with."""
        with self.lock:
            if self._adopted:
                self._advance()
            for uid in list(self._unsettled):
                self._settle(self._records[uid])

    def _advance(self) -> None:
        before = list(self._records.values())
        try:
            changed = self._line.advance(before, self.nodes.inventory)
        except ConflictError:
            raise
        except Exception:
            log.exception("the queue does not move; it is tried again")
            for record in before:
                self._read_again(record)
        else:
            for record in changed:
                self.keep(record)

    def _read_again(self, record: JobRecord) -> None:
        """Take a Job as the ledger has it: a fault may have come between what was written and what is remembered."""
        stored = self.ledger.record(record.name)
        if stored is not None and stored.uid == record.uid:
            self.keep(stored)

    def keep(self, record: JobRecord) -> JobRecord:
        """Remember a record that was just written."""
        old = self._records.get(record.uid)
        if old is None or old.seq != record.seq:
            self._line.changed()
            self._unsettled.add(record.uid)
        self._records[record.uid] = record
        return record

    def find(self, name: str) -> JobRecord:
        """The record of a Job.

        Raises:
            NotFound: there is none of that name.
        """
        record = self.ledger.record(name)
        if record is None:
            raise NotFound(f"there is no job {name!r}", hint="see the names with: rlark jobs")
        return record

    def inventory(self) -> Inventory:
        """The nodes with what is free now."""
        with self.lock:
            if self.nodes.refresh():
                self._line.changed()
            return self.nodes.inventory(self._records.values())

    def changed(self) -> None:
        """Something happened that may let a Job start."""
        self._line.changed()

    def wait_for(self, name: str, seconds: float, done: Callable[[JobRecord | None], bool]) -> JobRecord | None:
        """Tick until a Job is as wished, or the time is over.

        Args:
            name: the Job.
            seconds: the longest wait.
            done: says whether its record, None once it is deleted, is as wished.

        Returns:
            The record at the end.
        """
        end = self._clock.monotonic() + seconds
        while True:
            record = self.ledger.record(name)
            if done(record) or self._clock.monotonic() >= end:
                return record
            self._clock.sleep(PAUSE_S)
            self.tick()

    def _sweep(self) -> None:
        """Release leases that no Job knows of; the first time, take over the Jobs that an earlier controller left."""
        now = self._clock.monotonic()
        if now < self._sweep_at:
            return
        try:
            held = self._cluster.leases()
            known = {record.lease.key for record in self._records.values() if record.lease}
            for lease in held:
                if lease.key not in known:
                    log.warning("lease %s of job %s is nobody's: released", lease.key, lease.job)
                    self._cluster.release(lease)
        except ClusterError as error:
            log.warning("the leases cannot be looked at yet: %s", error)
            return
        self._sweep_at = now + SWEEP_S
        if not self._adopted:
            self._adopted = True
            for record in list(self._records.values()):
                self.keep(self.attempts.adopt(record, held))

    def _settle(self, record: JobRecord) -> None:
        """After a change: copy the events, and let a Job go that needs nothing more."""
        copied = self.attempts.copy_events(record)
        if record.deleting and record.ended and record.lease is None:
            if not self._remove(record):
                return
        elif record.active:
            if copied:
                self._unsettled.discard(record.uid)
            return
        self._unsettled.discard(record.uid)
        del self._records[record.uid]
        self.attempts.forget(record)
        self._line.changed()

    def _remove(self, record: JobRecord) -> bool:
        """Delete the folder and what else goes with the Job, then the Job; what a link leads to stays."""
        now = self._clock.monotonic()
        if now < self._remove_at.get(record.uid, 0.0):
            return False
        for path in belongings(record, self.ledger, self._home):
            try:
                remove(path)
            except OSError as error:
                self._remove_at[record.uid] = now + REMOVE_RETRY_S
                self._tell_kept(record, path, error)
                return False
        self._remove_at.pop(record.uid, None)
        self._told_kept.pop(record.uid, None)
        self.ledger.delete(record, self._clock.now())
        return True

    def _tell_kept(self, record: JobRecord, path: Path, error: OSError) -> None:
        """Say once what keeps a deleted Job from going."""
        message = (
            f"{path} cannot be removed: {error.filename or path}: {error.strerror or error}; "
            "remove it by hand or correct its permissions, and the job goes"
        )
        if self._told_kept.get(record.uid) == message:
            return
        self._told_kept[record.uid] = message
        log.warning("job %s: %s", record.name, message)
        event = Event(
            kind=Kind.NOTED,
            time=self._clock.now(),
            attempt=record.attempt,
            type="Warning",
            reason="NotRemoved",
            message=message,
        )
        self.keep(self.ledger.write(record, [event]))
