from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlark.folder import read_json
from rlark.host import process
from rlark.plan.plan import Output, RankPlacement, Signal

FUSED = {name: [RankPlacement(rank=0)] for name in ("actor", "rollout", "env")}
ENGINE = {
    "engine": "toy",
    "command": ["{python}", "-m", "toy_engine"],
    "config": {"runner": {"max_epochs": 3}},
    "placement": FUSED,
    "fused": True,
    "evidence": True,
    "signal": Signal(pattern=r"iter \d+/\d+"),
}


def gone(pid: int) -> bool:
    until = time.monotonic() + 3
    while process.identify(pid) is not None:
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


# ---- to the good end


def test_an_engine_lives_through_all_steps(start):
    attempt = start(**ENGINE).end()
    assert attempt.steps == [
        "Worker",
        "Prepared",
        "RayReady",
        "Started",
        "Placed",
        "SignalSeen",
        "OutputsVerified",
        "Outcome",
    ]
    assert [report["n"] for report in attempt.reports] == list(range(1, 9))
    assert attempt.reports[0]["data"].keys() == {"pid", "starttime"}
    assert attempt.outcome["status"] is True
    assert attempt.outcome["reason"] == "Completed"
    assert attempt.outcome["data"]["exitCode"] == 0
    assert attempt.outcome["data"]["verdict"]["verified"] is True
    assert attempt.outcome["data"]["survivors"] == []
    (rank,) = attempt.report("Placed")["data"]["ranks"]
    assert rank["component"] == "actor+rollout+env"
    assert "iter 1/3 meanReward=" in attempt.report("SignalSeen")["message"]
    assert attempt.process.returncode == 0


def test_the_log_says_where_a_run_stands(start):
    attempt = start(prepare="echo preparing", run="echo running; echo a complaint >&2").end()
    log = attempt.log()
    address = attempt.folder.lease.read_text().split('"address": "')[1].split('"')[0]
    assert log == [
        "RLINF_NODE_RANK: 0",
        "Executing prepare script...",
        "preparing",
        f"Ray Head started {address} session_1",
        "Ray cluster is ready. Printing cluster information:",
        "  node box",
        "  GPUs 3 (faked)",
        "  CPUs 1",
        "Executing run script...",
        "running",
        "Stopping Ray cluster...",
    ]
    assert attempt.log("stderr") == ["a complaint"]


def test_a_run_script_proves_itself_by_its_outputs(start):
    outputs = [Output(path="policy.bin", min_bytes=3)]
    attempt = start(run="echo weights > $RLARK_JOB_DIR/artifacts/policy.bin", outputs=outputs).end()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["verdict"]["verified"]) == ("Completed", True)
    attempt = start(2, run="true", outputs=outputs).end()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["exitCode"]) == ("OutputMissing", 0)
    assert attempt.report("OutputsVerified")["status"] is False
    assert attempt.process.returncode == 1


def test_nothing_expected_is_neither_proved_nor_disproved(start):
    attempt = start(run="true").end()
    assert attempt.outcome["status"] is True
    assert attempt.outcome["data"]["verdict"]["verified"] is None
    assert attempt.report("OutputsVerified") is None


def test_what_prepare_sets_up_the_run_finds(start):
    script = 'export WORD=moon\ncd /\nsay() { echo "$WORD in $PWD"; }'
    attempt = start(prepare=script, run="say").end()
    assert "moon in /" in attempt.log()
    assert attempt.report("Prepared")["status"] is True


def test_an_engine_takes_the_shells_place_unless_prepare_has_something_to_do_at_the_end(start):
    command = ["{python}", "-c", "import os; print('mine', os.getpid() == int(os.environ['SHELL_PID']))"]
    attempt = start(prepare="export SHELL_PID=$$", engine="toy", command=command).end()
    assert "mine True" in attempt.log()
    attempt = start(2, prepare="export SHELL_PID=$$; trap 'echo tidied up' EXIT", engine="toy", command=command).end()
    assert {"mine False", "tidied up"} <= set(attempt.log())


def test_it_starts_in_the_work_folder_with_the_platforms_variables(start):
    attempt = start(run='echo "$PWD $RLARK_JOB $RLARK_ATTEMPT $CUDA_VISIBLE_DEVICES"', env={"RLARK_JOB": "mine"}).end()
    assert f"{attempt.folder.work} demo 1 3" in attempt.log()
    assert attempt.report("Warning")["message"] == "the platform sets RLARK_JOB; the Job's own values are not used"


