from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from rlark.host import head, process, ray_start
from rlark.host.clock import SystemClock


@pytest.fixture
def files(tmp_path):
    return head.HeadFiles(tmp_path)


@pytest.fixture
def config(tmp_path):
    return head.HeadConfig(folder=str(tmp_path), temp_dir=str(tmp_path / "s"), token_path=str(tmp_path / "token"))


def with_changes(config, **changes):
    return head.HeadConfig(**(vars(config) | changes))


@pytest.fixture
def stranger():
    child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(60)"])
    yield process.identify(child.pid)
    child.kill()
    child.wait()


def test_a_configuration_crosses_as_a_private_file(config, files):
    full = with_changes(config, num_gpus=8, labels={"a": "b"}, env={"X": "1"}, fakes_gpus=True)
    full.write(files.config)
    assert head.HeadConfig.read(files.config) == full
    assert files.config.stat().st_mode & 0o777 == 0o600


def test_the_environment_is_built_from_nothing(config):
    outer = {
        "PATH": "/bin",
        "HOME": "/h",
        "AWS_SECRET_ACCESS_KEY": "s",
        "RAY_ADDRESS": "auto",
        "RLARK_TOKEN": "t",
        "CUDA_VISIBLE_DEVICES": "4,5",
        "CUDA_DEVICE_ORDER": "FASTEST_FIRST",
    }
    env = ray_start.clean_env(config, outer)
    assert env["PATH"] == "/bin"
    assert env["CUDA_VISIBLE_DEVICES"] == "4,5"
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert (env["RAY_AUTH_MODE"], env["RAY_AUTH_TOKEN_PATH"]) == ("token", config.token_path)
    assert not {"AWS_SECRET_ACCESS_KEY", "RAY_ADDRESS", "RLARK_TOKEN"} & set(env)


def test_faked_gpus_and_an_outer_restriction_do_not_meet(config):
    env = ray_start.clean_env(with_changes(config, fakes_gpus=True), {"CUDA_VISIBLE_DEVICES": ""})
    assert "CUDA_VISIBLE_DEVICES" not in env


def test_the_configurations_own_variables_win(config):
    env = ray_start.clean_env(with_changes(config, env={"LANG": "de_DE.UTF-8"}), {"LANG": "C"})
    assert env["LANG"] == "de_DE.UTF-8"


class Ports:
    """Hands out 100, 101, ..."""

    def __init__(self):
        self.next = 99

    def take(self):
        self.next += 1
        return self.next

    def rest(self):
        return self.next + 1, 599


def test_every_port_is_explicit_and_used_once(config):
    argv, env, chosen = ray_start.start_command(config, Ports())
    given = [int(part.split("=")[1]) for part in argv if "port=" in part]
    given += [int(value) for value in env.values()]
    assert set(env) == {"DASHBOARD_METRIC_PORT", "AUTOSCALER_METRIC_PORT"}
    assert len(given) == len(set(given)) == 13
    assert len(chosen) == 11
    flags = [part.split("=")[0] for part in argv if part.startswith("--")]
    for flag in (
        "--port",
        "--metrics-export-port",
        "--runtime-env-agent-port",
        "--min-worker-port",
        "--max-worker-port",
    ):
        assert flag in flags
    assert "--dashboard-host=127.0.0.1" in argv
    assert "--block" not in argv
    assert f"--temp-dir={config.temp_dir}" in argv


