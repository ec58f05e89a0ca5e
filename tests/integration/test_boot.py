"""`python -m rlark.boot`: up, down, attach, and what a killed process does to a platform."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml

from rlark.boot import state as boot_state
from rlark.control.reader import LedgerReader
from rlark.folder import Home, read_json
from rlark.host import head as heads
from rlark.host import process
from rlark.host.ray_start import short_temp_dir
from tests.integration.booting import (
    boot,
    command,
    everything,
    free_port,
    get,
    new_home,
    nothing_left,
    one,
    supervisor_of,
    until,
)

pytestmark = pytest.mark.integration


JOB = """
apiVersion: rlinf.io/v1alpha1
kind: Job
metadata: {name: slow}
spec:
  terminationGrace: 20s
  tasks:
    - name: worker
      head: true
      agentType: Ray
      ray:
        replicas: 1
        config:
          inline:
            cluster: {num_nodes: 1, component_placement: {"actor,rollout,env": 0}}
            runner: {engine: toy, max_epochs: 100000, fuse: auto}
            toy: {pace_s: 0.1}
"""


@pytest.fixture(scope="module")
def platform(state):
    """A platform of this module, with four faked GPUs and the engine for tests."""
    home = new_home(state, "p")
    engines = str(Path(__file__).parents[1] / "engine_for_tests")
    code, record, talk = boot(
        "up", home, "--port", free_port(), "--num-cpus", 2, "--num-gpus", 4, "--labels", "team=nav", PYTHONPATH=engines
    )
    assert code == 0, (record, talk)
    yield home
    boot("down", home, "--force")


@pytest.fixture(scope="module")
def slow_job(platform):
    """A Job that runs until somebody stops it; gives a function that asks how it stands."""

    def status():
        code, body = get(platform, "/api/v1/rlinf.io/v1alpha1/jobs/slow", timeout=20)
        assert code == 200, body
        return json.loads(body)["status"]

    boot_state.call(
        platform, read_json(platform.platform)["address"], "POST", "/api/v1/rlinf.io/v1alpha1/jobs", yaml.safe_load(JOB)
    )
    until(lambda: status()["progress"] and status()["ranks"], 60, "the Job has learned something")
    return status


def test_up_says_what_runs_and_writes_it_down(platform):
    record = read_json(platform.platform)
    assert record["attached"] is False
    assert record["gpusFaked"] is True
    assert record["head"]["namespace"] == "rlark"
    assert record["dashboard"].startswith("http://127.0.0.1:")
    assert process.alive(supervisor_of(platform))
    assert get(platform, "/livez")[0] == 200
    until(lambda: get(platform, "/readyz")[0] == 200, 10, "ready")


def test_secrets_are_private_files(platform):
    for path in (platform.token, platform.ray_token):
        assert path.stat().st_mode & 0o777 == 0o600
    assert platform.root.stat().st_mode & 0o777 == 0o700
    names = {key for each in everything(platform)[1:3] for key in _environment(each.pid)}
    assert not {"RAY_AUTH_TOKEN", "RLARK_TOKEN"} & names


def _environment(pid):
    raw = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    return {part.partition("=")[0] for part in raw.split("\0")}


def test_up_again_finds_it_running(platform):
    before = read_json(platform.platform)
    begun = time.monotonic()
    code, record, talk = boot("up", platform, "--num-cpus", 1)
    assert (code, record) == (0, before)
    assert "Already running" in talk
    assert time.monotonic() - begun < 5


def test_a_port_that_is_held_is_refused_and_its_holder_named(platform, state):
    port = read_json(platform.platform)["address"].rsplit(":", 1)[1]
    code, answer, _ = boot("up", new_home(state, "q"), "--port", port)
    assert (code, answer["code"], answer["exitCode"]) == (5, "unavailable", 5)
    assert answer["message"].startswith(f"Port {port} is held by process ")
    assert "ProxyActor" in answer["message"]


def test_a_dashboard_port_that_is_held_is_refused_too(state):
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        port = squatter.getsockname()[1]
        code, answer, _ = boot("up", new_home(state, "q"), "--port", free_port(), "--dashboard-port", port)
    assert code == 5
    assert f"Port {port} is held by process {os.getpid()}" in answer["message"]


def test_the_second_of_two_at_once_waits_for_the_first(state):
    home = new_home(state, "q")
    with (home.root / "boot.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        second = subprocess.Popen(command("down", home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert second.stderr.readline().startswith("Waiting for another")
        assert second.poll() is None
    out, _ = second.communicate(timeout=20)
    assert (second.returncode, json.loads(out)["stopped"]) == (0, False)


def test_down_without_a_platform_is_harmless(state):
    assert boot("down", new_home(state, "q"))[:2] == (0, {"stopped": False, "jobs": []})


def test_an_address_where_no_ray_is_does_not_hang(state):
    begun = time.monotonic()
    code, answer, _ = boot(
        "up", new_home(state, "q"), "--port", free_port(), "--ray-address", f"127.0.0.1:{free_port()}"
    )
    assert (code, answer["code"]) == (5, "unavailable")
    assert "No Ray cluster answers" in answer["message"]
    assert time.monotonic() - begun < 10


def test_the_dashboard_comes_back(platform):
    killed = one(platform, "/dashboard/dashboard.py")
    os.kill(killed.pid, signal.SIGKILL)
    dashboard = read_json(platform.platform)["dashboard"]

    def serves():
        try:
            with urllib.request.urlopen(f"{dashboard}/api/gcs_healthz", timeout=1) as answer:
                return answer.status == 200 and not process.alive(killed)
        except OSError:
            return False

    until(serves, 25, "the dashboard answers again")
    assert one(platform, "/dashboard/dashboard.py") != killed


def test_the_controller_comes_back_and_its_job_runs_on(platform, slow_job):
    ranks = slow_job()["ranks"]
    killed = one(platform, "ray::ControllerActor")
    os.kill(killed.pid, signal.SIGKILL)
    until(lambda: not process.alive(killed), 5, "killed")
    until(lambda: get(platform, "/readyz", timeout=20)[0] == 200, 40, "the new controller has looked at the cluster")
    assert one(platform, "ray::ControllerActor") != killed
    standing = slow_job()
    assert (standing["phase"], standing["attempt"], standing["ranks"]) == ("Running", 1, ranks)


def test_the_api_replica_comes_back(platform):
    killed = one(platform, "ray::ServeReplica:rlark:api")
    os.kill(killed.pid, signal.SIGKILL)
    until(lambda: not process.alive(killed), 5, "killed")
    until(lambda: get(platform, "/livez", timeout=10)[0] == 200, 20, "the API answers again")
    until(lambda: get(platform, "/readyz", timeout=10)[0] == 200, 20, "and reaches its controller")


def test_serves_proxy_comes_back(platform):
    killed = one(platform, "ray::ProxyActor")
    os.kill(killed.pid, signal.SIGKILL)
    until(lambda: not process.alive(killed), 5, "killed")
    until(lambda: get(platform, "/livez")[0] == 200, 25, "the port answers again")


def test_up_goes_on_where_an_interrupted_one_stopped(platform, slow_job):
    before = read_json(platform.platform)
    platform.platform.unlink()
    code, record, talk = boot("up", platform, "--port", before["address"].rsplit(":", 1)[1])
    assert code == 0, (record, talk)
    assert {**record, "startedAt": before["startedAt"]} == before
    assert (slow_job()["phase"], slow_job()["attempt"]) == ("Running", 1)


def test_a_killed_supervisor_leaves_a_platform_that_down_ends_jobs_first(platform, slow_job):
    before = everything(platform)
    os.kill(before[0].pid, signal.SIGKILL)
    until(lambda: not process.alive(before[0]), 5, "killed")
    code, record, talk = boot("up", platform)
    assert (code, record["attached"]) == (0, False)
    assert "supervisor was killed" in talk
    assert slow_job()["phase"] == "Running"
    assert boot("down", platform)[:2] == (0, {"stopped": True, "jobs": ["slow"]})
    assert nothing_left(before)
    assert not platform.platform.exists()
    ended = json.loads((platform.job("slow").reports).read_text().strip().splitlines()[-1])
    assert (ended["type"], ended["reason"]) == ("Outcome", "Stopped")
    standing = LedgerReader(platform).job("slow")["status"]
    assert (standing["phase"], standing["attempt"]) == ("Stopped", 1)


@pytest.fixture
def foreground(state):
    """Starts a platform in the foreground, waits until it answers, gives it with its processes."""
    homes = []

    def start(name, platform_json=None):
        home = new_home(state, name)
        homes.append(home)
        if platform_json is not None:
            home.platform.write_text(json.dumps(platform_json))
        options = ("--port", free_port(), "--num-cpus", 2, "--foreground")
        staying = subprocess.Popen(
            command("up", home, *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        record = json.loads(staying.stdout.readline() or "{}")
        assert record.get("attached") is False, staying.communicate()
        assert get(home, "/livez")[0] == 200
        return home, staying, everything(home)

    yield start
    for home in homes:
        boot("down", home, "--force")


def test_in_the_foreground_it_ends_with_the_reason_when_the_raylet_is_killed(foreground):
    stale = {"address": f"http://127.0.0.1:{free_port()}", "supervisor": {"pid": os.getpid(), "starttime": 1}}
    home, staying, before = foreground("f", stale)
    raylet = next(each for each in before if process.name(each.pid) == "raylet")
    os.kill(raylet.pid, signal.SIGKILL)
    out, _ = staying.communicate(timeout=40)
    answer = json.loads(out.strip().splitlines()[-1])
    assert staying.returncode == answer["exitCode"] == 5
    assert f"raylet (process {raylet.pid}) has ended" in answer["message"]
    assert nothing_left(before)
    assert not home.platform.exists()


def test_ctrl_c_ends_a_platform_in_the_foreground(foreground):
    _, staying, before = foreground("g")
    staying.send_signal(signal.SIGINT)
    out, talk = staying.communicate(timeout=40)
    assert (staying.returncode, out) == (0, ""), talk
    assert nothing_left(before)


def test_a_head_that_cannot_start_gives_rays_own_reason(state):
    home = new_home(state, "r")
    files = heads.HeadFiles(home.head)
    home.ray_token.write_text("t" * 40)
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", 0))
        squatter.listen()
        heads.HeadConfig(
            folder=str(home.head),
            temp_dir=str(short_temp_dir(home.root)),
            token_path=str(home.ray_token),
            dashboard_port=squatter.getsockname()[1],
        ).write(files.config)
        ended = subprocess.Popen([sys.executable, "-m", "rlark.host.head", str(files.config)])
        try:
            assert ended.wait(60) == 1
        finally:
            ended.terminate()
            ended.wait(20)
    record = read_json(files.state)
    assert record["state"] == "failed"
    assert "already occupied" in record["error"]
    assert record["survivors"] == []
    assert heads.recorded_processes(files) == []


SCRIPT = """
apiVersion: rlinf.io/v1alpha1
kind: Job
metadata: {name: NAME}
spec:
  tasks:
    - {name: worker, head: true, runScript: "RUN", ray: {replicas: 1, head: platform, resources: {gpu: 2, cpu: 0.5}}}
