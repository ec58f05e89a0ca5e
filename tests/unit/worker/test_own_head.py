"""Run scripts under a Ray head of their own, with a program of a few lines in Ray's place."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from rlark.cluster.on_ray import remains
from rlark.host import process, sandbox
from rlark.plan.node import Device
from rlark.plan.plan import Output, Plan, PlannedMount, Signal
from rlark.worker import own_head

FENCES = [
    "none",
    pytest.param(
        "bubblewrap", marks=pytest.mark.skipif(bool(sandbox.unavailable()), reason="bubblewrap does not work here")
    ),
]


def gone(pid: int) -> bool:
    until = time.monotonic() + 3
    while process.identify(pid) is not None:
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


@pytest.fixture(params=FENCES)
def begin(start, ray, request):
    """Starts a worker whose Job has a head of its own, with and without a fence."""

    def begin(how="", env=None, number=1, **plan):
        path = {"PATH": f"{ray}:{os.environ['PATH']}", "FAKE_RAY": how}
        return start(number, head="job", sandbox=request.param, env=path | (env or {}), **plan)

    return begin


@pytest.fixture
def bare(start, ray):
    """The same without a fence, for what a fence has no part in."""

    def begin(how="", env=None, number=1, **plan):
        path = {"PATH": f"{ray}:{os.environ['PATH']}", "FAKE_RAY": how}
        return start(number, head="job", env=path | (env or {}), **plan)

    return begin


def record(ray: Path) -> dict:
    return json.loads((ray / "record.json").read_text())


def temp_dir(ray: Path) -> Path:
    return Path(record(ray)["options"]["temp-dir"]).parent


# ---- to the good end


def test_what_prepare_sets_up_ray_and_the_run_find(begin, ray):
    attempt = begin(prepare="export PREPVAR=yes\ncd /tmp", run='echo "$PREPVAR in $PWD"').end()
    assert attempt.outcome["reason"] == "Completed"
    address = f"127.0.0.1:{record(ray)['options']['port']}"
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
    assert (record(ray)["env"]["PREPVAR"], record(ray)["cwd"], record(ray)["stdin"]) == ("yes", "/tmp", "")
    assert attempt.report("RayReady")["message"] == f"the Job's own head at {address} answers"
    assert attempt.steps == ["Worker", "Prepared", "RayReady", "Started", "Outcome"]


def test_without_a_prepare_script_the_head_comes_first_too(bare, ray):
    attempt = bare(run="echo up").end()
    assert (attempt.outcome["reason"], attempt.log()[-2:]) == ("Completed", ["up", "Stopping Ray cluster..."])
    assert attempt.report("Prepared")["reason"] == "NothingToPrepare"


def test_ray_is_started_with_what_is_leased_and_no_more(bare, ray):
    leased = {"cpus": 1.5, "memory": 2**30, "devices": [Device(id="GPU-b"), Device(id="5")], "node_id": "ab12"}
    bare(prepare="export CUDA_VISIBLE_DEVICES=0,1,2 RAY_ADDRESS=auto", run="true", leased=leased).end()
    options, env = record(ray)["options"], record(ray)["env"]
    assert (options["num-cpus"], options["num-gpus"], options["memory"]) == ("2", "2", str(2**30))
    assert env["CUDA_VISIBLE_DEVICES"] == "GPU-b,5"
    assert env["RAY_ADDRESS"] == f"127.0.0.1:{options['port']}"
    assert (env["RLINF_NODE_RANK"], env["CUDA_DEVICE_ORDER"]) == ("0", "PCI_BUS_ID")
    assert "RAY_START_HOOK" not in env
    assert "include-log-monitor" not in options


def test_a_lease_without_gpus_shows_none(bare, ray):
    bare(run="true", leased={"devices": [], "cpus": 0}).end()
    assert (record(ray)["options"]["num-gpus"], record(ray)["env"]["CUDA_VISIBLE_DEVICES"]) == ("0", "")
    assert record(ray)["options"]["num-cpus"] == "1"


def test_the_run_is_told_its_head_before_ray_starts(bare, ray):
    shown = 'echo "$RAY_ADDRESS $RLARK_RAY_PORT $RLINF_NODE_RANK $RLARK_TOTAL_NODES $RLARK_TASK_ROLE $RAY_AUTH_MODE"'
    token = "stat -c %a $RAY_AUTH_TOKEN_PATH; wc -c < $RAY_AUTH_TOKEN_PATH"
    attempt = bare(prepare=f"{shown}; {token}", run=f"{shown}; {token}; cat $RAY_AUTH_TOKEN_PATH").end()
    port = record(ray)["options"]["port"]
    told = [f"127.0.0.1:{port} {port} 0 1 worker token", "600", "65"]
    assert attempt.log()[2:5] == told
    assert attempt.log()[-5:] == [*told, "***", "Stopping Ray cluster..."]


def test_the_platforms_ray_job_does_not_reach_the_run(bare, ray, monkeypatch):
    monkeypatch.setattr("rlark.worker.environment.allowed", lambda outer: {"PATH": outer["PATH"]})
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    attempt = bare(run="env | grep -c RAY_JOB || true").end()
    assert attempt.log()[-2] == "0"
    assert "RAY_JOB_CONFIG_JSON_ENV_VAR" not in record(ray)["env"]


@pytest.mark.parametrize("name", ["demo-x2k9z", "demo-9abcd", "demo-7"])
def test_whatever_its_name_its_rank_is_0(start, ray, name):
    env = {"PATH": f"{ray}:{os.environ['PATH']}"}
    attempt = start(name=name, head="job", env=env, run='echo "rank $RLINF_NODE_RANK"').end()
    assert (attempt.log()[0], attempt.log()[-2]) == ("RLINF_NODE_RANK: 0", "rank 0")


def test_two_heads_at_once_share_neither_ports_nor_folders(start, ray, tmp_path):
    run = f"touch {tmp_path}/up-$RLARK_JOB; while [ $(ls {tmp_path}/up-* | wc -l) -lt 2 ]; do sleep 0.05; done"
    prepare = (
        f"mkdir {tmp_path}/ray-$RLARK_JOB; cp {ray}/ray {tmp_path}/ray-$RLARK_JOB; PATH={tmp_path}/ray-$RLARK_JOB:$PATH"
    )
    both = [start(name=name, head="job", prepare=prepare, run=run) for name in ("one", "two")]
    assert [attempt.end().outcome["reason"] for attempt in both] == ["Completed", "Completed"]
    one, two = (record(tmp_path / f"ray-{name}")["options"] for name in ("one", "two"))
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
    assert not temp_dir(ray).exists()
    assert list(attempt.folder.head.iterdir()) == []


def test_the_head_ends_after_the_run_and_in_order(begin, ray, tmp_path):
    trap = f"trap 'sleep 0.3; date +%s.%N > {tmp_path}/late; exit' TERM"
    late = f"({trap}; touch {tmp_path}/up; while :; do sleep 0.05; done) &"
    attempt = begin(run=f"{late}\nwhile [ ! -e {tmp_path}/up ]; do sleep 0.02; done").end()
    assert attempt.outcome["reason"] == "Completed"
    assert float((ray / "raylet-ended").read_text()) > float((tmp_path / "late").read_text())
    assert attempt.outcome["data"]["survivors"] == []


# ---- to the bad end


@pytest.mark.parametrize(
    ("script", "reason", "message"),
    [
        ("false; echo x", "PrepareFailed", "the prepare script failed at line 1 with status 1: false; echo x"),
        ("exit 0", "PrepareExited", "ended the shell with status 0 before the run could begin"),
    ],
)
def test_a_prepare_script_that_fails_starts_no_ray(begin, ray, script, reason, message):
    attempt = begin(prepare=script, run="echo never").end()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["exitCode"]) == (reason, None)
    assert message in attempt.outcome["message"]
    assert not (ray / "record.json").exists()
    assert "never" not in attempt.log()


@pytest.mark.parametrize(
    ("run", "code"),
    [("echo a; (exit 7); echo never", 7), ("false | cat; echo never", 1), ("exit 3", 3), ("exit 300", 44)],
)
def test_the_exit_code_is_the_truth(begin, run, code):
    attempt = begin(run=run).end()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["exitCode"]) == ("RunFailed", code)
    assert "never" not in attempt.log()


def test_a_head_that_does_not_start_fails_at_once_with_rays_reason(begin, ray):
    began = time.monotonic()
    attempt = begin("fails", run="echo never").end()
    assert time.monotonic() - began < 5
    assert attempt.outcome["reason"] == "RayNotReady"
    assert attempt.outcome["message"] == (
        "the Job's Ray head did not start (ray start exited with 1): "
        "ConnectionError: Ray is trying to start at 1.2.3.4:6379; see logs/attempt-1/ray/ray-start.log"
    )
    assert attempt.report("RayReady")["status"] is False
    assert "Traceback" in (attempt.folder.logs(1) / "ray" / "ray-start.log").read_text()
    assert attempt.log() == ["RLINF_NODE_RANK: 0", "Stopping Ray cluster..."]
    assert not temp_dir(ray).exists()


def test_a_head_that_is_not_there_after_its_start_never_sees_the_run(bare):
    attempt = bare("lost", run="echo never").end()
    assert attempt.outcome["reason"] == "RayNotReady"
    assert "Ray's gcs_server and raylet ended directly after the start" in attempt.outcome["message"]
    assert "never" not in attempt.log()


def test_a_head_that_takes_too_long_is_given_up(bare, monkeypatch):
    monkeypatch.setattr("rlark.worker.life.START_TIMEOUT_S", 0.3)
    attempt = bare("slow", run="echo never").end()
    assert attempt.outcome["reason"] == "RayNotReady"
    assert "did not start within" in attempt.outcome["message"]


def test_options_that_an_older_ray_does_not_know_are_left_out(bare, ray):
    attempt = bare("old", run="true").end()
    assert attempt.outcome["reason"] == "Completed"
    assert not {"disable-usage-stats", "dashboard-agent-grpc-port"} & set(record(ray)["options"])
    said = (attempt.folder.logs(1) / "ray" / "ray-start.log").read_text()
    assert "This Ray does not know --dashboard-agent-grpc-port, which is left out." in said


def test_a_mount_that_cannot_be_made_is_told_before_anything_starts(bare, ray):
    mounts = [PlannedMount(path="/mnt/data", host="/nowhere-at-all", read_only=True)]
    attempt = bare(run="echo never", mounts=mounts).end()
    assert attempt.outcome["reason"] == "MountFailed"
    assert "/nowhere-at-all does not exist" in attempt.outcome["message"]
    assert not (ray / "record.json").exists()


def test_a_fence_that_cannot_be_built_is_told(start, ray, monkeypatch):
    program = ray / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    program.chmod(0o755)
    env = {"PATH": f"{ray}:{os.environ['PATH']}"}
    monkeypatch.setenv("PATH", env["PATH"])
    for prepare in ("true", ""):
        attempt = start(head="job", sandbox="bubblewrap", env=env, prepare=prepare, run="echo never").end()
        assert attempt.outcome["reason"] == "SandboxFailed"
        assert "bwrap: setting up uid map: Permission denied" in attempt.outcome["message"]


# ---- stopped


def test_a_stop_reaches_what_the_run_has_started_and_the_head_last(begin, ray, tmp_path):
    child = (
        "import signal, sys, time\n"
        "def save(*_):\n"
        "    print('child saved', flush=True); time.sleep(0.3)\n"
        f"    open('{tmp_path}/saved', 'w').write(str(time.time()))\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, save); print('up', flush=True); time.sleep(60)\n"
    )
    attempt = begin(run=f'{sys.executable} -S -c "{child}"; echo never')
    attempt.wait_for("up")
    began = time.monotonic()
    attempt.stop()
    assert time.monotonic() - began < 4
    assert attempt.outcome["reason"] == "Stopped"
    assert attempt.outcome["data"]["exitCode"] in (-signal.SIGTERM, 128 + signal.SIGTERM)
    assert attempt.log()[-2:] == ["child saved", "Stopping Ray cluster..."]
    assert float((ray / "raylet-ended").read_text()) > float((tmp_path / "saved").read_text())
    assert attempt.outcome["data"]["survivors"] == []


def test_a_run_that_does_not_listen_is_killed_after_its_grace(bare):
    attempt = bare(run="trap '' TERM; echo up; while :; do sleep 0.05; done", grace_s=0.3)
    attempt.wait_for("up")
    attempt.stop()
    assert attempt.outcome["reason"] == "Stopped"
    assert attempt.outcome["data"]["exitCode"] in (-signal.SIGKILL, 128 + signal.SIGKILL)


@pytest.mark.parametrize("how", ["slow", ""])
def test_the_start_can_be_stopped_too(begin, ray, how):
    attempt = begin(how, prepare="sleep 60" if not how else "", run="echo never")
    attempt.wait_for("RLINF_NODE_RANK: 0")
    until = time.monotonic() + 10
    while how and not (ray / "record.json").exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    attempt.stop()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["exitCode"]) == ("Stopped", None)
    assert "never" not in attempt.log()


def test_a_run_that_takes_too_long_is_ended_with_its_head(bare):
    attempt = bare(run="sleep 60", deadline_s=0.8).end()
    assert attempt.outcome["reason"] == "DeadlineExceeded"
    assert attempt.outcome["data"]["survivors"] == []


def test_a_killed_worker_leaves_nothing_that_is_not_found(begin, ray, request):
    attempt = begin(run="echo up; exec sleep 60")
    attempt.wait_for("up")
    run = attempt.run()
    attempt.process.kill()
    attempt.process.wait(5)
    assert gone(run)
    left = remains.head_processes(attempt.folder)
    fenced = "bubblewrap" in request.node.callspec.id
    assert fenced or {process.name(one.pid) for one in left} == {"gcs_server", "raylet"}
    assert process.end(left, 0) == []
    assert temp_dir(ray).exists()
    remains.forget_head(attempt.folder)
    assert not temp_dir(ray).exists()
    assert not attempt.folder.head.exists()


# ---- while it lives


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


def test_outputs_behind_a_mount_are_found_where_they_lie(start, ray, tmp_path):
    reason = sandbox.unavailable()
    if reason:
        pytest.skip(reason)
    mounts = [PlannedMount(path="/mnt/rlark-test-out", volume="demo-out")]
    attempt = start(
        head="job",
        sandbox="bubblewrap",
        env={"PATH": f"{ray}:{os.environ['PATH']}"},
        mounts=mounts,
        run="echo weights > /mnt/rlark-test-out/policy.bin",
        outputs=[Output(path="/mnt/rlark-test-out/policy.bin")],
    ).end()
    assert (attempt.outcome["reason"], attempt.outcome["data"]["verdict"]["verified"]) == ("Completed", True)
