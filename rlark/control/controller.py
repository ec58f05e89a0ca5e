"""The controller: the verbs of `rlark.api.commands`.

It decides nothing itself: the checks, the state machine, the queue and the reconciliation are pure
functions beside it, and the keeper moves Jobs between commands. Readers never need it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Collection
from typing import Any

from rlark.cluster.base import Cluster
from rlark.control.change import merge, only_words, wish, without_stopped
from rlark.control.keeper import Keeper
from rlark.control.ledger import Key, Texts
from rlark.control.phases import transition
from rlark.control.reader import wire
from rlark.control.reconcile import ending
from rlark.control.record import Event, JobRecord, JsonObject, Kind, Submitted
from rlark.control.refusals import refuse_deleting, refuse_live, refuse_renaming, taken
from rlark.control.submission import Check, Submission, accept, checker, key_of
from rlark.control.tensorboard import TensorBoards, event_folder
from rlark.control.volumes import keeping
from rlark.errors import ConflictError
from rlark.folder import Home
from rlark.host.clock import Clock
from rlark.plan.picture import placement_svg

SETTLE_S = 5.0
"""How long a verb waits for the last processes of an ended Job before it says that it cannot go on."""


class Controller:
    """The one writer: keeps the ledger and the cluster in step. Every method may be called from any thread."""

    def __init__(
        self, home: Home, cluster: Cluster, clock: Clock, store: str | None = None, *, check: Check | None = None
    ) -> None:
        """Open the ledger and bring it up to what the cluster shows.

        Args:
            home: the state directory.
            cluster: where Jobs run.
            clock: time.
            store: an SQLAlchemy URL of the ledger; SQLite in the state directory by default.
            check: checks the text of a Job; the one preflight by default.

        Raises:
            ClusterError: the ledger does not open, or is damaged.
        """
        self._clock, self._check = clock, check or checker(home)
        self._submitting = threading.RLock()
        self._home, self._boards = home, TensorBoards(home, clock)
        self._keeper = Keeper(home, cluster, clock, store)
        self._ledger = self._keeper.ledger
        self.tick()

    @property
    def idle(self) -> bool:
        """True while no Job needs anything, so that the next tick may take its time."""
        return self._keeper.idle

    def tick(self) -> None:
        """Look at running Jobs, let the next ones start, keep the nodes fresh. Costs nothing when idle."""
        self._keeper.tick()
        self._boards.sweep()

    def close(self) -> None:
        """Let the ledger go; the Jobs run on."""
        self._boards.close()
        with self._keeper.lock:
            self._ledger.close()

    # ---- coming in

    def submit(
        self, text: str, *, idempotency_key: str | None = None, dry_run: bool = False, replace: bool = False
    ) -> Submitted:
        """Check, store and queue a Job given as YAML or JSON.

        Args:
            text: the Job.
            idempotency_key: submitting again with it gives the same Job.
            dry_run: check everything, store nothing.
            replace: delete an ended Job of that name first.

        Raises:
            SpecError: the Job has errors that no node could cure; with its findings.
            PlacementError: it can never run on these nodes; with its findings.
            ConflictError: the name is taken by another Job, or the key by another request.
        """
        key = key_of(idempotency_key, text)
        with self._submitting:
            if key and (known := self._replay(key)):
                return known
            submission = self._checked(text)
            if dry_run:
                return self._rehearse(submission, replace=replace)
            self._make_room(submission, replace=replace)
            with self._keeper.lock:
                return self._store(submission, key)

    def preview(self, text: str, *, picture: bool = False) -> JsonObject:
        """Everything that would be decided; the form of contract `preview -o json`, and `exitCode`.

        Args:
            text: the Job.
            picture: add `svg`, the placement map, where components are placed.
        """
        with self._submitting:
            preview = self._check(text, self._keeper.inventory())
        decided: JsonObject = preview.to_json() | {"exitCode": preview.exit_code}
        if picture and preview.plan and preview.node and preview.plan.placement:
            decided["svg"] = placement_svg(preview.plan, preview.node)
        return decided

    def put(self, name: str, text: str) -> JsonObject:
        """Replace what is written of a Job; `spec.stopped` stops it, or starts a stopped one.

        Raises:
            NotFound: there is no such Job.
            UsageError: the text names another Job.
            ConflictError: the Job runs, and more than labels, annotations and priority would change.
        """
        with self._submitting:
            self._keeper.find(name)
            submission = self._checked(text)
            record = self._rewrite(name, submission)
            if submission.stopped:
                return self.stop(name)
            return self.start(name) if record.ended and record.stopped else self._ledger.job(name)

    def patch(self, name: str, change: JsonObject) -> JsonObject:
        """Merge-patch a Job; `{"spec": {"stopped": true}}` stops it, false starts it.

        Raises:
            NotFound: there is no such Job.
            UsageError: the change cannot be read.
            ConflictError: the Job runs, and more than labels, annotations and priority would change.
        """
        stopped = wish(change)
        rest = without_stopped(change)
        with self._submitting:
            self._keeper.find(name)
            if rest:
                body = merge(self._ledger.texts(name).body, rest)
                self._rewrite(name, self._checked(json.dumps(body, ensure_ascii=False)))
            if stopped is None:
                return self._ledger.job(name)
            return self.stop(name) if stopped else self.start(name)

    # ---- moving

    def stop(self, name: str) -> JsonObject:
        """Stop a Job: a waiting one ends at once, a running one within its grace. Stopping twice is harmless.

        Raises:
            NotFound: there is no such Job.
        """
        with self._keeper.lock:
            self._stop(self._keeper.find(name))
            self._keeper.tick()
            return self._ledger.job(name)

    def start(self, name: str) -> JsonObject:
        """Start an ended Job again, a new attempt; one that is just stopping starts again when it has.

        Raises:
            NotFound: there is no such Job.
            ConflictError: it is being deleted.
            SpecError, PlacementError: it can no longer run on these nodes; with findings.
        """
        return self._start(name, "Started", "started again: a new attempt")

    def restart(self, name: str) -> JsonObject:
        """Stop and start: a new attempt.

        Raises:
            NotFound: there is no such Job.
            ConflictError: it is being deleted.
        """
        with self._keeper.lock:
            record = self._keeper.find(name)
            refuse_deleting(record)
            if record.running:
                self._ask_to_stop(record, again=True)
                self._keeper.tick()
                return self._ledger.job(name)
        return self._start(name, "Restarted", "a restart was asked for")

    def delete(self, name: str, *, keep: Collection[str] = ()) -> None:
        """Remove an ended Job, its folder and the volumes that no other Job names; a running one is stopped first.

        Args:
            name: the Job.
            keep: volumes that stay all the same.

        Raises:
            NotFound: there is no such Job.
        """
        with self._keeper.lock:
            record = self._keeper.find(name)
            was_running = record.running
            self._boards.end(name)
            if not record.deleting:
                record = self._stop(record)
                asked = self._event(record, Kind.DELETE_REQUESTED, "Deleted", "it is to go", keeping(keep))
                record = self._write(record, [asked])
            self._keeper.tick()
        if not was_running:
            self._keeper.wait_for(name, SETTLE_S, lambda left: left is None or left.uid != record.uid)

    def tensorboard(self, name: str, prefix: str) -> JsonObject:
        """The Job's TensorBoard, started where none runs: `{"port", "process": {"pid", "starttime"}, "ready"}`.

        Args:
            name: the Job.
            prefix: the path under which it is asked, without a slash at its end.

        Raises:
            NotFound: there is no such Job.
            ConflictError: it is being deleted.
            ClusterError: TensorBoard is not installed, or does not start.
        """
        with self._keeper.lock:  # else one could be started for a Job that is deleted meanwhile
            record = self._keeper.find(name)
            refuse_deleting(record)
            events = event_folder(self._home, self._ledger.texts(name).plan)
            return self._boards.open(name, record.uid, events, prefix)

    def patch_node(self, name: str, change: JsonObject) -> JsonObject:
        """Cordon (`{"spec": {"unschedulable": true}}`) or label a node.

        Raises:
            NotFound: there is no such node.
            UsageError: the change asks for something else.
        """
        with self._keeper.lock:
            self._keeper.nodes.patch(name, change)
            self._keeper.changed()
            self._keeper.tick()
            return next(node for node in self._ledger.nodes() if node["name"] == name)

    def ready(self) -> JsonObject:
        """`{"ready": bool, "reason": str}`: can a Job be taken now."""
        inventory = self._keeper.inventory()
        reason = self._keeper.nodes.trouble
        if not reason and not any(node.usable for node in inventory.nodes):
            reason = "no node is online and open for Jobs"
        return {"ready": not reason, "reason": reason}

    # ---- parts of coming in

    def _checked(self, text: str) -> Submission:
        return accept(self._check(text, self._keeper.inventory()))

    def _replay(self, key: Key) -> Submitted | None:
        with self._keeper.lock:
            known = self._ledger.submitted(key.key)
            if known is None:
                return None
            name, request = known
            if request != key.request:
                raise ConflictError(
                    f"the Idempotency-Key {key.key!r} already stands for another request, which made job {name!r}",
                    hint="use a new key for each submission",
                )
            return Submitted(self._ledger.job(name), created=False)

    def _make_room(self, submission: Submission, *, replace: bool) -> None:
        """Refuse a name that is taken; with `replace`, delete an ended Job of that name."""
        name = submission.name
        record = self._ledger.record(name)
        if record and record.deleting:
            record = self._keeper.wait_for(name, SETTLE_S, lambda left: left is None)
        if record is None:
            return
        refuse_deleting(record)
        if replace:
            refuse_live(record)
            self.delete(name, keep={mount.volume for mount in submission.texts.plan.mounts if mount.volume})
            if left := self._ledger.record(name):
                refuse_deleting(left)
        elif not submission.same(self._ledger.texts(name).body):
            raise taken(record)

    def _store(self, submission: Submission, key: Key | None) -> Submitted:
        record, created = self._ledger.record(submission.name), True
        if record is None:
            record = self._write_new(submission, key)
        elif record.ended and not submission.stopped and not record.deleting:
            record = self._requeue(record, submission, "Submitted", "submitted again: a new attempt", key=key)
        else:
            refuse_deleting(record)
            created = False
            if key:
                self._ledger.remember(record, key)
        self._keeper.keep(record)
        self._keeper.advance()
        return Submitted(self._ledger.job(submission.name), created)

    def _write_new(self, submission: Submission, key: Key | None) -> JobRecord:
        events = [submission.accepted(self._clock.now()), *submission.noted(self._clock.now())]
        return self._ledger.write(JobRecord(), events, texts=submission.texts, key=key)

    def _rehearse(self, submission: Submission, *, replace: bool) -> Submitted:
        """What a submission would answer."""
        record = self._ledger.record(submission.name)
        if record and replace:
            refuse_live(record)
        elif record and not submission.same(self._ledger.texts(record.name).body):
            raise taken(record)
        made = transition(JobRecord(), submission.accepted(self._clock.now()))
        return Submitted(wire(submission.texts.body, made.to_json()), created=False)

    def _rewrite(self, name: str, submission: Submission) -> JobRecord:
        """Store another text of a Job."""
        with self._keeper.lock:
            record, old = self._keeper.find(name), self._ledger.texts(name)
            refuse_deleting(record)
            refuse_renaming(name, submission.name)
            if submission.same(old.body):
                return record
            if not record.ended and not only_words(old.body, submission.texts.body):
                raise ConflictError(
                    f"job {name!r} is {record.status.phase}: only labels, annotations and priority can change now",
                    hint="stop it first",
                )
            wanted = submission.wanted.model_dump(mode="json", by_alias=True)
            changed = self._event(record, Kind.UPDATED, "Updated", "its text was changed", {"wanted": wanted})
            noted = submission.noted(self._clock.now(), record.attempt)
            return self._write(record, [changed, *noted], texts=submission.texts)

    # ---- parts of moving

    def _start(self, name: str, reason: str, message: str) -> JsonObject:
        with self._submitting:
            record = self._keeper.find(name)
            refuse_deleting(record)
            submission = self._checked(self._ledger.texts(name).yaml) if record.ended else None
            with self._keeper.lock:
                record = self._keeper.find(name)
                if record.ended and submission:
                    self._keeper.keep(self._requeue(record, submission, reason, message))
                elif record.running and record.stop_asked_at and not record.again:
                    self._ask_to_stop(record, again=True)
                self._keeper.tick()
                return self._ledger.job(name)

    def _requeue(
        self, record: JobRecord, submission: Submission, reason: str, message: str, *, key: Key | None = None
    ) -> JobRecord:
        data = {"wanted": submission.wanted.model_dump(mode="json", by_alias=True)}
        events = [self._event(record, Kind.REQUEUED, reason, message, data)]
        events += submission.noted(self._clock.now(), record.attempt)
        return self._ledger.write(record, events, texts=submission.texts, key=key)

    def _stop(self, record: JobRecord) -> JobRecord:
        if record.running:
            return self._ask_to_stop(record, again=False)
        if record.ended:
            return record
        message = "stopped before it started"
        return self._write(record, ending(record, Kind.STOPPED, "Stopped", message, time=self._clock.now()))

    def _ask_to_stop(self, record: JobRecord, *, again: bool) -> JobRecord:
        asked = record.stop_asked_at is not None
        if asked and record.again == again:
            return record
        asks = "a restart" if again else "a stop"
        message = f"{asks} was asked for; the worker may take {record.wanted.grace_s:g} s to end"
        reason = "RestartRequested" if again else "StopRequested"
        record = self._write(record, [self._event(record, Kind.STOP_REQUESTED, reason, message, {"again": again})])
        if not asked:
            self._keeper.attempts.stop(record)
        return record

    def _write(self, record: JobRecord, events: list[Event], *, texts: Texts | None = None) -> JobRecord:
        return self._keeper.keep(self._ledger.write(record, events, texts=texts))

    def _event(
        self, record: JobRecord, kind: Kind, reason: str, message: str, data: dict[str, Any] | None = None
    ) -> Event:
        return Event(
            kind=kind,
            time=self._clock.now(),
            attempt=record.attempt,
            reason=reason,
            message=message,
            data=data or {},
        )
