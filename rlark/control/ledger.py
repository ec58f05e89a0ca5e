"""The ledger: the truth about every Job, on disk. The only SQL that writes is here.

An event and the record that it changes are written in one transaction, and the record is made by
`phases.transition` alone; so the events suffice to rebuild every record, and an illegal transition
cannot be stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, insert, select, text, update

from rlark.control import tables
from rlark.control.phases import transition
from rlark.control.queue import Turn
from rlark.control.reader import Change, LedgerReader, Standing, Texts
from rlark.control.record import Event, JobRecord
from rlark.errors import ConflictError
from rlark.folder import Home
from rlark.host.clock import stamp
from rlark.plan.node import Node

__all__ = ["Change", "Key", "Ledger", "LedgerReader", "Standing", "Texts"]


@dataclass(frozen=True)
class Key:
    """A submission's Idempotency-Key.

    Attributes:
        key: what the client sent.
        request: SHA-256 of what was asked, so that one key never stands for two things.
    """

    key: str
    request: str


class Ledger(LedgerReader):
    """The one writer. Its owner holds a lock around every call; two writers exclude each other by event numbers."""

    def __init__(self, home: Home, store: str | None = None) -> None:
        """Open the ledger, make it where it is missing, and look whether it is whole.

        Args:
            home: the state directory.
            store: an SQLAlchemy URL; SQLite in the state directory by default.

        Raises:
            ClusterError: it does not open, or is damaged.
        """
        home.create()
        super().__init__(home, store, create=True)
        self._check()

    def write(
        self, record: JobRecord, events: Sequence[Event], *, texts: Texts | None = None, key: Key | None = None
    ) -> JobRecord:
        """Store events and the record they make, all or nothing.

        Args:
            record: before the events; a blank one for a new Job, whose `texts` are needed then.
            events: in order; the first of a new Job is `ACCEPTED`.
            texts: what is written of the Job, where that is new.
            key: the key of the submission that asks for it.

        Returns:
            The record after the events.

        Raises:
            IllegalTransition: the state machine does not allow one of them; nothing is written.
            ConflictError: the name was taken meanwhile, or another controller wrote to this Job.
            ClusterError: the store fails.
        """
        if not events:
            return record
        with tables.guarded(self._url), self._engine.begin() as connection:
            after = self._append(connection, record, events)
            if record.uid:
                self._update(connection, record, after, texts)
            elif texts is not None:
                self._create(connection, after, texts)
            if key is not None:
                connection.execute(insert(tables.keys).values(key=key.key, uid=after.uid, request=key.request))
        return after

    def delete(self, record: JobRecord, time: datetime) -> None:
        """Forget a Job: its text, record, events and keys; one row says that it was here."""
        jobs, events = tables.jobs, tables.events
        body = json.dumps({"time": stamp(time)})
        with tables.guarded(self._url), self._engine.begin() as connection:
            for table in (tables.keys, tables.queue, events, jobs):
                connection.execute(delete(table).where(table.c.uid == record.uid))
            row = {"uid": record.uid, "name": record.name, "kind": tables.DELETED, "body": body}
            connection.execute(insert(events).values(row))

    def submitted(self, key: str) -> tuple[str, str] | None:
        """The Job's name and the request's SHA-256 that an Idempotency-Key stands for."""
        jobs, keys = tables.jobs, tables.keys
        query = select(jobs.c.name, keys.c.request).join(keys, keys.c.uid == jobs.c.uid).where(keys.c.key == key)
        rows = self._rows(query)
        return (rows[0]["name"], rows[0]["request"]) if rows else None

    def remember(self, record: JobRecord, key: Key) -> None:
        """Let a key stand for a Job that was already there."""
        with tables.guarded(self._url), self._engine.begin() as connection:
            connection.execute(insert(tables.keys).values(key=key.key, uid=record.uid, request=key.request))

    def write_nodes(self, nodes: Sequence[Node]) -> None:
        """Store the nodes as they are seen now, in place of those before."""
        rows = [{"name": node.name, "snapshot": node.model_dump_json(by_alias=True)} for node in nodes]
        self._replace(tables.nodes, rows)

    def write_queue(self, turns: Sequence[Turn]) -> None:
        """Store the waiting Jobs in order, in place of those before."""
        rows = [
            {
                "uid": t.uid,
                "job": t.job,
                "position": t.position,
                "reason": t.reason or "starts now",
                "priority": t.priority,
            }
            for t in turns
        ]
        self._replace(tables.queue, rows)

    def write_override(self, name: str, labels: Mapping[str, str | None], unschedulable: bool | None) -> None:
        """Store what people set on a node, under its stable name."""
        overrides = tables.overrides
        with tables.guarded(self._url), self._engine.begin() as connection:
            connection.execute(delete(overrides).where(overrides.c.name == name))
            row = {"name": name, "labels": json.dumps(dict(labels)), "unschedulable": unschedulable}
            connection.execute(insert(overrides).values(row))

    # ---- the store

    def _append(self, connection: Connection, record: JobRecord, events: Sequence[Event]) -> JobRecord:
        for event in events:
            uid = record.uid or str(event.data.get("uid", ""))
            name = record.name or str(event.data.get("name", ""))
            row = {"uid": uid, "name": name, "kind": event.kind.value, "body": event.model_dump_json(by_alias=True)}
            written = connection.execute(insert(tables.events).values(row)).inserted_primary_key
            assert written is not None
            record = transition(record, event.model_copy(update={"seq": written[0]}))
        return record

    def _create(self, connection: Connection, record: JobRecord, texts: Texts) -> None:
        jobs = tables.jobs
        if connection.execute(select(jobs.c.uid).where(jobs.c.name == record.name)).first():
            raise ConflictError(f"the name {record.name!r} is taken")
        row = {"uid": record.uid, "name": record.name} | _columns(record) | _written(texts)
        connection.execute(insert(jobs).values(row))

    def _update(self, connection: Connection, before: JobRecord, after: JobRecord, texts: Texts | None) -> None:
        jobs = tables.jobs
        values = _columns(after) | (_written(texts) if texts else {})
        mine = (jobs.c.uid == before.uid) & (jobs.c.seq == before.seq)
        if connection.execute(update(jobs).where(mine).values(values)).rowcount != 1:
            raise ConflictError(
                f"another controller changed job {before.name!r}; this one must not go on",
                hint="two platforms share one state directory or store: stop one with `rlark down`",
            )

    def _replace(self, table: Any, rows: Sequence[Mapping[str, object]]) -> None:
        with tables.guarded(self._url), self._engine.begin() as connection:
            connection.execute(delete(table))
            if rows:
                connection.execute(insert(table), list(rows))

    def _check(self) -> None:
        if self._engine.dialect.name != "sqlite":
            return
        with tables.guarded(self._url), self._engine.connect() as connection:
            found = connection.execute(text("PRAGMA quick_check(1)")).scalar()
        if found != "ok":
            raise tables.damaged(self._url, str(found))


def _columns(record: JobRecord) -> dict[str, object]:
    return {
        "phase": record.status.phase.value,
        "active": record.active,
        "seq": record.seq,
        "record": record.model_dump_json(by_alias=True),
    }


def _written(texts: Texts) -> dict[str, object]:
    return {
        "yaml": texts.yaml,
        "body": json.dumps(texts.body, ensure_ascii=False),
        "plan": texts.plan.model_dump_json(by_alias=True),
    }
