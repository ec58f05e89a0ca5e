"""Reading the ledger: what every answer of the API is made of. No controller is needed for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import RowMapping, Select, and_, func, select

from rlark.control import tables
from rlark.control.capacity import dressed, node_json
from rlark.control.record import Event, JobRecord, JsonObject
from rlark.errors import NotFound, UsageError
from rlark.folder import Home
from rlark.plan.node import Inventory, Lease, Node
from rlark.plan.plan import Plan
from rlark.spec.status import EventRecord, JobStatus, QueueStatus

Labels = Callable[[Mapping[str, str]], bool]
"""True for the labels that are wanted."""


@dataclass(frozen=True)
class Texts:
    """What is written of a Job, beside its record.

    Attributes:
        yaml: the canonical YAML.
        body: the same as a JSON object, without server-owned fields.
        plan: all that was decided.
    """

    yaml: str
    body: JsonObject
    plan: Plan


@dataclass(frozen=True)
class Standing:
    """Where a Job stands, for those who follow it.

    Attributes:
        uid: changes when the name is used again.
        seq: the last event of the Job.
        status: without progress, which stands in the job folder.
    """

    uid: str
    seq: int
    status: JobStatus


@dataclass(frozen=True)
class Change:
    """A Job that changed, or went away.

    Attributes:
        seq: the ledger's order; go on behind it.
        name: the Job's name.
        job: the Job now; None when it was deleted.
    """

    seq: int
    name: str
    job: JsonObject | None


class LedgerReader:
    """Reads the ledger; never writes. Safe to use from several threads and processes at once."""

    def __init__(self, home: Home, store: str | None = None, *, create: bool = False) -> None:
        """Connect.

        Args:
            home: the state directory.
            store: an SQLAlchemy URL; SQLite in the state directory by default.
            create: True only for the writer.
        """
        self._url = tables.store_url(home, store)
        self._engine = tables.open_store(self._url, create=create)

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    # ---- Jobs

    def job(self, name: str) -> JsonObject:
        """The Job as `GET .../jobs/{name}` shows it.

        Raises:
            NotFound: there is none of that name.
        """
        row = self._row(tables.jobs.c.name == name)
        if row is None:
            raise _no_job(name)
        return _wire(row, self._places())

    def jobs(
        self, *, phases: Sequence[str] = (), labels: Labels | None = None, limit: int = 500, before: int | None = None
    ) -> tuple[list[JsonObject], int | None]:
        """Jobs, the newest first.

        Args:
            phases: only those; empty for all.
            labels: which labels are wanted.
            limit: how many at most.
            before: the token of the page before.

        Returns:
            The Jobs, and the token of the next page where there is one.
        """
        c = tables.jobs.c
        query = select(tables.jobs).order_by(c.number.desc())
        if phases:
            query = query.where(c.phase.in_(list(phases)))
        if before is not None:
            query = query.where(c.number < before)
        found: list[JsonObject] = []
        last = 0
        places = self._places()
        for row in self._pages(query):
            job = _wire(row, places)
            if labels and not labels(job["metadata"].get("labels") or {}):
                continue
            if len(found) == limit:
                return found, last
            found.append(job)
            last = row["number"]
        return found, None

    def record(self, name: str) -> JobRecord | None:
        """The record of a Job; None where there is none."""
        row = self._row(tables.jobs.c.name == name)
        return JobRecord.model_validate_json(row["record"]) if row else None

    def standing(self, name: str) -> Standing:
        """Where a Job stands.

        Raises:
            NotFound: there is none of that name.
        """
        record = self.record(name)
        if record is None:
            raise _no_job(name)
        place = self._places().get(record.uid) if record.queued else None
        queue = QueueStatus.model_validate(place) if place else None
        return Standing(record.uid, record.seq, record.status.model_copy(update={"queue": queue}))

    def seq(self, name: str) -> int:
        """The number of a Job's last event; 0 where there is no such Job. The cheapest question there is."""
        query = select(tables.jobs.c.seq).where(tables.jobs.c.name == name)
        return int(self._scalar(query) or 0)

    def texts(self, name: str) -> Texts:
        """What is written of a Job.

        Raises:
            NotFound: there is none of that name.
        """
        row = self._row(tables.jobs.c.name == name)
        if row is None:
            raise _no_job(name)
        return Texts(row["yaml"], json.loads(row["body"]), Plan.model_validate_json(row["plan"]))

    def active(self) -> list[JobRecord]:
        """The Jobs that the controller has something to do for, the oldest first."""
        c = tables.jobs.c
        rows = self._rows(select(c.record).where(c.active).order_by(c.number))
        return [JobRecord.model_validate_json(row["record"]) for row in rows]

    def volumes(self) -> dict[str, list[str]]:
        """The named folders that each Job mounts, by the Job's uid; Jobs without any are left out."""
        c = tables.jobs.c
        rows = self._rows(select(c.uid, c.plan).where(c.plan.like('%"volume":%')))
        mounts = {row["uid"]: json.loads(row["plan"]).get("mounts", []) for row in rows}
        found = {uid: [mount["volume"] for mount in listed if mount.get("volume")] for uid, listed in mounts.items()}
        return {uid: names for uid, names in found.items() if names}

    # ---- events

    def history(self, uid: str, after: int = 0) -> list[Event]:
        """Every event of a Job behind a number, whole enough to rebuild its record."""
        c = tables.events.c
        query = select(c.seq, c.body).where(and_(c.uid == uid, c.seq > after)).order_by(c.seq)
        return [_event(row) for row in self._rows(query)]

    def events(self, name: str, after: int = 0) -> list[EventRecord]:
        """A Job's events as users see them.

        Raises:
            NotFound: there is none of that name.
        """
        return [event.record() for event in self.history(self.standing(name).uid, after)]

    def last(self) -> int:
        """The number of the last event of all."""
        return int(self._scalar(select(func.max(tables.events.c.seq))) or 0)

    def changes(self, after: int, limit: int = 200) -> list[Change]:
        """The Jobs that changed behind a number, each once, and those that went away; the earliest first."""
        c = tables.events.c
        latest = func.max(c.seq).label("seq")
        changed = select(c.uid, c.name, latest).where(c.seq > after).group_by(c.uid, c.name)
        rows = self._rows(changed.order_by("seq").limit(limit))
        places = self._places()
        found = []
        for row in rows:
            job = self._row(tables.jobs.c.uid == row["uid"])
            found.append(Change(row["seq"], row["name"], _wire(job, places) if job else None))
        return found

    # ---- nodes and the queue

    def inventory(self) -> Inventory:
        """The nodes as last seen, with what people set on them and what the ledger's leases leave free."""
        return dressed(self.seen(), self.overrides(), self.active())

    def seen(self) -> Inventory:
        """The nodes as the cluster showed them last."""
        rows = self._rows(select(tables.nodes).order_by(tables.nodes.c.name))
        return Inventory(nodes=[Node.model_validate_json(row["snapshot"]) for row in rows], source="ray")

    def nodes(self) -> list[JsonObject]:
        """The nodes on the wire, each with its leases."""
        leases = self.leases()
        return [node_json(node, [x for x in leases if x.node == node.name]) for node in self.inventory().nodes]

    def overrides(self) -> dict[str, tuple[dict[str, str | None], bool | None]]:
        """What people set: node -> its labels (None: taken away) and whether it is cordoned."""
        return {
            row["name"]: (json.loads(row["labels"]), row["unschedulable"])
            for row in self._rows(select(tables.overrides))
        }

    def leases(self) -> list[Lease]:
        """Every lease that the ledger knows of."""
        return [record.lease for record in self.active() if record.lease]

    def queue(self) -> list[JsonObject]:
        """The waiting Jobs in order: `{job, position, reason, priority}`."""
        c = tables.queue.c
        rows = self._rows(select(c.job, c.position, c.reason, c.priority).order_by(c.position))
        return [dict(row) for row in rows]

    def phases(self) -> dict[str, int]:
        """How many Jobs stand in each phase."""
        c = tables.jobs.c
        rows = self._rows(select(c.phase, func.count().label("jobs")).group_by(c.phase))
        return {row["phase"]: row["jobs"] for row in rows}

    # ---- the store

    def _places(self) -> dict[str, JsonObject]:
        c = tables.queue.c
        rows = self._rows(select(c.uid, c.position, c.reason))
        return {row["uid"]: {"position": row["position"], "reason": row["reason"]} for row in rows}

    def _row(self, where: Any) -> RowMapping | None:
        rows = self._rows(select(tables.jobs).where(where))
        return rows[0] if rows else None

    def _rows(self, query: Select[Any]) -> Sequence[RowMapping]:
        with tables.guarded(self._url), self._engine.connect() as connection:
            return connection.execute(query).mappings().all()

    def _scalar(self, query: Select[Any]) -> Any:
        with tables.guarded(self._url), self._engine.connect() as connection:
            return connection.execute(query).scalar()

    def _pages(self, query: Select[Any]) -> Iterable[RowMapping]:
        with tables.guarded(self._url), self._engine.connect() as connection:
            yield from connection.execution_options(yield_per=200).execute(query).mappings()


