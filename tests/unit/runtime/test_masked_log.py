"""Secrets in an engine's run: they reach every rank, and what ranks print or fail with is masked on disk."""

from __future__ import annotations

import base64
import json
import os
import threading
import time
from pathlib import Path

import pytest

from rlark.folder import read_json, write_json
from rlark.plan.plan import SecretSource
from rlark.redactor import Redactor, forms
from rlark.runtime import seat
from rlark.runtime.assignment import Assignment
from rlark.runtime.failure import RunFailed
from rlark.runtime.masked_log import LONGEST, MaskedLogs

SECRET = "hf_zYx/9w8+7"


@pytest.fixture
def secretive(assign, monkeypatch):
    """An assignment with a secret, which the worker has put into this process."""

    def make(**config) -> Assignment:
        monkeypatch.setenv("HF_TOKEN", SECRET)
        assignment = assign(**config)
        plan = assignment.plan.model_copy(update={"secrets": {"HF_TOKEN": SecretSource(name="hub", key="token")}})
        write_json(assignment.folder.plan, plan.to_json())
        return Assignment.read(assignment.folder)

    return make


def printing(rank, run):
    """A rank that prints its secret before it works; the pipe is opened as its process would open it."""
    control, posting = seat.take(run, rank.component, rank.rank)
    with Path(posting.output or posting.log).open("a") as out:
        out.write(f"{rank.component} has {posting.env['HF_TOKEN']}\n")
        out.write(f"and {base64.b64encode(posting.env['HF_TOKEN'].encode()).decode()} at the end")
    seat.serve(control, posting)


def test_ranks_have_the_secret_and_their_logs_do_not(placed, secretive):
    assignment = secretive()
    with placed(assignment, rank=printing) as (trainer, _):
        trainer.iterate()
    logs = assignment.folder.logs(1)
    for component in ("actor", "rollout", "env"):
        log = logs / f"{component}-0.log"
        assert log.read_text() == f"{component} has ***\nand *** at the end"
        assert log.stat().st_mode & 0o777 == 0o600


def test_without_secrets_a_rank_writes_its_log_itself(placed, assign, monkeypatch):
    monkeypatch.delenv("HF_TOKEN", raising=False)
    seen = []

    def rank(rank, run):
        control, posting = seat.take(run, rank.component, rank.rank)
        seen.append(posting.output)
        seat.serve(control, posting)

    with placed(assign(), rank=rank):
        pass
    assert seen == ["", "", ""]


def test_the_first_cause_brings_the_masked_end_of_the_log(placed, secretive):
    assignment = secretive(toy={"fault": {"component": "env", "rank": 0, "iteration": 1, "how": "raise"}})
    with pytest.raises(RunFailed) as raised, placed(assignment, rank=printing) as (trainer, _):
        trainer.iterate()
    assert raised.value.cause.lines == ("env has ***", "and *** at the end")


def test_failure_json_is_masked_and_a_fused_run_has_the_secret(secretive, run_toy):
    assignment = secretive(fused=True, toy={"fault": {"component": "env", "rank": 0, "iteration": 1, "how": "raise"}})
    done = run_toy(assignment.folder.root, HF_TOKEN="fault of the test")
    assert done.returncode == 1
    failure = read_json(assignment.folder.failure)
    assert failure["message"] == "a ***"
    assert "fault of the test" not in json.dumps(failure)
    seen = read_json(assignment.folder.artifacts / "rank-actor-0.json")["environment"]
    assert seen["HF_TOKEN"] == "fault of the test"


def through(tmp_path: Path, *writes: bytes, pause_s: float = 0.0) -> bytes:
    """What stands in a log after somebody wrote into its pipe."""
    logs, log = MaskedLogs(Redactor(forms(SECRET))), tmp_path / "env-0.log"
    pipe = logs.through(log)
    with Path(pipe).open("wb", buffering=0) as out:
        for data in writes:
            out.write(data)
            time.sleep(pause_s)
    logs.finish(10)
    return log.read_bytes()


def test_a_secret_in_two_pieces_is_masked(tmp_path: Path):
    assert through(tmp_path, b"a hf_zYx", b"/9w8+7 b\n", pause_s=0.02) == b"a *** b\n"


def test_bytes_that_are_no_text_and_bars_stay_as_they_are(tmp_path: Path):
    assert through(tmp_path, b"\xff\x00\r 10%\r 20%\r\nend") == b"\xff\x00\r 10%\r 20%\r\nend"


@pytest.mark.parametrize("before", [LONGEST - 5, LONGEST, 2 * LONGEST - 3])
def test_a_line_without_end_is_written_in_pieces_none_of_which_cuts_a_secret(tmp_path: Path, before: int):
    data = b"x" * before + SECRET.encode() + b"y" * LONGEST + SECRET.encode()
    assert through(tmp_path, data) == data.replace(SECRET.encode(), b"***")


def test_a_log_that_cannot_be_written_does_not_hold_up_the_rank(tmp_path: Path, monkeypatch):
    def full(_handle, _data):
        raise OSError(28, "No space left on device")

    logs = MaskedLogs(Redactor([SECRET]))
    pipe = logs.through(tmp_path / "env-0.log")
    handle = os.open(pipe, os.O_WRONLY)
    write = os.write
    monkeypatch.setattr("rlark.runtime.masked_log.os.write", full)
    writer = threading.Thread(target=lambda: [write(handle, b"x" * 4095 + b"\n") for _ in range(64)])
    writer.start()
    writer.join(10)
    assert not writer.is_alive()
    os.close(handle)
    logs.finish(10)
