from __future__ import annotations

import json

import pytest

from rlark.cluster.on_ray.reports import ReportFiles, parse
from rlark.spec.report import Report


@pytest.fixture
def path(tmp_path):
    return tmp_path / "worker.jsonl"


def line(n, kind="Prepared", **more):
    return json.dumps({"n": n, "attempt": 1, "time": "2026-01-31T12:00:00.000Z", "type": kind, **more}) + "\n"


def test_a_line_becomes_a_report():
    raw = json.loads(line(3, "Outcome", status=False, reason="RunFailed", message="m", data={"exitCode": 1}, more=1))
    assert parse(raw) == Report(3, 1, "2026-01-31T12:00:00.000Z", "Outcome", False, "RunFailed", "m", {"exitCode": 1})


@pytest.mark.parametrize("raw", [{}, {"n": 1}, {"n": "1", "attempt": 1, "type": "x"}, {"n": 1, "attempt": 1}])
def test_what_is_no_report_is_left_out(raw):
    assert parse(raw) is None


def test_no_file_is_no_reports(path):
    assert ReportFiles().read(path) == []


def test_a_growing_file_is_read_once(path):
    files = ReportFiles()
    path.write_text(line(1))
    assert [one.n for one in files.read(path)] == [1]
    with path.open("a") as file:
        file.write(line(2) + line(3)[:10])  # the third is still being written
    assert [one.n for one in files.read(path)] == [1, 2]
    with path.open("a") as file:
        file.write(line(3)[10:])
    assert [one.n for one in files.read(path)] == [1, 2, 3]


def test_half_a_line_of_a_worker_that_died_does_not_hide_the_next(path):
    path.write_text(line(1) + '{"n": 2, "att' + "\n" + line(3))
    files = ReportFiles()
    files.read(path)
    assert [one.n for one in files.read(path)] == [1, 3]


def test_a_file_of_a_new_job_with_the_same_name_is_read_from_its_beginning(path):
    files = ReportFiles()
    path.write_text(line(1) + line(2))
    files.read(path)
    path.write_text(line(1, "Started"))
    assert [one.type for one in files.read(path)] == ["Started"]
