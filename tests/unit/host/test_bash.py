"""Bash's opinion of scripts."""

from __future__ import annotations

import subprocess

import pytest

from rlark.host.bash import syntax_error


@pytest.mark.parametrize(
    ("script", "line", "words"),
    [
        ("if true\nfi", 2, "syntax error near unexpected token `fi'"),
        ("echo )", 1, "syntax error near unexpected token `)'"),
        ("true\necho 'a", 2, "unexpected EOF while looking for matching"),
        ("for x in 1; do\n  echo\n", 3, "unexpected end of file"),
    ],
)
def test_what_bash_cannot_read(script, line, words):
    found = syntax_error(script)
    assert found is not None
    assert found[0] == line
    assert words in found[1]


@pytest.mark.parametrize("script", ["", "echo ok", "cat <<E\nx\nE", "exit 3", "echo ä", "cat <<E\nno end"])
def test_what_bash_can_read(script):
    assert syntax_error(script) is None


def test_nothing_is_run(tmp_path, monkeypatch):
    start = tmp_path / "start.sh"
    start.write_text(f"touch {tmp_path}/started\n")
    monkeypatch.setenv("BASH_ENV", str(start))
    assert syntax_error(f"touch {tmp_path}/run") is None
    assert [path.name for path in tmp_path.iterdir()] == ["start.sh"]


def test_without_bash_nothing_is_said(monkeypatch):
    def missing(*_arguments, **_more):
        raise FileNotFoundError("bash")

    monkeypatch.setattr(subprocess, "run", missing)
    assert syntax_error("if") is None


def test_words_that_bash_has_not_placed(monkeypatch):
    done = subprocess.CompletedProcess([], 2, b"", b"something else\n")
    monkeypatch.setattr(subprocess, "run", lambda *_arguments, **_more: done)
    assert syntax_error("if") == (1, "something else")