def test_scripts_are_files_that_only_their_owner_reads_and_secrets_are_masked(start):
    attempt = start(prepare="true", run='echo "the key is $API_KEY"', env={"API_KEY": "s3cr3tvalue"}).end()
    assert "the key is ***" in attempt.log()
    assert {path.stat().st_mode & 0o777 for path in attempt.folder.scripts.iterdir()} == {0o600}
    assert "s3cr3tvalue" not in attempt.folder.reports.read_text()


def test_versions_and_devices_are_written_down(start):
    attempt = start(run="true").end()
    facts = read_json(attempt.folder.environment)
    assert {"python", "rlark", "packages", "host", "leased", "devices"} <= set(facts)
    assert "numpy" in facts["packages"]
    assert facts["leased"]["devices"] == [{"id": "3", "uuid": None, "model": "", "faked": True}]


def test_a_program_that_only_prints_has_metrics_too(start):
    attempt = start(run="for i in 1 2; do echo iter $i/2 meanReward=$i; done").end()
    assert len(attempt.folder.metrics.read_text().splitlines()) == 2


def test_the_next_attempt_keeps_logs_and_reports_and_nothing_of_the_run(start):
    start(run="echo first; touch $RLARK_JOB_DIR/artifacts/old").end()
    attempt = start(2, run="echo second; ls $RLARK_JOB_DIR/artifacts").end()
    assert attempt.log()[-2:] == ["second", "Stopping Ray cluster..."]
    assert (attempt.folder.logs(1) / "stdout.log").exists()
    assert attempt.reports[0]["n"] > 1


# ---- to the bad end


@pytest.mark.parametrize(
    ("run", "code", "message"),
    [
        ("echo oops >&2; exit 3", 3, "the run exited with code 3; its last words: oops"),
        ("kill -9 $$", -9, "the run was ended by SIGKILL"),
        ("false; echo never", 1, "the run exited with code 1"),
        ("false | cat; echo never", 1, "the run exited with code 1"),
        ("exit 300", 44, "the run exited with code 44"),
    ],
)
def test_the_exit_code_is_the_truth(start, run, code, message):
    attempt = start(run=run).end()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["exitCode"]) == ("RunFailed", code)
    assert attempt.outcome["message"] == message
    assert "never" not in attempt.log()


@pytest.mark.parametrize(
    ("script", "reason", "message"),
    [
        (
            "echo a\nls /nowhere-at-all\necho b",
            "PrepareFailed",
            "failed at line 2 with status 2: ls /nowhere-at-all (ls: ",
        ),
        ("f() {\n  false\n}\nf", "PrepareFailed", "failed at line 2 with status 1: false"),
        ("set -u\necho $NOTHING", "PrepareFailed", "failed at line 2 with status 1: echo $NOTHING (NOTHING: unbound"),
        ("if then\nfi", "PrepareFailed", "failed at line 1 with status 2: if then (syntax error"),
        ("true | false | true", "PrepareFailed", "failed at line 1 with status 1: true | false | true"),
        ("exit 0", "PrepareExited", "ended the shell with status 0 before the run could begin"),
        ("x=$(false; echo y)\nfalse || exit 4", "PrepareExited", "ended the shell with status 4"),
        ("exec true", "PrepareExited", "ended the shell with status 0"),
    ],
)
def test_a_prepare_script_that_does_not_get_to_its_end_says_where(start, script, reason, message):
    attempt = start(prepare=script, run="echo never").end()
    assert attempt.outcome["reason"] == reason
    assert message in attempt.outcome["message"]
    assert attempt.outcome["data"]["exitCode"] is None
    assert attempt.steps == ["Worker", "Prepared", "Outcome"]
    assert "never" not in attempt.log()


def test_a_shell_that_dies_between_prepare_and_run_tells_by_its_exit_code(start):
    attempt = start(prepare="read() { exit 9; }", run="echo never").end()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["exitCode"]) == ("RunFailed", 9)
    assert "never" not in attempt.log()


