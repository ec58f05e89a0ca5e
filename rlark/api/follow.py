"""Following: a Job's status, events, metrics and log lines as they appear, resumable at any point."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from rlark.api import curves, logs
from rlark.api.commands import JsonObject
from rlark.api.logs import Line, Wanted
from rlark.api.sse import Message
from rlark.control.reader import Change, LedgerReader
from rlark.errors import NotFound, UsageError
from rlark.folder import JobFolder
from rlark.spec.status import Phase, Progress

BATCH = 256 * 1024
"""Bytes of one stream that one poll takes."""
LARGEST_TAIL = 16 * 1024 * 1024
"""Bytes of one stream that the first poll of a tail may take."""
METRICS_BATCH = 1000
RUNNING_PAUSE_S = 0.1
WAITING_PAUSE_S = 0.25
_CURSOR = re.compile(r"([0-9]{1,18})\.([0-9]{1,18})\.([0-9]{1,9})(?:;(.*))?")
_OFFSET = re.compile(r"([a-z][a-z0-9_+-]{0,80})=([0-9]{1,18})")


@dataclass
class Cursor:
    """How far a follower is; its text is an event's id.

    Attributes:
        seq: the last event told.
        metrics: byte offset in `metrics.jsonl`.
        attempt: whose logs are told; 0 before any.
        logs: stream -> byte offset.
    """

    seq: int = 0
    metrics: int = 0
    attempt: int = 0
    logs: dict[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Cursor:
        """From an event's id.

        Raises:
            UsageError: it is none of ours.
        """
        match = _CURSOR.fullmatch(text)
        parts = (match[4] or "").split(",") if match else []
        offsets = [_OFFSET.fullmatch(part) for part in parts if part]
        if match is None or not all(offsets):
            raise UsageError(
                f"Last-Event-ID {text[:80]!r} is no id of this stream", hint="leave it out to begin at the beginning"
            )
        found = {offset[1]: int(offset[2]) for offset in offsets if offset}
        return cls(int(match[1]), int(match[2]), int(match[3]), found)

    def __str__(self) -> str:
        offsets = ",".join(f"{name}={offset}" for name, offset in self.logs.items())
        return f"{self.seq}.{self.metrics}.{self.attempt}{';' if offsets else ''}{offsets}"


class JobFollower:
    """One Job, followed to its end. Told in an order that loses nothing: the phase is read before the files."""

    def __init__(
        self,
        reader: LedgerReader,
        folder: JobFolder,
        *,
        last_id: str = "",
        wanted: Wanted | None = None,
        attempt: int | None = None,
        logs_only: bool = False,
    ) -> None:
        """Begin at the beginning, or behind an event.

        Args:
            reader: the ledger.
            folder: the Job's folder.
            last_id: the id of the last event that arrived.
            wanted: which log lines.
            attempt: only the logs of this attempt; by default the current one and those that follow.
            logs_only: leave status, events and metrics out.

        Raises:
            NotFound: there is no such Job, or no such attempt.
            UsageError: the id is none of ours.
        """
        self._reader, self._folder = reader, folder
        self._wanted = wanted or Wanted()
        self._logs_only, self._only = logs_only, attempt
        self._standing = reader.standing(folder.name)
        logs.check_attempt(folder, attempt, self._standing.status.attempt)
        self._cursor = Cursor.parse(last_id) if last_id else Cursor()
        self._cursor.attempt = self._cursor.attempt or self._standing.status.attempt
        if attempt and self._cursor.attempt != attempt:
            self._cursor.attempt, self._cursor.logs = attempt, {}
        self._tail = None if last_id else self._wanted.tail
        self._told: object = None
        self._progress: Progress | None = None
        self._inode = 0
        self._more_metrics = False
        self.done = False

    @property
    def pause(self) -> float:
        """Seconds until the next poll while nothing happens."""
        return RUNNING_PAUSE_S if self._standing.status.phase is Phase.RUNNING else WAITING_PAUSE_S

    def poll(self) -> list[Message]:
        """What is new since the last call."""
        try:
            self._look()
        except NotFound:
            self.done = True
            return [Message("end", self._end("Deleted", "the job was deleted"), str(self._cursor))]
        status, told = self._standing.status, list[Message]()
        if not self._logs_only:
            told += self._events()
            told += [] if status.phase.ended else self._status()
            told += self._metrics()
        lines, more = self._lines()
        told += lines
        more = more or self._more_metrics
        if (status.phase.ended or self._only_done()) and not more:
            told += [] if self._logs_only else self._status()
            told.append(Message("end", self._end(status.reason, status.message), str(self._cursor)))
            self.done = True
        return told

    def _look(self) -> None:
        """Read where the Job stands, if anything happened."""
        old = self._standing
        seq = self._reader.seq(self._folder.name)
        if seq == old.seq and old.status.phase is not Phase.PENDING:
            return
        new = self._reader.standing(self._folder.name)
        if new.uid != old.uid:
            raise NotFound(f"job {self._folder.name!r} was deleted, and its name used again")
        self._standing = new

    def _only_done(self) -> bool:
        """True when only one attempt is followed and a later one has begun."""
        return self._only is not None and self._standing.status.attempt > self._only

    def _events(self) -> Iterator[Message]:
        if self._standing.seq <= self._cursor.seq:
            return
        for event in self._reader.history(self._standing.uid, self._cursor.seq):
            self._cursor.seq = event.seq
            yield Message("event", event.record().to_json(), str(self._cursor))

    def _status(self) -> list[Message]:
        status = self._standing.status
        if status == self._told:
            return []
        self._told = status
        progress = self._progress or curves.progress(self._folder, status)
        return [Message("status", status.model_copy(update={"progress": progress}).to_json(), str(self._cursor))]

    def _metrics(self) -> Iterator[Message]:
        status, cursor = self._standing.status, self._cursor
        try:
            state = self._folder.metrics.stat()
        except FileNotFoundError:
            return
        if state.st_size < cursor.metrics or self._inode not in (0, state.st_ino):
            cursor.metrics = 0
        self._inode = state.st_ino
        count = 0
        for line, offset in curves.lines(self._folder.metrics, cursor.metrics, most=METRICS_BATCH):
            cursor.metrics, count = offset, count + 1
            if curves.of_attempt(line, status):
                self._progress = curves.progress_of(line)
                yield Message("metrics", line, str(cursor))
        self._more_metrics = count == METRICS_BATCH

    def _lines(self) -> tuple[list[Message], bool]:
        """New log lines, and whether there may be more of this attempt or a later one."""
        cursor, current = self._cursor, self._standing.status.attempt
        cursor.attempt = cursor.attempt or current
        if cursor.attempt == 0:
            return [], False
        ended = self._standing.status.phase.ended or current > cursor.attempt
        batch, cut = self._batch(cursor.attempt, partial=ended)
        shown = [line for line in batch if self._wanted.line_is(line)]
        left_out = len(shown) - self._tail if self._tail is not None else 0
        self._tail = None
        told = []
        for line in batch:
            cursor.logs[line.stream] = line.end
            if self._wanted.line_is(line):
                left_out -= 1
                told += [] if left_out >= 0 else [Message("log", line.record(cursor.attempt), str(cursor))]
        if not batch and self._only is None and cursor.attempt < current:
            cursor.attempt, cursor.logs = cursor.attempt + 1, {}
            return told, True
        return told, cut or bool(batch and ended)

    def _batch(self, attempt: int, *, partial: bool) -> tuple[list[Line], bool]:
        """What the attempt's files hold behind the cursor, in order; and whether a limit cut it short."""
        files = logs.streams(self._folder, attempt, self._wanted)
        offsets, most = self._cursor.logs, BATCH
        if self._tail is not None:
            offsets.update({name: logs.tail_offset(path, self._tail) for name, path in files.items()})
            most = LARGEST_TAIL
        read = {
            name: list(logs.read(path, name, offsets.get(name, 0), most=most, partial=partial))
            for name, path in files.items()
        }
        cut = {name for name, lines in read.items() if lines and lines[-1].end - offsets.get(name, 0) >= most}
        own = _in_step({name: lines for name, lines in read.items() if name in logs.STAMPED}, cut)
        return [*logs.merge(own.values()), *(line for name in read if name not in own for line in read[name])], bool(
            cut
        )

    def _end(self, reason: str, message: str) -> Mapping[str, object]:
        status = self._standing.status
        return {
            "phase": status.phase.value,
            "reason": reason,
            "message": message,
            "verified": status.verified,
            "exitCode": status.exit_code,
        }


