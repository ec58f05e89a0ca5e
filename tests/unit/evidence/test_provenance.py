from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rlark.evidence.provenance import dependencies, digest, lock_sha256, source_of


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", folder, "-c", "user.name=t", "-c", "user.email=t@t", *arguments], check=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "first")
    git(tmp_path, "remote", "add", "origin", "https://user:secret@example.com/a.git")
    return tmp_path


def test_the_commit_is_known(repository):
    source = source_of(repository / "code")
    assert source.known
    assert len(source.commit) == 40
    assert (source.dirty, source.ref) == (False, "main")


def test_credentials_of_the_remote_are_left_out(repository):
    assert source_of(repository / "code").repository == "https://example.com/a.git"


def test_changes_are_told(repository):
    (repository / "code" / "a.py").write_text("2")
    assert source_of(repository / "code").dirty is True


def test_code_beside_a_repository_is_unknown(repository):
    (repository / "installed").mkdir()
    source = source_of(repository / "installed")
    assert (source.known, source.commit) == (False, None)
    assert "not tracked" in source.reason


def test_no_repository_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert source_of(tmp_path).reason == "the code was installed, not run from a repository"


def test_no_git_is_unknown(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert source_of(tmp_path).reason == "git is not installed"


def test_only_installed_packages_are_listed():
    found = dependencies(("numpy", "no-such-package"))
    assert list(found) == ["numpy"]
    assert lock_sha256({"b": "1", "a": "2"}) == lock_sha256({"a": "2", "b": "1"})
    assert lock_sha256({"a": "1"}) != lock_sha256({"a": "2"})


def test_a_digest_does_not_depend_on_the_order_of_keys():
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})
