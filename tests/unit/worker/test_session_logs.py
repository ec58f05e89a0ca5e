from __future__ import annotations

import os
from pathlib import Path

import pytest

from rlark.redactor import Redactor
from rlark.worker import session_logs


@pytest.fixture
def temp(tmp_path: Path) -> Path:
    logs = tmp_path / "temp" / "session_2026-01-02_03-04-05_000006_7" / "logs"
    (logs / "events").mkdir(parents=True)
    (logs / "old.out").write_text("older")
    (logs / "events" / "new.log").write_text("the key is s3cr3tvalue")
    (logs / "empty.err").touch()
    (logs / "link.log").symlink_to("/etc/hostname")
    os.utime(logs / "old.out", (1, 1))
    (tmp_path / "temp" / "session_latest").symlink_to(logs.parent)
    (tmp_path / "start.log").write_text("Ray runtime started with s3cr3tvalue.")
    return tmp_path / "temp"


def kept(target: Path) -> set[str]:
    return {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}


def test_logs_are_kept_with_secrets_masked(temp: Path, tmp_path: Path):
    target = tmp_path / "ray"
    session_logs.keep_logs(temp, tmp_path / "start.log", target, Redactor(["s3cr3tvalue"]))
    assert kept(target) == {"start.log", "old.out", "events/new.log"}
    assert (target / "events" / "new.log").read_text() == "the key is ***"
    assert (target / "start.log").read_text() == "Ray runtime started with ***."


def test_of_too_much_the_newest_are_kept(temp: Path, tmp_path: Path, monkeypatch):
    for most, names in ((25, {"events/new.log"}), (10, {"old.out"})):  # one that is too large hides no other
        monkeypatch.setattr(session_logs, "MOST", most)
        session_logs.keep_logs(temp, tmp_path / "start.log", tmp_path / f"ray-{most}", Redactor())
        assert kept(tmp_path / f"ray-{most}") == {"start.log", *names}


def test_a_head_that_never_was_leaves_nothing_to_keep(tmp_path: Path):
    session_logs.keep_logs(tmp_path / "nowhere", tmp_path / "no.log", tmp_path / "ray", Redactor())
    assert not (tmp_path / "ray").exists()