def test_an_engine_without_evidence_failed(start):
    attempt = start(**{**ENGINE, "command": ["true"]}).end()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["exitCode"]) == ("EvidenceMissing", 0)
    assert "training_result_missing" in attempt.outcome["message"]
    assert attempt.report("SignalSeen")["reason"] == "NotSeen"


def test_the_runs_own_first_cause_is_handed_on(start):
    cause = {"component": "env", "rank": 1, "exception": "RuntimeError", "message": "a fault of the test"}
    attempt = start(run=f"echo '{json.dumps(cause)}' > $RLARK_JOB_DIR/failure.json; exit 1").end()
    assert attempt.outcome["reason"] == "RunFailed"
    assert attempt.outcome["data"]["cause"] == cause
    assert attempt.outcome["message"].startswith("env rank 1: RuntimeError: a fault of the test; the run exited")


def test_a_head_that_does_not_answer_fails_at_once(start):
    attempt = start(address="127.0.0.1:1", run="echo never").end()
    assert attempt.outcome["reason"] == "RayNotReady"
    assert "127.0.0.1:1 does not answer" in attempt.outcome["message"]
    assert attempt.log() == ["RLINF_NODE_RANK: 0", "Stopping Ray cluster..."]


def test_a_plan_that_cannot_be_read_is_told(start):
    attempt = start(run="true", before=lambda folder: folder.plan.write_text("{")).end()
    assert attempt.outcome["reason"] == "WorkerCrashed"
    assert attempt.process.returncode == 1


def test_without_a_lease_there_is_nothing_to_report_on(start):
    attempt = start(run="true", before=lambda folder: folder.lease.unlink()).end()
    assert (attempt.process.returncode, attempt.folder.reports.exists()) == (2, False)


def test_the_worker_is_started_as_a_program(start):
    attempt = start(run="exit 5").end()
    command = [sys.executable, "-m", "rlark.worker"]
    done = subprocess.run([*command, str(attempt.folder.root)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "RunFailed: the run exited with code 5\n")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (2, "usage: python -m rlark.worker FOLDER\n")


# ---- a full disk


@pytest.mark.parametrize(
    ("stream", "run"), [("stdout", "echo hello; sleep 60"), ("stderr", "echo hello >&2; trap '' TERM; sleep 60")]
)
def test_a_log_that_finds_no_room_ends_the_run(start, stream, run):
    def fill(folder):
        folder.logs(1).mkdir(parents=True)
        (folder.logs(1) / f"{stream}.log").symlink_to("/dev/full")

    attempt = start(run=run, before=fill, grace_s=0.3).end()
    assert attempt.outcome["reason"] == "DiskFull"
    assert "free some space, then `rlark start` it" in attempt.outcome["message"]


def test_a_run_that_finds_no_room_says_so(start):
    attempt = start(run="echo hello > /dev/full").end()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["exitCode"]) == ("DiskFull", 1)


# ---- stopped


def test_a_stop_gives_the_run_its_grace_and_leaves_nothing_behind(start, tmp_path: Path):
    daemon = (
        f"setsid bash -c 'trap \"\" TERM; echo $$ > {tmp_path}/daemon; while :; do sleep 0.1; done' >/dev/null 2>&1 &"
    )
    waits = f"while [ ! -s {tmp_path}/daemon ]; do sleep 0.02; done"
    run = f"trap 'echo saving; exit 0' TERM\n{daemon}\n{waits}\necho up\nwhile :; do sleep 0.05; done"
    attempt = start(run=run, grace_s=0.5)
    attempt.wait_for("up")
    attempt.stop()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["exitCode"]) == ("Stopped", 0)
    assert "saving" in attempt.log()
    assert attempt.log()[-1] == "Stopping Ray cluster..."
    assert gone(int((tmp_path / "daemon").read_text()))
    assert attempt.outcome["data"]["survivors"] == []


def test_a_run_that_does_not_listen_is_killed_after_its_grace(start):
    attempt = start(run="trap '' TERM; echo up; while :; do sleep 0.05; done", grace_s=0.3)
    attempt.wait_for("up")
    began = time.monotonic()
    attempt.stop()
    assert time.monotonic() - began < 3
    assert (attempt.outcome["reason"], attempt.outcome["data"]["exitCode"]) == ("Stopped", -9)


