"""One attempt after the other: leased, laid down, started, watched, and given back with proof."""

from __future__ import annotations

import errno
import json
import logging
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from pydantic import JsonValue

from rlark.cluster.base import Busy, Cluster, Observation
from rlark.control.ledger import Ledger
from rlark.control.reconcile import OUTCOME, ending, reconcile, survivors_event
from rlark.control.record import Event, JobRecord, Kind
from rlark.errors import ClusterError, PlacementError, RlarkError
from rlark.folder import Home, JobFolder, append_line, read_lines, write_json, write_text
from rlark.host.clock import Clock
from rlark.plan.node import Lease, name_gpus

log = logging.getLogger(__name__)
LINGER_S = 10.0
"""After its Outcome a worker may take so long to be gone; then it is killed."""
RETRY_S = 1.0
"""Between tries of something that the cluster refused."""
START_S = 60.0
"""How long the start of a worker is tried while the cluster does not answer."""
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass
class _Memory:
    """What need not survive a restart of the controller: when to try again, and what was said already."""

    start_at: float = 0.0
    release_at: float = 0.0
    since: float | None = None
    survivors: tuple[str, ...] = ()
    stop_due: float | None = None
    copied: int | None = None
    killed: bool = False


@dataclass
class Attempts:
    """Drives attempts on a cluster; every method gives the record after what it did."""

    home: Home
    cluster: Cluster
    ledger: Ledger
    clock: Clock
    _memory: dict[str, _Memory] = field(default_factory=dict)

    # ---- beginning

    def launch(self, record: JobRecord) -> tuple[JobRecord, str]:
        """Lease and start the next attempt of a queued Job.

        Returns:
            The record, and why it must wait; empty when it does not.
        """
        attempt = record.attempt + 1
        try:
            lease = self.cluster.lease(record.name, attempt, record.wanted.node, record.wanted.ask)
        except PlacementError as error:
            return self._fail(record, "CannotPlace", error.message), ""
        except ClusterError as error:
            return record, error.message
        if isinstance(lease, Busy):
            return record, lease.reason
        folder = self.home.job(record.name)
        aside = self._set_aside(record, folder) if record.attempt == 0 else []
        record = self.ledger.write(record, [self._leased(lease), *aside])
        self._about(record).since = self.clock.monotonic()
        return self.start(record), ""

    def start(self, record: JobRecord) -> JobRecord:
        """Write the folder and start the worker of a lease; tried again while the cluster does not answer."""
        lease, about = record.lease, self._about(record)
        if lease is None or self.clock.monotonic() < about.start_at:
            return record
        folder = self.home.job(record.name)
        try:
            self._lay_down(record, folder, lease)
        except OSError as error:
            return self._unwritable(record, folder, error)
        try:
            handle = self.cluster.start(lease, folder, record.wanted.grace_s)
        except RlarkError as error:
            return self._not_started(record, error)
        message = f"the worker of attempt {lease.attempt} was started on node {lease.node}"
        data: dict[str, JsonValue] = {"handle": asdict(handle)}
        self._forget(record)
        return self.ledger.write(record, [self._event(record, Kind.LAUNCHED, "Launched", message, data)])

    # ---- while it runs

    def watch(self, record: JobRecord) -> JobRecord:
        """Take in what the worker reports, and give back what an ended attempt holds."""
        try:
            if record.launching:
                return self.start(record)
            if record.handle and not record.ended and record.running:
                record = self._observe(record)
            if record.lease and not record.launching and not record.running:
                record = self._release(record)
        except ClusterError as error:
            log.warning("job %s: %s", record.name, error)
        return record

    def stop(self, record: JobRecord) -> None:
        """Ask the worker to end; asked again later when the cluster does not answer now."""
        if record.handle is None:
            return
        about = self._about(record)
        grace = 0.0 if record.stop_forced_at else record.wanted.grace_s
        try:
            self.cluster.stop(record.handle, grace)
            about.stop_due = None
        except ClusterError as error:
            log.warning("job %s: the stop did not arrive: %s", record.name, error)
            about.stop_due = self.clock.monotonic() + RETRY_S

    def adopt(self, record: JobRecord, held: list[Lease]) -> JobRecord:
        """Take over a Job that an earlier controller left: its lease may be gone, its stop unsent."""
        lease = record.lease
        if record.launching and lease and all(other.key != lease.key for other in held):
            event = self._event(record, Kind.RELEASED, "LeaseLost", "the lease went with the cluster; it queues again")
            return self.ledger.write(record, [event])
        if record.stop_asked_at and record.running:
            self.stop(record)
        return record

    def forget(self, record: JobRecord) -> None:
        """Drop what is remembered of a Job that is done with."""
        self._memory.pop(record.uid, None)

    def copy_events(self, record: JobRecord) -> bool:
        """Bring `events.jsonl` of the folder up to the ledger; it is a copy, so a full disk is only logged.

        Returns:
            False when it has to be tried again.
        """
        if record.attempt == 0 or not self.home.job(record.name).root.is_dir():
            return True
        folder, about = self.home.job(record.name), self._about(record)
        try:
            if about.copied is None:
                about.copied = max((_seq(line) for line, _ in read_lines(folder.events)), default=0)
            for event in self.ledger.history(record.uid, about.copied):
                append_line(folder.events, event.record().to_json())
                about.copied = event.seq
        except (OSError, ValueError) as error:
            log.warning("job %s: events.jsonl was not written: %s", record.name, error)
        return about.copied == record.seq

    # ---- parts

    def _observe(self, record: JobRecord) -> JobRecord:
        handle, about = record.handle, self._about(record)
        assert handle is not None
        if about.stop_due is not None and self.clock.monotonic() >= about.stop_due:
            self.stop(record)
        seen = self.cluster.observe(handle, record.reports)
        if not seen.alive and all(report.type != OUTCOME for report in seen.reports):
            # Its last words may have been written between the look at the file and the look at the process.
            last = self.cluster.observe(handle, max([record.reports, *(r.n for r in seen.reports)]))
            seen = replace(seen, reports=seen.reports + last.reports, reason=seen.reason or last.reason)
        events = reconcile(record, seen, self.clock.now())
        if not events:
            return record
        record = self.ledger.write(record, events)
        if events[-1].kind is Kind.STOP_FORCED:
            self.stop(record)
        if not record.running:
            self._note_alive(record, seen)
        return record

    def _note_alive(self, record: JobRecord, seen: Observation) -> None:
        about = self._about(record)
        about.since = self.clock.monotonic() if seen.alive else None

    def _release(self, record: JobRecord) -> JobRecord:
        """Give the lease back once the worker is gone; what cannot be ended is named, and the lease kept."""
        lease, about, now = record.lease, self._about(record), self.clock.monotonic()
        assert lease is not None
        if now < about.release_at:
            return record
        if record.handle and self._lingers(record, about, now):
            return record
        about.release_at = now + RETRY_S
        released = self.cluster.release(lease)
        if released.clean:
            message = f"attempt {lease.attempt} gave its capacity on node {lease.node} back"
            record = self.ledger.write(record, [self._event(record, Kind.RELEASED, "Released", message)])
            copied = about.copied
            self._forget(record)
            self._about(record).copied = copied
            return record
        if released.survivors == about.survivors:
            return record
        about.survivors = released.survivors
        return self.ledger.write(record, [survivors_event(record, released.survivors, self.clock.now())])

    def _lingers(self, record: JobRecord, about: _Memory, now: float) -> bool:
        """True while the worker of an ended attempt is still on its way out."""
        assert record.handle is not None
        if not self.cluster.observe(record.handle, record.reports).alive:
            return False
        about.since = now if about.since is None else about.since
        if now < about.since + LINGER_S:
            return True
        if not about.killed:
            about.killed = True
            self.cluster.stop(record.handle, 0.0)
            about.since = now
            return True
        return False

    def _leased(self, lease: Lease) -> Event:
        ids, faked = [device.id for device in lease.devices], any(device.faked for device in lease.devices)
        gpus = name_gpus(ids, faked=faked) if ids else "no GPU"
        cpus = f"{lease.cpus:g} CPU{'' if lease.cpus == 1 else 's'}"
        return Event(
            kind=Kind.LEASED,
            time=self.clock.now(),
            attempt=lease.attempt,
            reason="Leased",
            message=f"{cpus} and {gpus} of node {lease.node}",
            data={"lease": lease.model_dump(mode="json", by_alias=True)},
        )

    def _lay_down(self, record: JobRecord, folder: JobFolder, lease: Lease) -> None:
        texts = self.ledger.texts(record.name)
        folder.create()
        write_text(folder.job, texts.yaml)
        write_json(folder.plan, json.loads(texts.plan.model_dump_json(by_alias=True)))
        write_json(folder.lease, lease.model_copy(update={"retry": record.failures}).to_json())

    def _set_aside(self, record: JobRecord, folder: JobFolder) -> list[Event]:
        """Move away what an unknown Job of the same name left, so that the two are never mixed."""
        if not folder.root.exists():
            return []
        other = folder.root.with_name(f".{record.name}.before-{record.uid[:8]}")
        try:
            folder.root.rename(other)
        except OSError as error:
            log.warning("job %s: its folder is in use: %s", record.name, error)
            return []
        message = f"the folder of an earlier job of this name, which the ledger does not know, now is {other}"
        return [self._event(record, Kind.NOTED, "FolderSetAside", message, warning=True)]

    def _unwritable(self, record: JobRecord, folder: JobFolder, error: OSError) -> JobRecord:
        full = error.errno in _FULL
        advice = "free some space, then `rlark start` it" if full else "check the folder's owner and mode"
        message = f"{folder.root} cannot be written: {error.strerror or error}; {advice}"
        return self._fail(record, "DiskFull" if full else "FolderNotWritable", message)

    def _not_started(self, record: JobRecord, error: RlarkError) -> JobRecord:
        about, now = self._about(record), self.clock.monotonic()
        about.since = now if about.since is None else about.since
        if isinstance(error, ClusterError) and now < about.since + START_S:
            about.start_at = now + RETRY_S
            log.warning("job %s: the worker was not started yet: %s", record.name, error)
            return record
        return self._fail(record, "StartFailed", f"the worker was not started: {error.message}")

    def _fail(self, record: JobRecord, reason: str, message: str) -> JobRecord:
        events = ending(record, Kind.FAILED, reason, message, time=self.clock.now())
        self._forget(record)
        return self.watch(self.ledger.write(record, events))

    def _event(
        self,
        record: JobRecord,
        kind: Kind,
        reason: str,
        message: str,
        data: dict[str, Any] | None = None,
        *,
        warning: bool = False,
    ) -> Event:
        return Event(
            kind=kind,
            time=self.clock.now(),
            attempt=record.attempt,
            type="Warning" if warning else "Normal",
            reason=reason,
            message=message,
            data=data or {},
        )

    def _about(self, record: JobRecord) -> _Memory:
        return self._memory.setdefault(record.uid, _Memory())

    def _forget(self, record: JobRecord) -> None:
        """Begin a new chapter of a Job; how far its events were copied is kept."""
        copied = self._about(record).copied
        self._memory[record.uid] = _Memory(copied=copied)


def _seq(line: dict[str, object]) -> int:
    seq = line.get("seq")
    return seq if isinstance(seq, int) else 0
