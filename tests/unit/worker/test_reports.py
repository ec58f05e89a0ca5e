from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from rlark.folder import JobFolder
from rlark.testing import FakeClock
from rlark.worker.reports import RESERVE, Reports, no_room


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    found = JobFolder(tmp_path / "demo")
    found.create()
    return found


def lines(folder: JobFolder) -> list[dict]:
    return [json.loads(line) for line in folder.reports.read_text().splitlines()]


def test_reports_are_numbered_over_all_attempts(folder: JobFolder):
    for attempt in (1, 2):
        reports = Reports(folder, attempt, FakeClock())
        reports.write("Prepared", True, "Prepared", "done", {"pid": 1})
        reports.write("Outcome", False, "RunFailed")
        reports.close()
    assert [(line["n"], line["attempt"], line["type"]) for line in lines(folder)] == [
        (1, 1, "Prepared"),
        (2, 1, "Outcome"),
        (3, 2, "Prepared"),
        (4, 2, "Outcome"),
    ]
    assert lines(folder)[0] == {
        "n": 1,
        "attempt": 1,
        "time": "2026-01-01T00:00:00.000Z",
        "type": "Prepared",
        "status": True,
        "reason": "Prepared",
        "message": "done",
        "data": {"pid": 1},
    }


def test_half_a_line_that_a_killed_worker_left_is_cut_off(folder: JobFolder):
    reports = Reports(folder, 1, FakeClock())
    reports.write("Prepared")
    reports.close()
    with folder.reports.open("a") as file:
        file.write('{"n":2,"atte')
    reports = Reports(folder, 2, FakeClock())
    reports.write("Worker")
    reports.close()
    assert [line["n"] for line in lines(folder)] == [1, 2]


def full_after(monkeypatch: pytest.MonkeyPatch, room: int):
    """Lets so many bytes be written, then says that there is no room, until the reserve is given back."""
    left = [room]
    write, unlink = os.write, Path.unlink

    def limited(handle: int, data: bytes) -> int:
        if left[0] <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = write(handle, data[: left[0]])
        left[0] -= count
        return count

    def freed(path: Path, missing_ok: bool = False) -> None:
        unlink(path, missing_ok=missing_ok)
        left[0] += RESERVE

    monkeypatch.setattr(os, "write", limited)
    monkeypatch.setattr(Path, "unlink", freed)


def test_the_last_report_finds_room_in_the_reserve_and_half_lines_are_taken_back(folder: JobFolder, monkeypatch):
    reports = Reports(folder, 1, FakeClock())
    assert (folder.root / ".reserve").stat().st_size == RESERVE
    full_after(monkeypatch, 40)
    reports.write("Outcome", False, "DiskFull", "no space")
    reports.close()
    assert [(line["n"], line["reason"]) for line in lines(folder)] == [(1, "DiskFull")]
    assert not (folder.root / ".reserve").exists()


def test_other_errors_are_not_taken_for_a_full_disk(folder: JobFolder, monkeypatch):
    reports = Reports(folder, 1, FakeClock())

    def broken(_handle: int, _data: bytes) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "write", broken)
    with pytest.raises(OSError, match="Input/output error"):
        reports.write("Prepared")
    assert (folder.root / ".reserve").exists()
    monkeypatch.undo()
    reports.close()


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(errno.ENOSPC, ""), True),
        (OSError(errno.EDQUOT, ""), True),
        (OSError(errno.EIO, ""), False),
        (ValueError(), False),
        (None, False),
    ],
)
def test_what_counts_as_a_full_disk(error, full):
    assert no_room(error) is full
