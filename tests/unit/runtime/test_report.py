from __future__ import annotations

import io
import json
import math
from pathlib import Path

import numpy as np
import pytest

from rlark.folder import JobFolder
from rlark.runtime.report import Reporter, finite
from rlark.testing import FakeClock


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    found = JobFolder(tmp_path / "demo")
    found.create()
    return found


def reporter(folder: JobFolder, iterations: int, out: io.StringIO) -> Reporter:
    return Reporter(
        folder,
        "toy",
        iterations=iterations,
        tensorboard=folder.tensorboard,
        progress=lambda metrics: f"meanReward={metrics['meanReward']:.1f}",
        clock=FakeClock(),
        out=out,
    )


def test_one_line_an_iteration_with_null_for_what_was_not_measured(folder: JobFolder):
    told = reporter(folder, 2, io.StringIO())
    told.iteration(1, {"meanReward": np.float32(0.5), "recentSuccess": math.nan, "worst": -math.inf}, 64, 1.23456)
    told.close()
    assert json.loads(folder.metrics.read_text()) == {
        "iteration": 1,
        "iterations": 2,
        "envSteps": 64,
        "elapsedSeconds": 1.235,
        "time": "2026-01-01T00:00:00.000Z",
        "meanReward": 0.5,
        "recentSuccess": None,
        "worst": None,
    }


@pytest.mark.parametrize(
    ("iterations", "shown"),
    [(3, [1, 2, 3]), (16, [1, 2, 4, 6, 8, 10, 12, 14, 16]), (40, [1, 5, 10, 15, 20, 25, 30, 35, 40])],
)
def test_progress_is_printed_at_the_first_every_eighth_and_the_last(
    folder: JobFolder, iterations: int, shown: list[int]
):
    out = io.StringIO()
    told = reporter(folder, iterations, out)
    for number in range(1, iterations + 1):
        told.iteration(number, {"meanReward": -1.0}, number, number / 2)
    told.close()
    assert out.getvalue().splitlines() == [
        f"[toy] iter {number}/{iterations} meanReward=-1.0 elapsed={number / 2:.1f}s" for number in shown
    ]
    assert len(folder.metrics.read_text().splitlines()) == iterations


@pytest.mark.parametrize(("value", "found"), [(1, 1.0), (np.float32(2), 2.0), (math.nan, None), (math.inf, None)])
def test_only_finite_numbers_reach_json(value, found):
    assert finite(value) == found


def test_a_run_that_goes_on_begins_with_what_was_told_before_each_iteration_once(folder: JobFolder, tmp_path: Path):
    before = JobFolder(tmp_path / "before")
    before.create()
    first = reporter(before, 9, io.StringIO())
    for number in (1, 2, 3, 2, 3, 4):  # it had gone back once
        first.iteration(number, {"meanReward": float(number), "recentSuccess": math.nan}, 64, number)
    first.close()
    told = reporter(folder, 9, io.StringIO())
    told.earlier(before.metrics, 3)
    told.iteration(4, {"meanReward": 40.0}, 64, 4)
    told.close()
    rows = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    assert [(row["iteration"], row["meanReward"]) for row in rows] == [(1, 1), (2, 2), (3, 3), (4, 40)]
    assert ["time" in row for row in rows] == [False, False, False, True]
    events = b"".join(path.read_bytes() for path in folder.tensorboard.iterdir())
    assert events.count(b"meanReward") == 4


def test_a_run_goes_on_in_its_own_folder(folder: JobFolder):
    first = reporter(folder, 9, io.StringIO())
    for number in (1, 2, 3):
        first.iteration(number, {"meanReward": 0.0}, 64, number)
    reporter(folder, 9, io.StringIO()).earlier(folder.metrics, 2)
    assert [json.loads(line)["iteration"] for line in folder.metrics.read_text().splitlines()] == [1, 2]


def test_where_nothing_was_told_nothing_is(folder: JobFolder, tmp_path: Path):
    reporter(folder, 9, io.StringIO()).earlier(tmp_path / "nowhere", 3)
    assert not folder.metrics.exists()
