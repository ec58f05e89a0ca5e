"""The tables of the ledger, and how its store is opened."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

from sqlalchemy import (
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
)
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError

from rlark.errors import ClusterError, UsageError
from rlark.folder import Home

metadata = MetaData()

jobs = Table(
    "jobs",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("uid", String(64), nullable=False, unique=True),
    Column("name", String(63), nullable=False, unique=True),
    Column("phase", String(16), nullable=False),
    Column("active", Boolean, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("yaml", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("plan", Text, nullable=False),
    Column("record", Text, nullable=False),
    Index("jobs_phase", "phase"),
    Index("jobs_active", "active"),
    sqlite_autoincrement=True,
)
"""One row a Job: its canonical text, what was decided, and the record that its events make."""

events = Table(
    "events",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("uid", String(64), nullable=False),
    Column("name", String(63), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("body", Text, nullable=False),
    Index("events_uid", "uid", "seq"),
    sqlite_autoincrement=True,
)
"""Why things changed, in the one order of the ledger. A deleted Job leaves one row of kind `deleted`."""

keys = Table(
    "idempotency_keys",
    metadata,
    Column("key", String(255), primary_key=True),
    Column("uid", String(64), ForeignKey("jobs.uid", ondelete="CASCADE"), nullable=False),
    Column("request", String(64), nullable=False),
)
"""Which Job a submission's Idempotency-Key made, and the SHA-256 of what was asked."""

nodes = Table(
    "nodes",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("snapshot", Text, nullable=False),
)
"""The nodes as they were last seen."""

overrides = Table(
    "node_overrides",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("labels", Text, nullable=False),
    Column("unschedulable", Boolean, nullable=True),
)
"""What people set on a node, under its stable name: Ray's labels and ids change with every start."""

queue = Table(
    "queue",
    metadata,
    Column("uid", String(64), primary_key=True),
    Column("job", String(63), nullable=False),
    Column("position", Integer, nullable=False),
    Column("reason", Text, nullable=False),
    Column("priority", Integer, nullable=False),
)
"""The waiting Jobs as they were last ordered."""

DELETED = "deleted"
"""The kind of the row that a deleted Job leaves among the events."""


def store_url(home: Home, store: str | None = None) -> str:
    """The SQLAlchemy URL of the ledger: the given one, else SQLite in the state directory."""
    return store or f"sqlite:///{home.ledger}"


def open_store(url: str, *, create: bool) -> Engine:
    """Connect to the ledger.

    Args:
        url: an SQLAlchemy URL.
        create: True for the writer, which makes the tables where they are missing.

    Raises:
        UsageError: the URL cannot be read, or its driver is not installed.
        ClusterError: the store does not open, or is damaged.
    """
    try:
        address = make_url(url)
        sqlite = address.get_backend_name() == "sqlite"
        if sqlite and not create and address.database:
            # A plain SQLite address makes an empty file where there is none; a reader must not.
            existing = {"mode": "rw", "uri": "true"}
            address = address.set(database=f"file:{quote(address.database)}", query=existing)
        engine = create_engine(address)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        raise UsageError(
            f"the store {_shown(url)!r} cannot be used: {error}",
            hint="give an SQLAlchemy URL whose driver is installed",
        ) from error
    if sqlite and create and address.database not in (None, "", ":memory:"):
        with contextlib.suppress(OSError):  # SQLite tells what is wrong, and gives its other files the same mode
            os.close(os.open(str(address.database), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    if sqlite:
        event.listen(engine, "connect", _writer if create else _reader)
    if create:
        with guarded(url), engine.begin() as connection:
            if sqlite:  # one transaction: SQLite's driver would commit, and sync, each table by itself
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            metadata.create_all(connection)
    return engine


@contextmanager
def guarded(url: str) -> Iterator[None]:
    """Tell a failing store as a ClusterError that says which one, why, and what to do."""
    try:
        yield
    except DBAPIError as error:
        raise _told(url, str(error.orig)) from error
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise _told(url, str(error)) from error


def damaged(url: str, reason: str) -> ClusterError:
    """The error of a ledger that cannot be read any more."""
    return ClusterError(
        f"the ledger {_shown(url)} is damaged: {reason}",
        hint="stop with `rlark down`, move the file (with its -wal and -shm) away or restore a copy; "
        "a copy of each Job's events stands in its folder, events.jsonl",
    )


def _told(url: str, reason: str) -> ClusterError:
    if "malformed" in reason or "not a database" in reason:
        return damaged(url, reason)
    if "full" in reason or "readonly" in reason:
        return ClusterError(
            f"the ledger {_shown(url)} cannot be written: {reason}",
            hint="free some space on its disk, and check that its folder is writable",
        )
    if "no such table" in reason or "unable to open" in reason:
        return ClusterError(
            f"the ledger {_shown(url)} cannot be opened: {reason}",
            hint="start the platform with `rlark up`, and check that the state directory is writable",
        )
    return ClusterError(f"the ledger {_shown(url)} does not answer: {reason}", hint="see `rlark doctor`")


def _shown(url: str) -> str:
    try:
        parsed = make_url(url)
    except ArgumentError:
        return url
    return str(parsed.database) if parsed.get_backend_name() == "sqlite" else parsed.render_as_string()


def _writer(connection: Any, _: object) -> None:
    """WAL, so that readers never wait for the writer; FULL, so that what was answered survives a power cut."""
    connection.execute("PRAGMA busy_timeout=30000")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")


def _reader(connection: Any, _: object) -> None:
    connection.execute("PRAGMA busy_timeout=30000")
    connection.execute("PRAGMA query_only=ON")
