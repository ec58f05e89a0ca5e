from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rlark.evidence.verify import verify
from rlark.folder import read_json, write_json
from rlark.plan.node import HeadAddress


def test_a_job_is_trained_exported_and_proved(assign, run_toy):
    folder = assign(fused=True, gpus=1).folder
    done = run_toy(folder.root)
    assert done.returncode == 0, done.stderr
    assert "[toy] iter 1/4 meanReward=" in done.stdout
    ranks = read_json(folder.ranks)
    assert ranks["fused"] is True
    assert [(r["component"], r["log"]) for r in ranks["ranks"]] == [("actor+rollout+env", "stdout.log")]
    assert len(folder.metrics.read_text().splitlines()) == 4
    assert list(folder.tensorboard.iterdir())
    verdict = verify(folder.root, started_at=None, outputs=[], evidence=True, gate=False)
    assert verdict.verified, verdict.failed
    assert folder.result.stat().st_mtime_ns >= (folder.artifacts / "SHA256SUMS").stat().st_mtime_ns
    assert not folder.failure.exists()
    seen = read_json(folder.artifacts / "rank-actor-0.json")["environment"]  # as it was when the rank was built
    assert (seen["OMP_NUM_THREADS"], seen["CUDA_VISIBLE_DEVICES"], seen["WORLD_SIZE"]) == ("2", "", "1")


def test_a_run_goes_on_from_a_checkpoint_to_the_same_end(assign, run_toy, tmp_path: Path):
    whole = assign(fused=True, runner={"max_epochs": 6}).folder
    assert run_toy(whole.root).returncode == 0
    expected = (whole.checkpoints / "global_step_6" / "actor.pkl").read_bytes()
    saved = tmp_path / "saved"
    (whole.checkpoints / "global_step_3").rename(saved)
    again = assign(fused=True, runner={"max_epochs": 6, "resume_dir": str(saved)}).folder
    again.metrics.unlink()
    done = run_toy(again.root)
    assert f"continuing after iteration 3 from {saved}" in done.stderr
    assert (again.checkpoints / "global_step_6" / "actor.pkl").read_bytes() == expected
    assert [json.loads(line)["iteration"] for line in again.metrics.read_text().splitlines()] == [4, 5, 6]


FAILS_AT_5 = {"fault": {"component": "actor", "iteration": 5}}


@pytest.mark.parametrize("damaged", [False, True])
def test_an_attempt_after_a_failed_one_goes_on_from_its_last_whole_checkpoint(assign, run_toy, damaged):
    assignment = assign(fused=True, runner={"max_epochs": 6}, toy=FAILS_AT_5)
    folder = assignment.folder
    assert run_toy(folder.root).returncode == 1
    if damaged:
        (folder.checkpoints / "global_step_4" / "actor.pkl").write_bytes(b"half of it")
    write_json(folder.lease, assignment.lease.model_copy(update={"retry": 1}).to_json())
    done = run_toy(folder.root)
    assert done.returncode == 0, done.stderr
    told = "global_step_4 cannot be continued from" in done.stderr
    assert told == damaged
    assert f"continuing after iteration {3 if damaged else 4} from" in done.stderr
    assert [json.loads(line)["iteration"] for line in folder.metrics.read_text().splitlines()] == [1, 2, 3, 4, 5, 6]


def test_where_no_checkpoint_is_whole_it_begins_anew_and_tells_each_iteration_once(assign, run_toy):
    assignment = assign(fused=True, runner={"max_epochs": 6}, toy=FAILS_AT_5)
    folder = assignment.folder
    assert run_toy(folder.root).returncode == 1
    for path in folder.checkpoints.glob("*/rest.pkl"):
        path.write_bytes(b"half of it")
    write_json(folder.lease, assignment.lease.model_copy(update={"retry": 1}).to_json())
    assert run_toy(folder.root).returncode == 1  # the toy fails at iteration 5 whenever it gets there
    assert [json.loads(line)["iteration"] for line in folder.metrics.read_text().splitlines()] == [1, 2, 3, 4]


def test_a_checkpoint_of_another_task_is_refused_with_words(assign, run_toy, tmp_path: Path):
    first = assign(fused=True, env={"train": {"task": "point-run"}}).folder
    assert run_toy(first.root).returncode == 0
    saved = (first.checkpoints / "global_step_4").rename(tmp_path / "saved")
    walk = {"train": {"task": "point-walk"}}
    again = assign(fused=True, env=walk, runner={"max_epochs": 6, "resume_dir": str(saved)}).folder
    done = run_toy(again.root)
    assert done.returncode == 2
    assert "the checkpoint is of the task point-run, and this run is of the task point-walk" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_attempt_after_one_that_failed_before_its_first_checkpoint_begins_anew(assign, run_toy):
    assignment = assign(fused=True, runner={"max_epochs": 2})
    write_json(assignment.folder.lease, assignment.lease.model_copy(update={"retry": 1}).to_json())
    done = run_toy(assignment.folder.root)
    assert (done.returncode, "continuing" in done.stderr) == (0, False)


