"""Run scripts under a Ray head of their own, with a program of a few lines in Ray's place."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from rlark.host import process, sandbox
from rlark.plan.node import Device
from rlark.plan.plan import Output, Plan, PlannedMount, Signal
from rlark.worker import own_head

NAMES = ("one", "two")


# ---- to the good end


def test_what_prepare_sets_up_ray_and_the_run_find(begin, ray):
    attempt = begin(prepare="export PREPVAR=yes\ncd /tmp", run='echo "$PREPVAR in $PWD"').end()
    assert attempt.outcome["reason"] == "Completed"
    address = f"127.0.0.1:{ray.record['options']['port']}"
    assert attempt.log() == [
        "RLINF_NODE_RANK: 0",
        "Executing prepare script...",
        f"Ray Head started {address} session_2026-01-02_03-04-05_000006_7",
        "Ray cluster is ready. Printing cluster information:",
        "  node box",
        "  GPUs 3 (faked)",
        "  CPUs 1",
        "Executing run script...",
        "yes in /tmp",
        "Stopping Ray cluster...",
    ]
    assert (ray.record["env"]["PREPVAR"], ray.record["cwd"], ray.record["stdin"]) == ("yes", "/tmp", "")
    assert attempt.report("RayReady")["message"] == f"the Job's own head at {address} answers"
    assert attempt.steps == ["Worker", "Prepared", "RayReady", "Started", "Outcome"]


def test_without_a_prepare_script_the_head_comes_first_too(bare, ray):
    attempt = bare(run="echo up").end()
    assert (attempt.outcome["reason"], attempt.log()[-2:]) == ("Completed", ["up", "Stopping Ray cluster..."])
    assert attempt.report("Prepared")["reason"] == "NothingToPrepare"


def test_ray_is_started_with_what_is_leased_and_no_more(bare, ray):
    leased = {"cpus": 1.5, "memory": 2**30, "devices": [Device(id="GPU-b"), Device(id="5")], "node_id": "ab12"}
    bare(prepare="export CUDA_VISIBLE_DEVICES=0,1,2 RAY_ADDRESS=auto", run="true", leased=leased).end()
    options, env = ray.record["options"], ray.record["env"]
    assert (options["num-cpus"], options["num-gpus"], options["memory"]) == ("2", "2", str(2**30))
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-b,5"
    assert env["RAY_ADDRESS"] == f"127.0.0.1:{options['port']}"
    assert (env["RLINF_NODE_RANK"], env["CUDA_DEVICE_ORDER"]) == ("0", "PCI_BUS_ID")
    assert "RAY_START_HOOK" not in env
    assert "include-log-monitor" not in options


def test_a_lease_without_gpus_shows_none(bare, ray):
    bare(run="true", leased={"devices": [], "cpus": 0}).end()
    assert (ray.record["options"]["num-gpus"], ray.record["env"]["CUDA_VISIBLE_DEVICES"]) == ("0", "")
    assert ray.record["options"]["num-cpus"] == "1"


def test_the_run_is_told_its_head_before_ray_starts(bare, ray):
    shown = 'echo "$RAY_ADDRESS $RLARK_RAY_PORT $RLINF_NODE_RANK $RLARK_TOTAL_NODES $RLARK_TASK_ROLE $RAY_AUTH_MODE"'
    token = "stat -c %a $RAY_AUTH_TOKEN_PATH; wc -c < $RAY_AUTH_TOKEN_PATH"
    attempt = bare(prepare=f"{shown}; {token}", run=f"{shown}; {token}; cat $RAY_AUTH_TOKEN_PATH").end()
    port = ray.record["options"]["port"]
    told = [f"127.0.0.1:{port} {port} 0 1 worker token", "600", "65"]
    assert attempt.log()[2:5] == told
    assert attempt.log()[-5:] == [*told, "***", "Stopping Ray cluster..."]


def test_the_platforms_ray_job_does_not_reach_the_run(bare, ray, monkeypatch):
    monkeypatch.setattr("rlark.worker.environment.allowed", lambda outer: {"PATH": outer["PATH"]})
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    attempt = bare(run="env | grep -c RAY_JOB || true").end()
    assert attempt.log()[-2] == "0"
    assert "RAY_JOB_CONFIG_JSON_ENV_VAR" not in ray.record["env"]


@pytest.mark.parametrize("name", ["demo-x2k9z", "demo-9abcd", "demo-7"])
def test_whatever_its_name_its_rank_is_0(start, ray, name):
    env = {"PATH": ray.path}
    attempt = start(name=name, head="job", env=env, run='echo "rank $RLINF_NODE_RANK"').end()
    assert (attempt.log()[0], attempt.log()[-2]) == ("RLINF_NODE_RANK: 0", "rank 0")


def test_two_heads_at_once_share_neither_ports_nor_folders(start, ray, tmp_path):
    run = f"touch {tmp_path}/up-$RLARK_JOB; while [ $(ls {tmp_path}/up-* | wc -l) -lt 2 ]; do sleep 0.05; done"
    own = f"{tmp_path}/ray-$RLARK_JOB"
    prepare = f"mkdir {own}; cp {ray.folder}/ray {own}; PATH={own}:$PATH"
    both = [start(name=name, head="job", prepare=prepare, run=run) for name in NAMES]
    assert [attempt.end().outcome["reason"] for attempt in both] == ["Completed", "Completed"]
    one, two = (json.loads((tmp_path / f"ray-{name}" / "record.json").read_text())["options"] for name in NAMES)
    ports = [{value for key, value in options.items() if "port" in key} for options in (one, two)]
    assert len(ports[0]) == 11
    assert not ports[0] & ports[1]
    assert one["temp-dir"] != two["temp-dir"]


def test_an_engine_gets_a_lean_head_by_rlarks_own_ray(tmp_path, ray):
    plan = Plan(job="demo", node="box", head="job", engine="toy", command=["true"])
    head = made(plan, tmp_path)
    script = head.script({})
    assert "if true ||" in script
    assert "RAY_START_HOOK=rlark.host.hook.lean" in script
    assert "--include-log-monitor=false" in script
    head.close(lambda text: text)


def made(plan, tmp_path, **leased):
    from rlark.folder import JobFolder
    from rlark.host.clock import SystemClock
    from rlark.plan.node import Lease

    folder = JobFolder(tmp_path / "jobs" / "demo")
    folder.create()
    lease = Lease(job="demo", attempt=1, key="k", node="box", **leased)
    return own_head.OwnHead(plan, lease, folder, os.environ, SystemClock())


def test_rays_sockets_do_not_lie_behind_a_mount(tmp_path):
    plan = Plan(job="demo", node="box", run="true", head="job", mounts=[PlannedMount(path="/tmp", scratch=True)])
    places = own_head._places(plan, {"TMPDIR": "/tmp/mine", "XDG_RUNTIME_DIR": "/run/user/7"})
    assert places == [Path("/var/tmp"), Path("/run/user/7")]


# ---- what it leaves


def test_its_own_logs_are_kept_masked_and_nothing_else(begin, ray):
    attempt = begin(run="true", env={"API_KEY": "s3cr3tvalue"}).end()
    kept = attempt.folder.logs(1) / "ray"
    assert {path.name for path in kept.iterdir()} == {"raylet.out", "ray-start.log"}
    assert (kept / "raylet.out").read_text() == "the key is ***"
    assert "Ray runtime started." in (kept / "ray-start.log").read_text()
    assert not ray.temp_dir.exists()
    assert list(attempt.folder.head.iterdir()) == []


def test_the_head_ends_after_the_run_and_in_order(begin, ray, tmp_path):
    trap = f"trap 'sleep 0.3; date +%s.%N > {tmp_path}/late; exit' TERM"
    late = f"({trap}; touch {tmp_path}/up; while :; do sleep 0.05; done) &"
    attempt = begin(run=f"{late}\nwhile [ ! -e {tmp_path}/up ]; do sleep 0.02; done").end()
    assert attempt.outcome["reason"] == "Completed"
    assert float((ray.folder / "raylet-ended").read_text()) > float((tmp_path / "late").read_text())
    assert attempt.outcome["data"]["survivors"] == []


def test_descriptors_that_prepare_opens_are_not_those_that_the_worker_listens_to(begin):
    opens = 'for n in {3..30}; do eval "exec $n>&1"; done'
    attempt = begin(prepare=opens, run="echo up").end()
    assert (attempt.outcome["reason"], attempt.log()[-2]) == ("Completed", "up")


def test_what_prepare_changes_that_it_better_had_not_is_told(bare, ray):
    changes = "export CUDA_VISIBLE_DEVICES=0,1,2; unset RAY_ADDRESS; set +e -u; false"
    attempt = bare(prepare=changes, run="false; echo $CUDA_VISIBLE_DEVICES").end()
    assert attempt.outcome["reason"] == "Completed"
    assert attempt.log()[-2] == "0,1,2"
    assert ray.record["env"]["CUDA_VISIBLE_DEVICES"] == "3"
    variables, option = [report for report in attempt.reports if report["type"] == "Warning"]
    assert (variables["reason"], option["reason"]) == ("VariableChanged", "ShellOptionOff")
    assert variables["message"].startswith("the prepare script changes CUDA_VISIBLE_DEVICES, RAY_ADDRESS: ")
    assert option["message"].startswith("the prepare script leaves `set +e` behind: ")


def test_a_path_of_the_jobs_own_hides_nothing_that_the_worker_needs(begin, ray):
    attempt = begin(env={"PATH": "/nowhere"}, prepare=f"PATH={ray.path}", run="echo up").end()
    assert (attempt.outcome["reason"], attempt.log()[-2]) == ("Completed", "up")


def test_what_prepare_has_left_in_the_background_is_no_part_of_the_head(bare, ray, tmp_path):
    saves = f"trap 'date +%s.%N > {tmp_path}/saved; exit' TERM"
    leaves = f"(sleep 0.3; ({saves}; touch {tmp_path}/up; while :; do sleep 0.05; done) & wait) &"
    waits = f"while [ ! -e {tmp_path}/up ]; do sleep 0.02; done"
    attempt = bare(prepare=leaves, env={"FAKE_RAY_WAITS_FOR": f"{tmp_path}/up"}, run=waits).end()
    assert attempt.outcome["reason"] == "Completed"
    assert float((tmp_path / "saved").read_text()) < float((ray.folder / "raylet-ended").read_text())


# ---- while it lives


def test_a_run_that_is_halted_has_not_ended(begin):
    attempt = begin(run="echo up; while [ ! -e go-on ]; do sleep 0.02; done; exit 4")
    attempt.wait_for("up")
    run = attempt.run()
    os.kill(run, signal.SIGSTOP)
    (attempt.folder.work / "go-on").touch()
    time.sleep(0.3)
    assert attempt.report("Outcome") is None
    os.kill(run, signal.SIGCONT)
    assert attempt.end().outcome["data"]["exitCode"] == 4


def test_a_run_that_stops_ray_is_told_so_and_its_exit_code_stays_the_truth(begin, monkeypatch):
    monkeypatch.setattr("rlark.worker.own_head.LOOK_S", 0.05)
    attempt = begin(run="ray stop; sleep 0.5; echo alive; exit 5").end()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["exitCode"]) == ("RunFailed", 5)
    warnings = [report for report in attempt.reports if report["reason"] == "RayHeadEnded"]
    assert len(warnings) == 1
    assert "the Job's Ray head has ended: its " in warnings[0]["message"]
    assert "alive" in attempt.log()


def test_the_pids_that_a_run_writes_down_are_told_as_the_workers(begin):
    ranks = (
        '{"fused": true, "ranks": [{"component": "actor", "rank": 0, "pid": %s}, {"component": "env", "pid": 99999}]}'
    )
    run = f"printf '{ranks}' $$ > $RLARK_JOB_DIR/ranks.json; echo up; exec sleep 60"
    attempt = begin(run=run)
    (rank, lost) = attempt.wait_for_report("Placed")["data"]["ranks"]
    assert rank["pid"] == attempt.run()
    assert process.command(rank["pid"]) == "sleep 60"
    assert process.identify(lost["pid"]) is None
    attempt.stop()


def test_the_stacks_of_a_silent_run_leave_the_head_out(begin):
    wanted = Signal(pattern="never", within=0.1)
    run = f"exec {sys.executable} -S -c \"import time; print('up', flush=True); time.sleep(60)\""
    attempt = begin(run=run, signal=wanted)
    attempt.wait_for("--- ", "stderr")
    attempt.stop()
    headings = [line for line in attempt.log("stderr") if line.startswith("--- ")]
    assert len(headings) == 1, headings
    assert "time.sleep(60)" in headings[0]


def test_a_fenced_run_is_told_by_its_process(start):
    if reason := sandbox.unavailable():
        pytest.skip(reason)
    attempt = start(sandbox="bubblewrap", run="sleep 60")
    assert "scripts/start.sh" in process.command(attempt.run())
    attempt.stop()


def test_outputs_behind_a_mount_are_found_where_they_lie(start, ray, tmp_path):
    reason = sandbox.unavailable()
    if reason:
        pytest.skip(reason)
    mounts = [PlannedMount(path="/mnt/rlark-test-out", volume="demo-out")]
    attempt = start(
        head="job",
        sandbox="bubblewrap",
        env={"PATH": ray.path},
        mounts=mounts,
        run="echo weights > /mnt/rlark-test-out/policy.bin",
        outputs=[Output(path="/mnt/rlark-test-out/policy.bin")],
    ).end()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["verdict"]["verified"]) == ("Completed", True)
