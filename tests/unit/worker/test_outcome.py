from __future__ import annotations

import pytest

from rlark.evidence.verify import Check, Verdict
from rlark.plan.plan import Plan
from rlark.worker.outcome import Outcome, ended_with, judge, prepare_failed
from rlark.worker.shell import Trouble

PLAN = Plan(job="demo", node="box", deadline_s=60)
GOOD = Verdict(verified=True, checks=[Check(name="manifest", ok=True)])


def verdict(*wrong: tuple[str, str, str]) -> Verdict:
    return Verdict(verified=False, checks=[Check(name=n, ok=False, code=c, message=m) for n, c, m in wrong])


def test_a_run_that_ends_with_0_and_proves_its_work_succeeded():
    outcome = judge(PLAN, exit_code=0, ended="", verdict=GOOD)
    assert (outcome.succeeded, outcome.reason, outcome.exit_code) == (True, "Completed", 0)
    assert outcome.message == "the run exited with code 0 and everything expected holds"


def test_nothing_expected_is_never_called_proved():
    outcome = judge(PLAN, exit_code=0, ended="", verdict=Verdict())
    assert (outcome.succeeded, outcome.message) == (True, "the run exited with code 0; nothing was expected of it")


@pytest.mark.parametrize(
    ("check", "reason"),
    [
        (("manifest", "artifact_manifest_missing", "there is no SHA256SUMS"), "EvidenceMissing"),
        (("result", "training_result_missing", "there is no result.json"), "EvidenceMissing"),
        (("output policy.onnx", "output_missing", "nothing there"), "OutputMissing"),
        (("quality gate", "quality_gate_failed", "0.3 < 0.5"), "GateFailed"),
    ],
)
def test_an_exit_code_of_0_is_not_enough(check, reason):
    outcome = judge(PLAN, exit_code=0, ended="", verdict=verdict(check))
    assert (outcome.succeeded, outcome.reason, outcome.exit_code) == (False, reason, 0)
    assert outcome.message == f"the run exited with code 0, but {check[0]}: {check[2]} ({check[1]})"


def test_a_missed_first_signal_leaves_it_succeeded_and_not_verified():
    missed = verdict(("first signal", "signal_not_seen", "it did not come"))
    outcome = judge(PLAN, exit_code=0, ended="", verdict=missed)
    assert (outcome.succeeded, outcome.verdict.verified) == (True, False)
    assert outcome.message == "the run exited with code 0, but is not verified: it did not come"


ENGINE = Plan(job="demo", node="box", engine="toy", grace_s=5)
KILLED = "stopped as asked; it did not end within terminationGrace (5 s), so it was killed and"


@pytest.mark.parametrize(
    ("code", "checkpoint", "said"),
    [
        (143, "global_step_12", "stopped as asked; `rlark submit --resume demo` goes on after iteration 12"),
        (143, "", "stopped as asked"),
        (
            137,
            "global_step_8",
            f"{KILLED} its last checkpoint stays: `rlark submit --resume demo` goes on after iteration 8",
        ),
        (
            -9,
            "",
            f"{KILLED} leaves no checkpoint",
        ),
    ],
)
def test_a_stop_says_what_is_left_to_go_on_from(code, checkpoint, said):
    outcome = judge(ENGINE, exit_code=code, ended="Stopped", verdict=Verdict(), checkpoint=checkpoint)
    assert outcome.message == said


def test_a_full_disk_says_how_to_go_on():
    full = ["OSError: [Errno 28] No space left on device"]
    outcome = judge(ENGINE, exit_code=1, ended="", verdict=Verdict(), complaints=full, checkpoint="global_step_8")
    assert (outcome.succeeded, outcome.reason) == (False, "DiskFull")
    assert outcome.message.endswith(
        "free some space, then `rlark submit --resume demo` goes on after iteration 8, and `rlark start` begins anew"
    )


def test_the_runs_own_cause_is_told():
    cause = {
        "component": "rollout",
        "rank": 1,
        "exception": "ValueError",
        "message": "bad shape",
        "log": "rollout-1.log",
    }
    outcome = judge(PLAN, exit_code=1, ended="", verdict=Verdict(), cause=cause)
    assert (outcome.succeeded, outcome.reason, outcome.cause) == (False, "RunFailed", cause)
    assert outcome.message == "rollout rank 1: ValueError: bad shape (log: rollout-1.log); the run exited with code 1"


def test_without_a_cause_the_last_words_are_told():
    outcome = judge(PLAN, exit_code=3, ended="", verdict=Verdict(), complaints=["a", "train: no such file", " "])
    assert outcome.message == "the run exited with code 3; its last words: train: no such file"


@pytest.mark.parametrize(
    ("cause", "complaints"),
    [
        ({"component": "env", "rank": 0, "exception": "OSError", "message": "[Errno 28] No space left on device"}, []),
        (None, ["OSError: [Errno 28] No space left on device: 'x'", "error"]),
        (None, ["tee: log: No space left on device"]),
    ],
)
def test_a_run_that_found_no_room_says_the_disk_is_full(cause, complaints):
    outcome = judge(PLAN, exit_code=1, ended="", verdict=Verdict(), cause=cause, complaints=complaints)
    assert outcome.reason == "DiskFull"
    assert outcome.message.startswith("the disk is full: the run exited with code 1")
    assert outcome.message.endswith("free some space, then `rlark start` it")


@pytest.mark.parametrize(
    ("ended", "message"),
    [
        ("Stopped", "stopped as asked"),
        ("DeadlineExceeded", "activeDeadline: the attempt took longer than 60 s and was ended"),
        ("DiskFull", "the disk of the job folder is full, so the log cannot be written and the run was ended; "),
    ],
)
def test_what_the_worker_ended_is_not_the_runs_fault(ended, message):
    outcome = judge(PLAN, exit_code=143, ended=ended, verdict=Verdict(), cause={"message": "SIGTERM"})
    assert (outcome.succeeded, outcome.reason, outcome.exit_code) == (False, ended, 143)
    assert outcome.message.startswith(message)


def test_a_stop_before_the_run_has_no_exit_code():
    assert judge(PLAN, exit_code=None, ended="Stopped", verdict=Verdict()).data()["exitCode"] is None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "exited with code 0"),
        (44, "exited with code 44"),
        (137, "exited with code 137, as after SIGKILL"),
        (128, "exited with code 128"),
        (255, "exited with code 255"),
        (-9, "was ended by SIGKILL"),
        (-99, "was ended by signal 99"),
    ],
)
def test_exit_codes_in_words(code, words):
    assert ended_with(code) == words


def test_prepare_that_exits_says_what_to_write_instead():
    outcome = prepare_failed(Trouble("exited", 0, 0), "")
    assert outcome.reason == "PrepareExited"
    assert "ended the shell with status 0" in outcome.message
    assert "leave it with return 0" in outcome.message


def test_prepare_that_fails_says_its_line():
    outcome = prepare_failed(Trouble("failed", 3, 127, "nope: command not found"), "nope --all")
    assert outcome.reason == "PrepareFailed"
    assert outcome.message == (
        "the prepare script failed at line 3 with status 127: nope --all (nope: command not found)"
    )


def test_survivors_are_named():
    outcome = Outcome(True, "Completed", "done").left(["12 (sleep)"])
    assert (outcome.message, outcome.data()["survivors"]) == ("done; could not be ended: 12 (sleep)", ["12 (sleep)"])
    assert Outcome(True, "Completed", "done").left([]).message == "done"
