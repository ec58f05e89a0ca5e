"""Reading `worker.jsonl` as it grows, without reading it twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rlark.folder import read_lines
from rlark.spec.report import Report


@dataclass
class _Tail:
    offset: int = 0
    reports: list[Report] = field(default_factory=list)


class ReportFiles:
    """The reports of every worker, kept as far as they were read."""

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._tails: dict[Path, _Tail] = {}

    def read(self, path: Path) -> list[Report]:
        """All reports of a file, in their order. A line that is no report is left out."""
        tail = self._tails.setdefault(path, _Tail())
        if _size(path) < tail.offset:  # the Job was deleted and another has its name
            tail = self._tails[path] = _Tail()
        try:
            for raw, offset in read_lines(path, tail.offset):
                tail.offset = offset
                report = parse(raw)
                if report is not None:
                    tail.reports.append(report)
        except ValueError:  # a worker that died with a full disk may leave half a line before the next
            tail.offset = _next_line(path, tail.offset)
        return tail.reports

    def forget(self, path: Path) -> None:
        """Drop what is kept of a file."""
        self._tails.pop(path, None)


def parse(raw: Mapping[str, object]) -> Report | None:
    """One line as a report; None when it has no number, attempt or type."""
    n, attempt, kind, data = raw.get("n"), raw.get("attempt"), raw.get("type"), raw.get("data")
    if not isinstance(n, int) or not isinstance(attempt, int) or not isinstance(kind, str):
        return None
    return Report(
        n=n,
        attempt=attempt,
        time=str(raw.get("time") or ""),
        type=kind,
        status=raw.get("status") is not False,
        reason=str(raw.get("reason") or ""),
        message=str(raw.get("message") or ""),
        data=dict(data) if isinstance(data, Mapping) else {},
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _next_line(path: Path, offset: int) -> int:
    with path.open("rb") as file:
        file.seek(offset)
        return offset + len(file.readline())