def test_what_is_not_said_is_left_to_ray(config):
    argv, _, _ = ray_start.start_command(config, Ports())
    assert not [part for part in argv if part.startswith(("--num-", "--memory", "--labels"))]
    full = with_changes(
        config, num_cpus=2, num_gpus=0, labels={"a": "b", "c": "d"}, dashboard_port=8265, resources={"shm": 64}
    )
    argv, _, chosen = ray_start.start_command(full, Ports())
    assert {
        '--resources={"shm": 64}',
        "--num-cpus=2",
        "--num-gpus=0",
        "--labels=a=b,c=d",
        "--dashboard-port=8265",
    } <= set(argv)
    assert chosen["dashboard-port"] == 8265


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            'Traceback (most recent call last):\n  File "x"\nValueError: Failed to bind to 127.0.0.1:8265\n',
            "ValueError: Failed to bind to 127.0.0.1:8265",
        ),
        ("\x1b[31mray.exceptions.RayError: no\x1b[0m\nsomething after\n", "ray.exceptions.RayError: no"),
        (
            "RuntimeError: Failed to start GCS. Last 1 lines of error files:\n[2026] the port is 12500.\n\n.See logs\n",
            "RuntimeError: Failed to start GCS. Last 1 lines of error files: [2026] the port is 12500. .See logs",
        ),
        ("ValueError: all of it:\n" + "word " * 200, "ValueError: all of it: " + "word " * 114 + "..."),
        ("Usage: ray start\n\nError: No such option\n", "Error: No such option"),
        ("first\nsecond\n\nthird\n", "second third"),
        ("", "it said nothing"),
    ],
)
def test_rays_own_reason_is_found_in_what_it_says(said, reason):
    assert ray_start.rays_reason(said) == reason


def test_the_temporary_directory_is_private_and_short_whatever_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "a-temporary-directory-with-a-long-name"))
    long = tmp_path / ("deep" * 20)
    chosen = ray_start.short_temp_dir(long)
    try:
        assert chosen.parent.stat().st_mode & 0o777 == 0o700
        assert ray_start.short_temp_dir(long) == chosen
        session = "/session_2026-11-30_19-32-35_124303_1234567/sockets/dash_MetricsHead"
        assert len(str(chosen) + session) <= 107
    finally:
        chosen.parent.rmdir()


def test_a_short_home_keeps_rays_files_to_itself(monkeypatch, tmp_path):
    monkeypatch.setattr(ray_start, "LONGEST_TEMP_DIR", 4096)
    assert ray_start.short_temp_dir(tmp_path) == tmp_path / "ray" / "s"


def test_a_directory_that_others_can_enter_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(ray_start, "LONGEST_TEMP_DIR", 4096)
    (tmp_path / "ray").mkdir(mode=0o755)
    with pytest.raises(ray_start.ClusterError, match="not a private directory"):
        ray_start.short_temp_dir(tmp_path)


def test_a_symbolic_link_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(ray_start, "LONGEST_TEMP_DIR", 4096)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "ray").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ray_start.ClusterError):
        ray_start.short_temp_dir(tmp_path)


def test_recorded_processes_are_those_that_still_live(files, stranger):
    gone = process.ProcessId(stranger.pid, stranger.starttime + 1)
    record = {"bootId": head.boot_id(), "processes": [stranger.to_json(), gone.to_json(), "nonsense"]}
    head.write_state(files.processes, record)
    assert head.recorded_processes(files) == [stranger]


def test_processes_of_another_boot_are_nobody(files, stranger):
    head.write_state(files.processes, {"bootId": "another", "processes": [stranger.to_json()]})
    assert head.recorded_processes(files) == []


@pytest.mark.parametrize("text", ["", "{", "[]"])
def test_a_broken_list_is_an_empty_one(files, text):
    files.processes.write_text(text)
    assert head.recorded_processes(files) == []


def test_a_head_is_whole_while_its_gcs_and_raylet_live(files, stranger):
    assert not head.whole(files)
    head.write_state(files.state, {"vital": [stranger.to_json()]})
    assert head.whole(files)
    other = process.ProcessId(stranger.pid, 1)
    head.write_state(files.state, {"vital": [stranger.to_json(), other.to_json()]})
    assert not head.whole(files)


