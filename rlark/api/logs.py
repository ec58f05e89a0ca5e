"""Reading a Job's logs: lines of several files as one sequence, from any place, in bounded memory.

The worker's own streams carry a time on each line and are merged by it. A rank's log carries none:
its lines belong behind the line that says the run starts.
"""

from __future__ import annotations

import heapq
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rlark.errors import NotFound, UsageError
from rlark.folder import JobFolder
from rlark.host.clock import stamp
from rlark.spec.quantity import seconds

JsonObject = dict[str, object]
LONGEST_LINE = 64 * 1024
"""Bytes; a longer line comes in pieces."""
BLOCK = 64 * 1024
STAMPED = ("stdout", "stderr")
RUN_STARTS = "Executing run script..."
_RANK = re.compile(r"([a-z][a-z0-9_+]*)-([0-9]{1,6})")
_STAMP = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]{8,15}Z) ?(.*)", re.DOTALL)


@dataclass(frozen=True)
class Line:
    """One line of one stream.

    Attributes:
        stream: `stdout`, `stderr` or `<component>-<rank>`.
        time: ISO 8601, UTC; empty where none is written.
        text: without its newline.
        end: byte offset behind it.
    """

    stream: str
    time: str
    text: str
    end: int

    def record(self, attempt: int) -> JsonObject:
        """The line on the wire."""
        match = _RANK.fullmatch(self.stream)
        return {
            "attempt": attempt,
            "stream": self.stream,
            "component": match[1] if match else None,
            "rank": int(match[2]) if match else None,
            "time": self.time or None,
            "line": self.text,
        }


@dataclass(frozen=True)
class Wanted:
    """Which lines somebody asks for.

    Attributes:
        stream: one stream; empty for all.
        component: the ranks of one component; empty for all.
        since: a time as it stands in a line; empty for all. Lines without a time are never left out.
        tail: only so many of the last; None for all.
    """

    stream: str = ""
    component: str = ""
    since: str = ""
    tail: int | None = None

    def stream_is(self, name: str) -> bool:
        """True when a stream belongs to it."""
        match = _RANK.fullmatch(name)
        if self.component and (match is None or self.component not in match[1].split("+")):
            return False
        return not self.stream or name == self.stream

    def line_is(self, line: Line) -> bool:
        """True when a line belongs to it."""
        return not line.time or line.time >= self.since


def since_text(value: str, now: datetime) -> str:
    """What `since` means: a moment in ISO 8601, or an age such as `10m`.

    Raises:
        UsageError: it is neither.
    """
    if not value:
        return ""
    try:
        return stamp(now - timedelta(seconds=seconds(value)))
    except (ValueError, OverflowError):
        pass
    try:
        moment = datetime.fromisoformat(value)
        return stamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
    except (ValueError, OverflowError):
        raise UsageError(
            f"since={value!r} is neither a moment nor an age", hint="write 2026-01-31T12:00:00Z, or 10m"
        ) from None


def streams(folder: JobFolder, attempt: int, wanted: Wanted) -> dict[str, Path]:
    """The log files of an attempt that somebody asks for: name -> file, the worker's own first."""
    found = {path.stem: path for path in folder.logs(attempt).glob("*.log") if path.is_file()}
    known = sorted((name for name in found if name in STAMPED or _RANK.fullmatch(name)), key=_order)
    return {name: found[name] for name in known if wanted.stream_is(name)}


def check_attempt(folder: JobFolder, attempt: int | None, current: int) -> int:
    """The attempt that is meant; the current one by default.

    Raises:
        NotFound: there was no such attempt.
    """
    if attempt is None:
        return current
    if not 1 <= attempt <= current and not folder.logs(attempt).is_dir():
        raise NotFound(
            f"job {folder.name!r} has no attempt {attempt}; it is at attempt {current}", hint="leave attempt out"
        )
    return attempt


def read(path: Path, stream: str, offset: int = 0, *, most: int | None = None, partial: bool = True) -> Iterator[Line]:
    """The lines of one file behind an offset.

    Args:
        path: the file; a missing one has no lines.
        stream: its name.
        offset: where to begin.
        most: bytes after which to stop; None for the whole file.
        partial: whether a last line without its newline counts, as in the log of an ended run.
    """
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        file.seek(offset)
        start = offset
        while most is None or offset - start < most:
            raw = file.readline(LONGEST_LINE)
            if not raw or (not raw.endswith(b"\n") and len(raw) < LONGEST_LINE and not partial):
                return
            offset += len(raw)
            yield _line(stream, raw, offset)


def tail_offset(path: Path, lines: int) -> int:
    """Where the last so many lines of a file begin."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return 0
    with file:
        end = place = file.seek(0, 2)
        found = 0
        while place > 0:
            size = min(BLOCK, place)
            place -= size
            file.seek(place)
            block = file.read(size)
            at = len(block)
            while (at := block.rfind(b"\n", 0, at)) >= 0:
                if place + at == end - 1:
                    continue
                found += 1
                if found == lines:
                    return place + at + 1
        return 0


def whole(files: Mapping[str, Path], wanted: Wanted) -> Iterator[Line]:
    """All lines of these files as one sequence, or the last `wanted.tail` of them."""
    starts = {name: tail_offset(path, wanted.tail) if wanted.tail else 0 for name, path in files.items()}
    lines = (line for line in _in_order(files, starts) if wanted.line_is(line))
    if wanted.tail is None:
        yield from lines
    elif wanted.tail > 0:
        yield from deque(lines, maxlen=wanted.tail)


def merge(streams_: Iterable[Iterable[Line]]) -> Iterator[Line]:
    """Stamped streams as one, by time; a line without one stays behind the line before it."""
    yield from (line for _, line in heapq.merge(*(_keyed(lines) for lines in streams_), key=lambda pair: pair[0]))


def _in_order(files: Mapping[str, Path], starts: Mapping[str, int]) -> Iterator[Line]:
    own = merge(read(files[name], name, starts[name]) for name in files if name in STAMPED)
    ranks = (line for name in files if name not in STAMPED for line in read(files[name], name, starts[name]))
    if any(starts[name] for name in files if name in STAMPED):
        yield from ranks  # the run started before the part that is shown
    for line in own:
        yield line
        if line.text == RUN_STARTS:
            yield from ranks
    yield from ranks


def _keyed(lines: Iterable[Line]) -> Iterator[tuple[str, Line]]:
    last = ""
    for line in lines:
        last = line.time or last
        yield last, line


def _line(stream: str, raw: bytes, end: int) -> Line:
    text = raw.decode("utf-8", "replace").rstrip("\n").removesuffix("\r")
    if stream in STAMPED and (match := _STAMP.fullmatch(text)):
        return Line(stream, match[1], match[2], end)
    return Line(stream, "", text, end)


def _order(name: str) -> tuple[int, str, int]:
    if name in STAMPED:
        return STAMPED.index(name), name, 0
    match = _RANK.fullmatch(name)
    return len(STAMPED), match[1] if match else name, int(match[2]) if match else 0