def _in_step(read: dict[str, list[Line]], cut: set[str]) -> dict[str, list[Line]]:
    """Hold back what is later than the last line of a stream that has more to come."""
    ends = [read[name][-1].time for name in cut if name in read and read[name][-1].time]
    if not ends:
        return read
    limit = min(ends)
    kept = {}
    for name, lines in read.items():
        late = next((i for i, line in enumerate(lines) if line.time > limit), len(lines))
        kept[name] = lines if name in cut else lines[:late]
    return kept


class JobsWatcher:
    """Every Job as it changes: `job` with the Job, `deleted` with its name; the id is the ledger's number."""

    def __init__(
        self,
        reader: LedgerReader,
        wanted: Callable[[Mapping[str, object]], bool],
        last_id: str = "",
        *,
        show: Callable[[JsonObject], JsonObject] = lambda job: job,
    ) -> None:
        """Begin with every Job there is, or behind an event.

        Args:
            reader: the ledger.
            wanted: which Jobs, by their object on the wire.
            show: what is told of a Job.
            last_id: the id of the last event that arrived.

        Raises:
            UsageError: the id is none of ours.
        """
        if last_id and not re.fullmatch(r"[0-9]{1,18}", last_id):
            raise UsageError(f"Last-Event-ID {last_id[:80]!r} is no id of this stream", hint="leave it out")
        self._reader, self._wanted, self._show = reader, wanted, show
        self._after = int(last_id or 0)
        self._shown: set[str] = set()
        self._everything = bool(last_id)
        self.done = False

    @property
    def pause(self) -> float:
        """Seconds until the next poll while nothing happens."""
        return WAITING_PAUSE_S

    def poll(self) -> list[Message]:
        """What changed since the last call."""
        if self._reader.last() <= self._after:
            return []
        told = []
        for change in self._reader.changes(self._after):
            self._after = change.seq
            told += self._tell(change)
        return told

    def _tell(self, change: Change) -> list[Message]:
        if change.job is None:
            known = change.name in self._shown or self._everything
            self._shown.discard(change.name)
            return [Message("deleted", {"name": change.name}, str(change.seq))] if known else []
        if not self._wanted(change.job) and change.name not in self._shown:
            return []
        self._shown.add(change.name)
        return [Message("job", self._show(change.job), str(change.seq))]