RAY = """#!{python}
import os, subprocess, sys, time
name = lambda n: open("/proc/self/comm", "w").write(n)
def child(title, seconds=60):
    if os.fork() == 0:
        os.setsid()
        name(title)
        time.sleep(seconds)
        os._exit(0)
mode = {mode!r}
if mode == "refuses":
    print("ValueError: no")
    sys.exit(1)
if mode == "hangs":
    time.sleep(60)
child("gcs_server")
if mode != "no raylet":
    child("raylet", 0.5 if mode == "loses its raylet" else 60)
time.sleep(0.05)
"""


@pytest.fixture
def supervised(tmp_path, config, files):
    """Runs a supervisor over a small program that behaves like `ray start`; gives its process."""
    running = []

    def run(mode):
        (tmp_path / "s").mkdir()
        program = tmp_path / "ray"
        program.write_text(RAY.format(python=sys.executable, mode=mode))
        code = (
            "import sys; from rlark.host import head; head.WATCH_S = 0.05; "
            f"original = head.start_command; "
            f"head.start_command = lambda c, b: ([sys.executable, '-S', {str(program)!r}], *original(c, b)[1:]); "
            f"sys.exit(head.main(['', {str(files.config)!r}]))"
        )
        config.write(files.config)
        running.append(subprocess.Popen([sys.executable, "-c", code]))
        return running[-1]

    yield run
    for one in running:
        one.terminate()
        one.wait(10)


def state(files, wanted, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        record = head.read_state(files.state)
        if record.get("state") == wanted:
            return record
        time.sleep(0.02)
    raise AssertionError(record)


def test_a_supervisor_says_when_its_head_is_ready_and_ends_all_of_it(supervised, files):
    running = supervised("works")
    record = state(files, "ready")
    assert record["address"].startswith("127.0.0.1:")
    assert record["supervisor"]["pid"] == running.pid
    assert head.whole(files)
    living = head.recorded_processes(files)
    assert len(living) == 2
    running.send_signal(signal.SIGTERM)
    assert running.wait(10) == 0
    assert state(files, "ended")["survivors"] == []
    assert not [one for one in living if process.alive(one)]


def test_a_head_that_refuses_fails_at_once_with_its_reason(supervised, files):
    assert supervised("refuses").wait(10) == 1
    assert state(files, "failed")["error"] == "Ray's head did not start: ValueError: no"


def test_a_head_without_a_raylet_is_ended(supervised, files):
    assert supervised("no raylet").wait(10) == 1
    assert "raylet ended directly after the start" in state(files, "failed")["error"]
    assert head.recorded_processes(files) == []


def test_a_head_that_loses_its_raylet_is_ended(supervised, files):
    assert supervised("loses its raylet").wait(10) == 1
    assert "raylet" in state(files, "failed")["error"]
    assert head.recorded_processes(files) == []


def test_a_supervisor_can_be_ended_while_its_head_starts(supervised, files):
    running = supervised("hangs")
    state(files, "starting")
    time.sleep(0.3)
    running.send_signal(signal.SIGTERM)
    assert running.wait(10) == 1
    assert "asked to end while it started" in state(files, "failed")["error"]


def test_a_dashboard_that_died_is_started_again_but_not_in_a_hurry(config, files, monkeypatch):
    supervisor = head.Supervisor(config, SystemClock())
    argv = [sys.executable, "-S", "-c", "import time; time.sleep(60)"]
    dead = head._Dashboard(process.ProcessId(os.getpid(), 1), argv)
    supervisor._dashboard = dead
    assert supervisor._look() is None
    first = dead.id
    assert process.alive(first)
    os.kill(first.pid, signal.SIGKILL)
    os.waitpid(first.pid, 0)
    assert supervisor._look() is None
    assert dead.id == first  # within the pause
    dead.not_before = 0
    assert supervisor._look() is None
    assert process.alive(dead.id)
    supervisor._look()
    assert dead.id in head.recorded_processes(files)
    process.end([dead.id], 0)
    os.waitpid(dead.id.pid, 0)
