"""Log files as one sequence."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rlark.api import logs
from rlark.api.logs import RUN_STARTS, Wanted, read, since_text, tail_offset, whole
from rlark.errors import NotFound, UsageError
from rlark.folder import JobFolder


@pytest.fixture
def folder(tmp_path):
    made = JobFolder(tmp_path / "demo")
    made.logs(1).mkdir(parents=True)
    return made


def write(folder: JobFolder, stream: str, *lines: str, end: str = "\n") -> None:
    text = "\n".join(lines) + (end if lines else "")
    (folder.logs(1) / f"{stream}.log").write_text(text, encoding="utf-8")


def at(second: int, text: str) -> str:
    return f"2026-01-01T00:00:{second:02d}.000Z {text}"


def texts(folder: JobFolder, **wanted) -> list[str]:
    chosen = Wanted(**wanted)
    return [line.text for line in whole(logs.streams(folder, 1, chosen), chosen)]


def test_the_workers_streams_are_merged_by_time(folder):
    write(folder, "stdout", at(1, "a"), at(3, "c"), at(5, "e"))
    write(folder, "stderr", at(2, "b"), at(4, "d"))
    assert texts(folder) == ["a", "b", "c", "d", "e"]
    assert texts(folder, stream="stderr") == ["b", "d"]


def test_a_line_without_a_time_stays_behind_its_own(folder):
    write(folder, "stdout", at(1, "a"), "  continued", at(5, "e"))
    write(folder, "stderr", at(2, "b"))
    assert texts(folder) == ["a", "  continued", "b", "e"]


def test_rank_logs_stand_behind_the_start_of_the_run(folder):
    write(folder, "stdout", at(1, "before"), at(2, RUN_STARTS), at(3, "after"))
    write(folder, "actor-0", "from the actor")
    write(folder, "env-10", "ten")
    write(folder, "env-2", "two")
    assert texts(folder) == ["before", RUN_STARTS, "from the actor", "two", "ten", "after"]
    assert texts(folder, component="env") == ["two", "ten"]
    assert texts(folder, stream="actor-0") == ["from the actor"]


def test_a_fused_rank_belongs_to_each_of_its_components(folder):
    write(folder, "actor+rollout+env-0", "x")
    for component in ("actor", "rollout", "env"):
        assert texts(folder, component=component) == ["x"]


def test_tail_is_the_last_of_the_whole(folder):
    write(folder, "stdout", at(1, RUN_STARTS), *(at(10 + i, f"out {i}") for i in range(20)))
    write(folder, "stderr", *(at(10 + i, f"err {i}") for i in range(20)))
    write(folder, "actor-0", *(f"rank {i}" for i in range(50)))
    assert texts(folder, tail=3) == ["err 18", "out 19", "err 19"]
    assert texts(folder, tail=0) == []
    assert len(texts(folder, tail=10_000)) == 91
    assert texts(folder, tail=41)[:2] == ["rank 49", "out 0"]


def test_since_leaves_out_what_is_older(folder):
    write(folder, "stdout", at(1, "a"), at(3, "c"))
    assert texts(folder, since="2026-01-01T00:00:02.000Z") == ["c"]


@pytest.mark.parametrize(
    ("value", "means"),
    [
        ("", ""),
        ("10m", "2026-01-01T11:50:00.000Z"),
        ("1h30m", "2026-01-01T10:30:00.000Z"),
        ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00.000Z"),
        ("2026-01-01T12:00:00+02:00", "2026-01-01T10:00:00.000Z"),
        ("2026-01-01", "2026-01-01T00:00:00.000Z"),
    ],
)
def test_what_since_means(value, means):
    assert since_text(value, datetime(2026, 1, 1, 12, tzinfo=UTC)) == means


@pytest.mark.parametrize("value", ["yesterday", "-5m", "10", "99999999999d", "0001-01-01T00:00:00+14:00"])
def test_a_since_that_means_nothing(value):
    with pytest.raises(UsageError, match="since="):
        since_text(value, datetime(2026, 1, 1, 12, tzinfo=UTC))


def test_records_carry_component_and_rank(folder):
    write(folder, "stdout", at(1, "a"))
    write(folder, "rollout-3", "b")
    first, second = whole(logs.streams(folder, 1, Wanted()), Wanted())
    assert first.record(2) == {
        "attempt": 2,
        "stream": "stdout",
        "component": None,
        "rank": None,
        "time": "2026-01-01T00:00:01.000Z",
        "line": "a",
    }
    assert (second.record(1)["component"], second.record(1)["rank"], second.record(1)["time"]) == ("rollout", 3, None)


def test_a_line_that_is_still_being_written_waits(folder):
    write(folder, "stdout", at(1, "whole"), at(2, "half"), end="")
    path = folder.logs(1) / "stdout.log"
    assert [line.text for line in read(path, "stdout", partial=False)] == ["whole"]
    assert [line.text for line in read(path, "stdout")] == ["whole", "half"]


def test_a_line_without_end_comes_in_pieces(folder):
    write(folder, "actor-0", "x" * (3 * logs.LONGEST_LINE + 5))
    sizes = [len(line.text) for line in read(folder.logs(1) / "actor-0.log", "actor-0", partial=False)]
    assert sizes == [logs.LONGEST_LINE] * 3 + [5]


def test_bytes_that_are_no_text_do_no_harm(folder):
    (folder.logs(1) / "stdout.log").write_bytes(b"\xff\xfe broken\r\n\x00\n\n")
    assert len(texts(folder)) == 3


def test_foreign_files_and_missing_folders_are_no_logs(folder):
    write(folder, "stdout", at(1, "a"))
    write(folder, "core.dump", "x")
    write(folder, "UPPER-1", "x")
    (folder.logs(1) / "stderr.log").mkdir()
    assert list(logs.streams(folder, 1, Wanted())) == ["stdout"]
    assert logs.streams(folder, 7, Wanted()) == {}


@pytest.mark.parametrize("count", [1, 2, 5, 1000, 1001, 5000])
@pytest.mark.parametrize("end", ["\n", ""])
def test_where_the_tail_begins(tmp_path, count, end):
    lines = [f"line {i} {'x' * (i % 200)}" for i in range(1001)]
    path = tmp_path / "f.log"
    path.write_text("\n".join(lines) + end)
    with path.open() as file:
        file.seek(tail_offset(path, count))
        assert file.read().splitlines() == lines[-count:]


def test_the_tail_of_nothing(tmp_path):
    assert tail_offset(tmp_path / "none", 3) == 0
    (tmp_path / "empty").touch()
    assert tail_offset(tmp_path / "empty", 3) == 0


def test_attempts(folder):
    folder.logs(2).mkdir()
    assert logs.check_attempt(folder, None, 3) == 3
    assert logs.check_attempt(folder, 2, 3) == 2
    with pytest.raises(NotFound, match="no attempt 4"):
        logs.check_attempt(folder, 4, 3)
