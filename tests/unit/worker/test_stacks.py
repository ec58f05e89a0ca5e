from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rlark.host import process
from rlark.worker import stacks

DOZING = """
import faulthandler, signal, sys, time
if sys.argv[1] == "answers":
    faulthandler.register(signal.SIGUSR1, file=2)
def dozing():
    print("up", flush=True)
    time.sleep(60)
dozing()
"""


@pytest.fixture
def doze(tmp_path: Path) -> Iterator:
    running = []

    def begin(how: str):
        log = (tmp_path / f"{how}.log").open("wb")
        one = subprocess.Popen([sys.executable, "-c", DOZING, how], stdout=subprocess.PIPE, stderr=log)
        running.append((one, log))
        assert one.stdout.readline() == b"up\n"
        return process.identify(one.pid)

    yield begin
    for one, log in running:
        one.kill()
        one.communicate()
        log.close()


def test_without_py_spy_only_those_that_answer_are_asked(doze, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(stacks, "_tool", lambda: None)
    answers, silent = doze("answers"), doze("silent")
    lines = stacks.dump([answers, silent], answering=[answers, silent])
    assert lines[0].endswith("its stacks are in its own log")
    assert lines[1].endswith("no stack: py-spy is missing (pip install py-spy)")
    assert process.alive(silent)
    until = time.monotonic() + 5
    while "dozing" not in (tmp_path / "answers.log").read_text():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_process_that_answers_but_is_not_ours_is_left_alone(doze, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(stacks, "_tool", lambda: None)
    stacks.dump([doze("answers")])
    assert (tmp_path / "answers.log").read_text() == ""


def test_a_py_spy_that_may_not_look_says_why(doze, tmp_path: Path, monkeypatch):
    tool = tmp_path / "py-spy"
    tool.write_text("#!/bin/sh\necho 'Error: Permission Denied' >&2\nexit 1\n")
    tool.chmod(0o700)
    monkeypatch.setattr(stacks, "_tool", lambda: str(tool))
    monkeypatch.setattr(stacks, "_SCOPE", tmp_path / "scope")
    monkeypatch.setattr(stacks.os, "geteuid", lambda: 1000)
    silent = doze("silent")
    assert stacks.dump([silent])[0].endswith("no stack: py-spy may not look: Error: Permission Denied")
    (tmp_path / "scope").write_text("1\n")
    assert "kernel.yama.ptrace_scope" in stacks.dump([silent])[0]


@pytest.mark.skipif(
    shutil.which("py-spy") is None and not Path(sys.executable).with_name("py-spy").exists(),
    reason="py-spy is missing: pip install py-spy",
)
def test_py_spy_shows_where_a_process_stands(doze):
    lines = stacks.dump([doze("silent")])
    if "may not look" in lines[0]:
        pytest.skip("this system forbids looking into other processes (kernel.yama.ptrace_scope)")
    assert any("dozing" in line for line in lines)


def test_other_programs_are_named(doze):
    other = subprocess.Popen(["sleep", "60"])
    try:
        until = time.monotonic() + 5
        while "60" not in process.command(other.pid) and time.monotonic() < until:
            time.sleep(0.01)  # the kernel shows its arguments a moment after it began
        (line,) = stacks.dump([process.identify(other.pid)])
    finally:
        other.kill()
        other.wait()
    assert line == f"--- {other.pid} (sleep 60): no Python process"