def test_prepare_can_be_stopped_too(start):
    attempt = start(prepare="echo up; sleep 60", run="echo never")
    attempt.wait_for("up")
    attempt.stop()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["exitCode"]) == ("Stopped", None)
    assert attempt.steps == ["Worker", "Outcome"]


def test_an_engine_that_is_stopped_takes_a_checkpoint(start):
    config = {"runner": {"max_epochs": 10_000, "save_interval": 10_000}, "toy": {"pace_s": 0.02}}
    attempt = start(**{**ENGINE, "config": config})
    attempt.wait_for("iter 1/")
    attempt.stop()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["exitCode"]) == ("Stopped", 143)
    assert list(attempt.folder.checkpoints.glob("global_step_*"))


def test_a_stop_that_reaches_the_run_first_is_still_a_stop(start):
    attempt = start(run="echo up; sleep 60")
    attempt.wait_for("up")
    os.kill(attempt.run(), signal.SIGTERM)
    attempt.stop()
    assert attempt.outcome["reason"] == "Stopped"


def test_a_run_that_ends_well_as_soon_as_it_is_told_to_is_stopped_all_the_same(start):
    attempt = start(run="trap 'exit 0' TERM; echo up; while :; do sleep 0.01; done", grace_s=5)
    attempt.wait_for("up")
    os.kill(attempt.run(), signal.SIGTERM)
    attempt.stop()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["exitCode"]) == ("Stopped", 0)


def test_a_run_that_takes_too_long_is_ended(start):
    attempt = start(run="sleep 60", deadline_s=0.5).end()
    assert attempt.outcome["reason"] == "DeadlineExceeded"
    assert "longer than 0.5 s" in attempt.outcome["message"]


def test_what_the_run_leaves_in_the_background_is_ended(start):
    attempt = start(run="sleep 60 & echo $!").end()
    assert attempt.outcome["reason"] == "Completed"
    assert gone(int(attempt.log()[-2]))


def test_a_killed_worker_takes_its_run_along(start):
    attempt = start(run="echo up; exec sleep 60")
    attempt.wait_for("up")
    run = attempt.run()
    attempt.process.kill()
    attempt.process.wait(5)
    assert gone(run)


# ---- the first signal


def test_a_silent_run_is_told_with_its_stacks_and_goes_on(start):
    signal_wanted = Signal(pattern="iter 1/", within=0.1, expected=True)
    program = "import os, time\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\nprint('iter 1/1')"
    attempt = start(engine="", run=f'exec python3 -c "{program}"', signal=signal_wanted)
    attempt.wait_for("--- ", "stderr")
    (attempt.folder.work / "go").touch()
    attempt.end()
    stalled = attempt.report("SignalSeen")
    assert (stalled["status"], stalled["reason"]) == (False, "Stalled")
    assert "'iter 1/' within 0.1 s" in stalled["message"]
    assert any(line.startswith("--- ") and "python3" in line for line in attempt.log("stderr"))
    assert attempt.outcome["status"] is True
    assert attempt.outcome["data"]["verdict"]["verified"] is False
    assert "is not verified" in attempt.outcome["message"]


def test_a_stop_does_not_wait_for_the_stacks(start, monkeypatch):
    monkeypatch.setattr("rlark.worker.watch.dump", lambda *_: time.sleep(60))
    monkeypatch.setattr("rlark.worker.life.DRAIN_S", 0.1)
    attempt = start(run="exec sleep 60", signal=Signal(pattern="never", within=0.05))
    attempt.wait_for_report("SignalSeen")
    began = time.monotonic()
    attempt.stop()
    assert attempt.outcome["reason"] == "Stopped"
    assert time.monotonic() - began < 5


def test_what_prepare_prints_is_no_sign_of_life(start):
    signal_wanted = Signal(pattern="iter 1/", expected=True)
    attempt = start(prepare="echo iter 1/9", run="true", signal=signal_wanted).end()
    assert attempt.report("OutputsVerified")["message"] == "nothing was expected of its files"
    assert attempt.report("SignalSeen")["reason"] == "NotSeen"
    attempt = start(2, prepare="true", run="echo iter 1/9 >&2", signal=signal_wanted).end()
    assert attempt.report("SignalSeen")["status"] is True
    assert attempt.outcome["data"]["verdict"]["verified"] is True
