from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlark.worker.progress import PrintedProgress, parse


@pytest.mark.parametrize(
    ("line", "point"),
    [
        (
            "[starter-ppo] iter 3/40 meanReward=-1.50 recentSuccess=0.25 goalRange=[0.8,1.2] elapsed=12s",
            {"iteration": 3, "iterations": 40, "elapsedSeconds": 12.0, "meanReward": -1.5, "recentSuccess": 0.25},
        ),
        ("iter 1/2 loss=1e-3 lr=3.0E+4", {"iteration": 1, "iterations": 2, "loss": 0.001, "lr": 30000.0}),
        ("iter 1/2", {"iteration": 1, "iterations": 2}),
        ("iter 1/2 version=1.2.3 name=abc time=5", {"iteration": 1, "iterations": 2}),
        ("criter 1/2 x=1", None),
        ("loss=3", None),
        ("iter x/2", None),
        (
            "iter 1/2 loss=1e400 gain=-1e400 lr=2 elapsed=" + 400 * "9" + "s",
            {"iteration": 1, "iterations": 2, "lr": 2.0},
        ),
        ("iter " + 5000 * "9" + "/2", None),
    ],
)
def test_a_progress_line_is_read(line: str, point: dict | None):
    assert parse(line) == point


def test_points_become_metrics(tmp_path: Path):
    progress = PrintedProgress(tmp_path / "metrics.jsonl", lambda: "T")
    progress.hear(["loading", "iter 1/2 a=1", "iter 2/2 a=2"])
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == [
        {"iteration": 1, "iterations": 2, "a": 1.0, "time": "T"},
        {"iteration": 2, "iterations": 2, "a": 2.0, "time": "T"},
    ]


def test_a_number_beyond_all_floats_does_not_end_the_log(tmp_path: Path):
    progress = PrintedProgress(tmp_path / "metrics.jsonl", lambda: "T")
    progress.hear(["iter 1/2 loss=1e400"])
    assert json.loads((tmp_path / "metrics.jsonl").read_text()) == {"iteration": 1, "iterations": 2, "time": "T"}


def test_a_full_disk_is_remembered(tmp_path: Path):
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    progress = PrintedProgress(tmp_path / "metrics.jsonl", lambda: "T")
    progress.hear(["iter 1/2 a=1", "iter 2/2 a=2"])
    assert progress.error is not None
