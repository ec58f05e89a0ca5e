"""Job folders for the worker, and the worker as the process that it is."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from rlark.folder import JobFolder, write_json
from rlark.host import sandbox
from rlark.plan.node import Device, HeadAddress, Lease
from rlark.plan.plan import Plan
from rlark.worker.__main__ import main

TOYS = Path(__file__).parents[2] / "engine_for_tests"


class Forked:
    """`python -m rlark.worker` without the seconds that importing takes: a child of this process becomes it."""

    def __init__(self, folder: Path, env: dict[str, str]):
        self._process = multiprocessing.get_context("fork").Process(target=self._become, args=(folder, env))
        self._process.start()

    @staticmethod
    def _become(folder: Path, env: dict[str, str]) -> None:
        os.environ.clear()
        os.environ.update(env)
        with Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), 2)
        os._exit(main([str(folder)]))

    def poll(self) -> int | None:
        return self._process.exitcode

    returncode = property(poll)

    def wait(self, timeout: float) -> None:
        self._process.join(timeout)
        assert self._process.exitcode is not None, "the worker does not end"

    def send_signal(self, number: int) -> None:
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()


@dataclass
class Attempt:
    """One attempt of a Job and what its worker left."""

    folder: JobFolder
    number: int
    process: Forked

    def end(self) -> Attempt:
        """Wait until the worker is gone."""
        self.process.wait(30)
        return self

    def stop(self) -> Attempt:
        """Ask it to end, as Ray does."""
        self.process.send_signal(signal.SIGTERM)
        return self.end()

    def wait_for(self, text: str, stream: str = "stdout") -> None:
        """Wait until a line of a log holds a text."""
        until = time.monotonic() + 20
        while not any(text in line for line in self.log(stream)):
            assert time.monotonic() < until, self.log(stream)
            assert self.process.poll() is None, self.reports
            time.sleep(0.02)

    def wait_for_report(self, kind: str) -> dict:
        """Wait until a type of report is there."""
        until = time.monotonic() + 20
        while (found := self.report(kind)) is None:
            assert time.monotonic() < until, self.reports
            time.sleep(0.02)
        return found

    def run(self) -> int:
        """The run's process, once it is reported."""
        return int(self.wait_for_report("Started")["data"]["run"]["pid"])

    @property
    def reports(self) -> list[dict]:
        lines = self.folder.reports.read_text().splitlines() if self.folder.reports.exists() else []
        return [report for report in map(json.loads, lines) if report["attempt"] == self.number]

    def report(self, kind: str) -> dict | None:
        """The last report of a type."""
        return next((report for report in reversed(self.reports) if report["type"] == kind), None)

    @property
    def outcome(self) -> dict:
        last = self.reports[-1]
        assert last["type"] == "Outcome", last
        return last

    @property
    def steps(self) -> list[str]:
        return [report["type"] for report in self.reports]

    def log(self, stream: str = "stdout") -> list[str]:
        """A log without its stamps; that each line has one is checked."""
        path = self.folder.logs(self.number) / f"{stream}.log"
        lines = path.read_text().splitlines() if path.exists() else []
        assert all(re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", line) for line in lines), lines
        return [line[25:] for line in lines]


@pytest.fixture
def head() -> Iterator[str]:
    """Something that listens, as a Ray head does."""
    server = socket.create_server(("127.0.0.1", 0))
    yield f"127.0.0.1:{server.getsockname()[1]}"
    server.close()


FAKE_RAY = r'''#!{python} -S
"""`ray` of a few lines: FAKE_RAY says how it behaves, and what it was started with is written down."""
import ctypes, json, os, re, signal, socket, sys, time
from pathlib import Path

here = Path(__file__).parent
how = os.environ.get("FAKE_RAY", "")


def daemon(name, work):
    if os.fork():
        return
    os.setsid()
    ctypes.CDLL(None).prctl(15, name.encode(), 0, 0, 0)
    for number in range(3):
        os.dup2(os.open("/dev/null", os.O_RDWR), number)
    with open(here / "daemons", "a") as file:
        file.write(f"{{os.getpid()}} {{name}}\n")
    work()
    os._exit(0)


def serve(port):
    server = socket.create_server(("127.0.0.1", port))
    (here / "listening").touch()
    while True:
        server.accept()[0].close()


def raylet():
    signal.signal(signal.SIGTERM, ended)
    time.sleep(60)


def ended(*_):
    (here / "raylet-ended").write_text(str(time.time()))
    os._exit(0)


def start(options):
    given = dict(option.lstrip("-").partition("=")[::2] for option in options)
    if how == "old":
        for option in options:
            if option.startswith(("--include-log-monitor", "--dashboard-agent-grpc-port", "--disable-usage-stats")):
                print("Usage: ray start [OPTIONS]\n\nError: No such option: " + option.partition("=")[0])
                sys.exit(2)
    record = {{"options": given, "cwd": os.getcwd(), "env": dict(os.environ), "stdin": sys.stdin.read()}}
    (here / "record.json").write_text(json.dumps(record))
    while "FAKE_RAY_WAITS_FOR" in os.environ and not Path(os.environ["FAKE_RAY_WAITS_FOR"]).exists():
        time.sleep(0.01)
    if how == "fails":
        print("Traceback (most recent call last):\n  File x\nConnectionError: Ray is trying to start at 1.2.3.4:6379")
        sys.exit(1)
    if how == "slow":
        time.sleep(60)
    session = Path(given["temp-dir"], "session_2026-01-02_03-04-05_000006_7")
    (session / "logs").mkdir(parents=True)
    (session / "logs" / "raylet.out").write_text("the key is " + os.environ.get("API_KEY", ""))
    (session / "logs" / "raylet.err").touch()
    Path(given["temp-dir"], "session_latest").symlink_to(session)
    if how != "lost":
        (here / "listening").unlink(missing_ok=True)
        daemon("gcs_server", lambda: serve(int(given["port"])))
        daemon("raylet", raylet)
        while not (here / "listening").exists() or "raylet" not in (here / "daemons").read_text():
            time.sleep(0.01)
    print("Ray runtime started.")


def stop():
    for line in (here / "daemons").read_text().splitlines():
        os.kill(int(line.split()[0]), signal.SIGKILL)


start(sys.argv[2:]) if sys.argv[1] == "start" else stop()
'''


@dataclass
class FakeRay:
    """A folder with a program `ray` that stands for Ray's."""

    folder: Path

    @property
    def path(self) -> str:
        """A PATH on which it comes first."""
        return f"{self.folder}:{os.environ['PATH']}"

    @property
    def started(self) -> bool:
        return (self.folder / "record.json").exists()

    @property
    def record(self) -> dict:
        """What it was started with."""
        return json.loads((self.folder / "record.json").read_text())

    @property
    def temp_dir(self) -> Path:
        """The private folder around that of its sockets."""
        return Path(self.record["options"]["temp-dir"]).parent


@pytest.fixture
def ray(tmp_path: Path) -> FakeRay:
    folder = tmp_path / "ray"
    folder.mkdir()
    program = folder / "ray"
    program.write_text(FAKE_RAY.format(python=sys.executable))
    program.chmod(0o755)
    return FakeRay(folder)


@pytest.fixture
def start(tmp_path: Path, head: str) -> Iterator[Callable[..., Attempt]]:
    """Starts a worker: `start(run="echo hello")`."""
    started: list[Attempt] = []

    def begin(
        number: int = 1,
        address: str | None = None,
        before: Callable[[JobFolder], None] | None = None,
        name: str = "demo",
        leased: dict[str, object] | None = None,
        **plan: object,
    ) -> Attempt:
        folder = JobFolder(tmp_path / "jobs" / name)
        folder.create()
        given = {"job": name, "node": "box", "grace_s": 5.0} | plan
        write_json(folder.plan, Plan.model_validate(given).to_json())
        lease = Lease(
            job=name,
            attempt=number,
            key="k",
            node="box",
            devices=[Device(id="3", faked=True)],
            head=HeadAddress(address=address or head, session="session_1"),
        )
        write_json(folder.lease, lease.model_copy(update=leased or {}).to_json())
        if before is not None:
            before(folder)
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(TOYS)}
        started.append(Attempt(folder, number, Forked(folder.root, env)))
        return started[-1]

    yield begin
    for attempt in started:
        if attempt.process.poll() is None:
            attempt.stop()


FENCES = [
    "none",
    pytest.param(
        "bubblewrap", marks=pytest.mark.skipif(bool(sandbox.unavailable()), reason="bubblewrap does not work here")
    ),
]


@pytest.fixture(params=FENCES)
def begin(start, ray: FakeRay, request) -> Callable[..., Attempt]:
    """Starts a worker whose Job has a Ray head of its own, with and without a fence."""

    def begin(how: str = "", env: dict[str, str] | None = None, number: int = 1, **plan: object) -> Attempt:
        variables = {"PATH": ray.path, "FAKE_RAY": how} | (env or {})
        return start(number, head="job", sandbox=request.param, env=variables, **plan)

    return begin


@pytest.fixture
def bare(start, ray: FakeRay) -> Callable[..., Attempt]:
    """The same without a fence, for what a fence has no part in."""

    def begin(how: str = "", env: dict[str, str] | None = None, number: int = 1, **plan: object) -> Attempt:
        return start(number, head="job", env={"PATH": ray.path, "FAKE_RAY": how} | (env or {}), **plan)

    return begin