"""


def test_attach_to_a_cluster_of_others_and_leave_it_as_it_was(driver, state):
    import ray
    from ray.util.placement_group import placement_group, placement_group_table

    head = driver
    theirs = placement_group([{"GPU": 1}], name="theirs", lifetime="detached")
    assert theirs.wait(10)
    home = new_home(state, "a")
    env = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": head.token_path}
    code, record, talk = boot("up", home, "--port", free_port(), "--ray-address", head.address, **env)
    assert code == 0, (record, talk)
    assert (record["attached"], record["supervisor"]) == (True, None)
    assert record["head"]["address"] == head.address
    assert record["head"]["dashboard"] == head.dashboard
    assert get(home, "/livez")[0] == 200
    assert not home.ray_token.exists()
    code, answer, _ = boot("up", new_home(state, "b"), "--port", free_port(), "--ray-address", head.address, **env)
    assert (code, answer["code"]) == (7, "conflict")
    assert str(home.root) in answer["message"]
    assert not Home(state / "b").platform.exists()
    address, jobs = read_json(home.platform)["address"], "/api/v1/rlinf.io/v1alpha1/jobs"

    def submit(name, run):
        boot_state.call(home, address, "POST", jobs, yaml.safe_load(SCRIPT.replace("NAME", name).replace("RUN", run)))

    def status(name):
        return json.loads(get(home, f"{jobs}/{name}", timeout=20)[1])["status"]

    submit("short", "echo $CUDA_VISIBLE_DEVICES")
    until(lambda: status("short")["phase"] == "Succeeded", 30, "a Job runs there")
    submit("long", "sleep 300")
    until(lambda: status("long")["phase"] == "Running", 30, "another runs")
    assert len(status("long")["lease"]["gpus"]) == 2

    code, answer, talk = boot("down", home)
    assert (code, answer) == (0, {"stopped": True, "jobs": ["long"]}), talk
    standing = LedgerReader(home).job("long")["status"]
    assert (standing["phase"], standing["lease"]) == ("Stopped", None)
    left = {group["name"] for group in placement_group_table().values() if group["state"] == "CREATED"}
    assert left == {"theirs"}
    ray.util.remove_placement_group(theirs)
    with pytest.raises(OSError):
        urllib.request.urlopen(f"{address}/livez", timeout=2)
    assert not [each for each in _rays(head) if "ControllerActor" in each or "ray::Serve" in each]


def _rays(head):
    """Command lines of the workers on a head of the session."""
    top = read_json(heads.HeadFiles(Path(head.token_path).parent / "head").state)["supervisor"]["pid"]
    return [process.command(each.pid) for each in process.descendants(top)]
