from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path

from rlark.worker.facts import packages


def test_packages_have_the_versions_that_are_imported():
    found = packages()
    assert found["numpy"] == version("numpy")
    assert found["typing-extensions"] == version("typing-extensions")
    assert list(found) == sorted(found, key=str.lower)


def test_the_first_on_the_path_counts(tmp_path: Path, monkeypatch):
    for folder, number in (("a", "2.0"), ("b", "1.0")):
        (tmp_path / folder / f"my_pack-{number}.dist-info").mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "missing")])
    assert packages() == {"my-pack": "2.0"}
