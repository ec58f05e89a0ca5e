"""Jobs under Ray heads of their own that do not get to the good end, with a program of a few lines in Ray's place."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time

import pytest

from rlark.cluster.on_ray import remains
from rlark.host import process
from rlark.plan.plan import PlannedMount


def gone(pid: int) -> bool:
    until = time.monotonic() + 3
    while process.identify(pid) is not None:
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


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
    assert not ray.started
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
    assert not ray.temp_dir.exists()


TAKES = """{python} -S -c "
import os, socket, time
server = socket.create_server(('127.0.0.1', int(os.environ['RLARK_RAY_PORT'])))
open('{up}', 'w').close()
time.sleep(30)
" &
while [ ! -e {up} ]; do sleep 0.02; done"""


def test_a_port_that_prepare_takes_is_told_before_ray_stumbles_over_it(begin, ray, tmp_path):
    attempt = begin(prepare=TAKES.format(python=sys.executable, up=tmp_path / "up"), run="echo never").end()
    assert attempt.outcome["reason"] == "RayNotReady"
    assert re.search(r"port \d+ \(port\).* was taken by process \d+ \(.*python", attempt.outcome["message"])
    assert "`rlark start demo`" in attempt.outcome["message"]
    assert not ray.started
    assert "never" not in attempt.log()


def test_a_port_that_is_taken_while_ray_starts_is_told_with_rays_reason(bare, ray, tmp_path):
    attempt = bare("fails", env={"FAKE_RAY_WAITS_FOR": str(tmp_path / "taken")}, run="echo never")
    until = time.monotonic() + 10
    while not ray.started:
        assert time.monotonic() < until
        time.sleep(0.02)
    with socket.create_server(("127.0.0.1", int(ray.record["options"]["node-manager-port"]))):
        (tmp_path / "taken").touch()
        message = attempt.end().outcome["message"]
    assert "ConnectionError: Ray is trying to start" in message
    assert re.search(rf"; port \d+ \(node-manager-port\).* was taken by process {os.getpid()} ", message)


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
    assert not {"disable-usage-stats", "dashboard-agent-grpc-port"} & set(ray.record["options"])
    said = (attempt.folder.logs(1) / "ray" / "ray-start.log").read_text()
    assert "This Ray does not know --dashboard-agent-grpc-port, which is left out." in said


def test_a_mount_that_cannot_be_made_is_told_before_anything_starts(bare, ray):
    mounts = [PlannedMount(path="/mnt/data", host="/nowhere-at-all", read_only=True)]
    attempt = bare(run="echo never", mounts=mounts).end()
    assert attempt.outcome["reason"] == "MountFailed"
    assert "/nowhere-at-all does not exist" in attempt.outcome["message"]
    assert not ray.started


def test_a_fence_that_cannot_be_built_is_told(start, ray, monkeypatch):
    program = ray.folder / "bwrap"
    program.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    program.chmod(0o755)
    env = {"PATH": ray.path}
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
    assert float((ray.folder / "raylet-ended").read_text()) > float((tmp_path / "saved").read_text())
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
    while how and not ray.started:
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
    assert ray.temp_dir.exists()
    remains.forget_head(attempt.folder)
    assert not ray.temp_dir.exists()
    assert not attempt.folder.head.exists()
