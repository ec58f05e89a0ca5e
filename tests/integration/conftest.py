"""One Ray head of our own for the session, with its own ports, folder and token."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rlark.folder import Home, read_json
from rlark.host import head as heads
from rlark.host import process
from rlark.host.clock import SystemClock
from rlark.host.ray_start import short_temp_dir
from rlark.plan.node import HeadAddress

CLOCK = SystemClock()
WORKER = '''
"""A worker of a few lines: reports its process, obeys `behaviour` in plan.json, writes an Outcome."""
import json, os, signal, subprocess, sys, time
from pathlib import Path

folder = Path(sys.argv[1])
plan = json.loads((folder / "plan.json").read_text())
attempt = json.loads((folder / "lease.json").read_text())["attempt"]
ticks = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
count = sum(1 for _ in open(folder / "worker.jsonl")) if (folder / "worker.jsonl").exists() else 0

def report(kind, status=True, **data):
    global count
    count += 1
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    line = {"n": count, "attempt": attempt, "time": stamp, "type": kind, "status": status, "data": data}
    with open(folder / "worker.jsonl", "a") as file:
        file.write(json.dumps(line) + chr(10))

def stopped(*_):
    report("Outcome", False, exitCode=143)
    sys.exit(143)

signal.signal(signal.SIGTERM, stopped if plan["behaviour"] != "stubborn" else signal.SIG_IGN)
report("Prepared", pid=os.getpid(), starttime=ticks)
if plan["behaviour"] == "daemon":
    env = os.environ | {"RLARK_JOB_DIR": str(folder), "RLARK_ATTEMPT": str(attempt)}
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"
    subprocess.Popen([sys.executable, "-S", "-c", code], env=env, start_new_session=True)
if plan["behaviour"] in ("done", "daemon"):
    report("Outcome", True, exitCode=0)
    sys.exit(0)
time.sleep(300)
'''


@pytest.fixture(scope="session")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A short folder for everything of this session, removed at its end."""
    with tempfile.TemporaryDirectory(prefix="rlk-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def head(state: Path, closers: list[Callable[[], None]]) -> Iterator[HeadAddress]:
    """A head with two CPUs, eight GPUs (faked where there are fewer) and the label `team=nav`."""
    home = Home(state / "head")
    home.create()
    home.ray_token.write_text("t" * 40)
    home.ray_token.chmod(0o600)
    files = heads.HeadFiles(home.head)
    heads.HeadConfig(
        folder=str(home.head),
        temp_dir=str(short_temp_dir(home.root)),
        token_path=str(home.ray_token),
        num_cpus=2,
        num_gpus=8,
        memory=4 * 1024**3,
        labels={"rlark.io/node": "box", "team": "nav"},
        env={"RAY_JOB_STOP_WAIT_TIME_S": "3600"},
        fakes_gpus=True,
    ).write(files.config)
    supervisor = process.spawn([sys.executable, "-m", "rlark.host.head", str(files.config)])

    def close() -> None:
        if supervisor.poll() is None:
            supervisor.terminate()
            assert supervisor.wait(20) == 0
        assert heads.recorded_processes(files) == []

    closers.append(close)
    until = time.monotonic() + 90
    record = {}
    while record.get("state") not in ("ready", "failed"):
        assert time.monotonic() < until, "the head did not start"
        assert supervisor.poll() is None, files.state.read_text()
        time.sleep(0.05)
        record = read_json(files.state) or {}
    assert record["state"] == "ready", record
    yield HeadAddress(
        address=record["address"],
        session=record["session"],
        dashboard=record["dashboard"],
        token_path=str(home.ray_token),
    )
    close()


@pytest.fixture(scope="session")
def driver(head: HeadAddress, closers: list[Callable[[], None]]) -> Iterator[HeadAddress]:
    """This process, connected to the head as the controller is."""
    import ray
    from ray._raylet import Config

    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": head.token_path}
    os.environ.pop("RAY_ADDRESS", None)
    Config.initialize("")  # the tests have imported Ray already, and it reads its mode only then
    closers.append(ray.shutdown)
    ray.init(head.address, namespace=head.namespace, log_to_driver=False, configure_logging=False)
    yield head
    ray.shutdown()
    del os.environ["RAY_AUTH_MODE"], os.environ["RAY_AUTH_TOKEN_PATH"]


@pytest.fixture(scope="session")
def fake_worker(state: Path) -> Path:
    """The worker of a few lines, as a program."""
    path = state / "worker.py"
    path.write_text(WORKER)
    return path


def write(path: Path, value: object) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(value))