def test_numpy_is_not_loaded_before_the_rank_knows_how_many_threads_it_has():
    code = "import rlark.runtime.main, sys; print(sorted({'numpy', 'torch', 'ray'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=True)
    assert done.stdout == "[]\n"


def failure(folder) -> dict:
    return read_json(folder.failure) or {}


def test_without_a_job_it_says_how_an_engine_is_started(run_toy):
    done = run_toy(None)
    assert done.returncode == 2
    assert done.stderr == (
        "error: UsageError: RLARK_JOB_DIR is not set, so there is nothing to train. "
        "(an engine is started by a Job, rlark submit JOB.yaml, or by a training worker, "
        "which sets RDK_SIM2REAL_REQUEST_FILE and RDK_SIM2REAL_RESULT_FILE)\n"
    )


def test_a_folder_without_a_lease_is_refused(assign, run_toy):
    folder = assign(fused=True).folder
    folder.lease.unlink()
    done = run_toy(folder.root)
    assert (done.returncode, "lease.json is missing" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"runner": {"max_epoch": 3}}, "max_epoch"),
        ({"runner": {"max_epochs": 0}}, "max_epochs"),
        ({"runner": {"resume_dir": "nowhere"}}, "runner.resume_dir: cannot continue from"),
    ],
)
def test_a_configuration_the_engine_refuses_ends_with_2_and_its_words(assign, run_toy, config, said):
    folder = assign(fused=True, **config).folder
    done = run_toy(folder.root)
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert said in failure(folder)["message"]
    assert "Traceback" not in done.stderr


def test_what_an_engine_lacks_is_named_with_its_install_line(assign, tmp_path: Path, toys: Path):
    package = tmp_path / "poor"
    (package / "poor").mkdir(parents=True)
    (package / "poor-1.dist-info").mkdir()
    (package / "poor-1.dist-info" / "METADATA").write_text("Name: poor\nVersion: 1\n")
    (package / "poor-1.dist-info" / "entry_points.txt").write_text("[rlark.engines]\npoor = poor:ENGINE\n")
    (package / "poor" / "__init__.py").write_text(
        "from rlark.engine import Engine, Requirement\n"
        "ENGINE = Engine(id='poor', title='', module='poor', program='poor:no', config='poor:no',\n"
        "    requirements=(Requirement('package', 'moondust', 'pip install moondust'),))\n"
    )
    command = [sys.executable, "-c", "import sys; from rlark.runtime.main import main; sys.exit(main(sys.argv[1]))"]
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{package}:{toys}",
        "RLARK_JOB_DIR": str(assign(fused=True).folder.root),
    }
    done = subprocess.run([*command, "poor"], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "The engine poor lacks what it needs: package moondust (pip install moondust)" in done.stderr
    done = subprocess.run([*command, "none"], env=env, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "There is no engine 'none' here; installed: " in done.stderr


def test_a_fault_in_training_is_the_first_cause(assign, run_toy):
    folder = assign(fused=True, toy={"fault": {"component": "actor", "iteration": 2}}).folder
    done = run_toy(folder.root)
    assert done.returncode == 1
    cause = failure(folder)
    assert (cause["component"], cause["exception"], cause["message"]) == (
        "actor+rollout+env",
        "RuntimeError",
        "a fault of the test",
    )
    assert cause["lines"][-1] == "RuntimeError: a fault of the test"
    assert not folder.result.exists()


def test_a_head_that_does_not_answer_is_told(assign, run_toy):
    assignment = assign(ranks=(1, 1, 1))
    done = run_toy(assignment.folder.root)
    assert done.returncode == 2
    assert "no Ray head was leased" in done.stderr
    lease = assignment.lease.model_copy(update={"head": HeadAddress(address="127.0.0.1:1")})
    write_json(assignment.folder.lease, lease.to_json())
    done = run_toy(assignment.folder.root)
    assert done.returncode == 1
    assert failure(assignment.folder)["message"].startswith("The Ray head at 127.0.0.1:1 does not answer.")


def test_a_run_that_is_asked_to_stop_takes_a_checkpoint_and_ends_with_143(assign, toys: Path):
    folder = assign(fused=True, runner={"max_epochs": 1000, "save_interval": 1000}, toy={"pace_s": 0.02}).folder
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(toys), "RLARK_JOB_DIR": str(folder.root)}
    run = subprocess.Popen(
        [sys.executable, "-m", "toy_engine"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until = time.monotonic() + 30
    while not folder.metrics.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    run.send_signal(signal.SIGTERM)
    _, said = run.communicate(timeout=10)
    assert run.returncode == 143
    assert said.decode().splitlines()[-1] == "stopped as asked"
    done = len(folder.metrics.read_text().splitlines())
    assert [path.name for path in folder.checkpoints.glob("global_step_*")] == [f"global_step_{done}"]
    assert not folder.failure.exists()