def _event(row: RowMapping) -> Event:
    return Event.model_validate_json(row["body"]).model_copy(update={"seq": row["seq"]})


def _wire(row: RowMapping, places: Mapping[str, JsonObject]) -> JsonObject:
    return wire(json.loads(row["body"]), json.loads(row["record"]), places.get(row["uid"]))


def wire(body: JsonObject, record: JsonObject, place: JsonObject | None = None) -> JsonObject:
    """A Job on the wire.

    Args:
        body: what is written of it, as a JSON object.
        record: its `JobRecord.to_json()`.
        place: `{position, reason}` in the queue; None where it does not wait.
    """
    status: JsonObject = {**record["status"], "queue": place}
    metadata = {
        **body.get("metadata", {}),
        "uid": record["uid"],
        "creationTimestamp": status["createdAt"],
        "generation": record["generation"],
    }
    spec = {**body.get("spec", {}), "stopped": record["stopped"]}
    return {**body, "metadata": metadata, "spec": spec, "status": status}


def _no_job(name: str) -> NotFound:
    return NotFound(f"there is no job {name!r}", hint="see the names with: rlark jobs")


def page_token(text: str | None) -> int | None:
    """The page that a `continue` token stands for.

    Raises:
        UsageError: it is none of ours.
    """
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise UsageError(
            f"continue={text!r} is no token of this API", hint="take it from the answer before, or leave it out"
        )
    return int(text)
