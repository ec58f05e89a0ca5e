"""TensorBoards on demand, with a small program in the place of TensorBoard."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rlark.control.tensorboard import IDLE_S, MOST, TensorBoards, event_folder, tensorboard
from rlark.errors import ClusterError, ConflictError, NotFound
from rlark.folder import Home
from rlark.host.ports import listening
from rlark.host.process import ProcessId, alive
from rlark.plan.plan import Plan, PlannedMount
from rlark.testing import FakeClock, job_text

LISTENS = "import socket, sys, time; server = socket.create_server(('127.0.0.1', int(sys.argv[1]))); time.sleep(600)"
FAILS = "import sys; print('starting', flush=True); sys.exit('no such plugin')"
SILENT = "import time; time.sleep(600)"
PREFIX = "/api/jobs/demo/tensorboard"


class Boards(TensorBoards):
    """TensorBoards whose program a test chooses."""

    def __init__(self, home, clock):
        self.program, self.started = LISTENS, []
        super().__init__(home, clock, self._program)

    def _program(self, events, port, prefix):
        self.started.append((str(events), port, prefix))
        return [sys.executable, "-IS", "-c", self.program, str(port)]


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def boards(tmp_path, clock):
    made = Boards(Home(tmp_path), clock)
    yield made
    made.close()


def opened(boards, name="demo", uid="u1", events="/logs"):
    """Ask until it is ready."""
    until = time.monotonic() + 10
    while not (told := boards.open(name, uid, Path(events), PREFIX))["ready"]:
        assert time.monotonic() < until
        time.sleep(0.01)
    return told


def gone(told):
    identity, until = ProcessId.from_json(told["process"]), time.monotonic() + 10
    while alive(identity):
        assert time.monotonic() < until
        time.sleep(0.01)
    return True


def lives(told):
    return alive(ProcessId.from_json(told["process"]))


def test_the_first_request_starts_one_and_the_next_finds_it(boards):
    first = opened(boards)
    assert listening("127.0.0.1", first["port"])
    assert opened(boards) == first
    assert boards.started == [("/logs", first["port"], PREFIX)]


def test_it_is_not_ready_while_somebody_else_has_its_port(boards, monkeypatch):
    boards.program = SILENT
    told = boards.open("demo", "u1", Path("/logs"), PREFIX)
    with subprocess.Popen([sys.executable, "-IS", "-c", LISTENS, str(told["port"])]) as other:
        until = time.monotonic() + 10
        while not listening("127.0.0.1", told["port"]):
            assert time.monotonic() < until
        assert boards.open("demo", "u1", Path("/logs"), PREFIX) == told | {"ready": False}
        other.kill()


def test_one_that_ends_instead_of_starting_is_told_with_its_last_words(boards):
    boards.program = FAILS
    with pytest.raises(ClusterError, match="ended instead of starting: no such plugin") as caught:
        opened(boards)
    assert "tensorboards/demo.log" in caught.value.hint
    boards.program = LISTENS
    assert opened(boards)["ready"]


def test_one_that_died_is_started_again(boards):
    first = opened(boards)
    boards._boards["demo"].child.kill()
    assert gone(first)
    assert opened(boards)["process"] != first["process"]


def test_another_folder_or_another_job_of_the_name_gets_another(boards):
    first = opened(boards)
    second = opened(boards, events="/elsewhere")
    third = opened(boards, uid="u2", events="/elsewhere")
    assert gone(first)
    assert gone(second)
    assert lives(third)


def test_nothing_of_it_outlives_its_job(boards, tmp_path):
    told, log = opened(boards), tmp_path / "tensorboards/demo.log"
    assert log.exists()
    boards.end("demo")
    boards.end("demo")
    assert gone(told)
    assert not log.exists()


def test_what_nobody_looks_at_ends_after_a_while(boards, clock):
    seen, forgotten = opened(boards, "seen"), opened(boards, "forgotten")
    clock.advance(IDLE_S - 1)
    opened(boards, "seen")
    boards.sweep()
    assert lives(forgotten)
    clock.advance(2)
    boards.sweep()
    assert gone(forgotten)
    assert lives(seen)


def test_only_a_few_run_and_the_least_recently_used_makes_room(boards, clock):
    told = []
    for number in range(MOST):
        told.append(opened(boards, f"job-{number}"))
        clock.advance(1)
    opened(boards, "job-0")
    more = opened(boards, "one-more")
    assert gone(told[1])
    assert [lives(one) for one in (told[0], *told[2:], more)] == [True] * MOST


def test_they_end_with_the_controller_however_it_ends(tmp_path):
    program = f"""
import time
from pathlib import Path
from rlark.control.tensorboard import TensorBoards
from rlark.folder import Home
from rlark.host.clock import SystemClock
import sys
boards = TensorBoards(Home(Path({str(tmp_path)!r})), SystemClock(), lambda *_: [sys.executable, "-c", {SILENT!r}])
told = boards.open("demo", "u1", Path("/logs"), "/x")["process"]
print(told["pid"], told["starttime"], flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as controller:
        pid, starttime = map(int, controller.stdout.readline().split())
        assert alive(ProcessId(pid, starttime))
        controller.kill()
    assert gone({"process": {"pid": pid, "starttime": starttime}})


def test_they_see_none_of_the_platforms_tokens(boards, monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", "/a/token")
    monkeypatch.setenv("RLARK_TOKEN", "s3cr3t")
    boards.program = "import os; print(sorted(os.environ), flush=True); raise SystemExit('done')"
    with pytest.raises(ClusterError, match="done"):
        opened(boards)
    log = tmp_path / "tensorboards/demo.log"
    assert "TMPDIR" in log.read_text()
    assert "TOKEN" not in log.read_text()
    assert log.stat().st_mode & 0o777 == 0o600


def test_where_the_event_files_lie(tmp_path):
    home = Home(tmp_path)
    mounts = [PlannedMount(path="/mnt/out", volume="out"), PlannedMount(path="/mnt/data", host="/data")]

    def lie(written):
        return str(event_folder(home, Plan(job="demo", node="box", tensorboard=written, mounts=mounts)))

    assert lie("") == f"{tmp_path}/jobs/demo/tensorboard"
    assert lie("/mnt/out/tb") == f"{tmp_path}/volumes/out/tb"
    assert lie("/mnt/data/tb") == "/data/tb"
    assert lie("/srv/tb") == "/srv/tb"


def test_the_command_listens_on_loopback_only_under_the_path():
    command = list(tensorboard(Path("/logs"), 1234, "/x"))
    assert command[1:3] == ["-m", "tensorboard.main"]
    options = dict(zip(command[3:-1:2], command[4:-1:2], strict=True))
    assert options == {"--logdir": "/logs", "--host": "127.0.0.1", "--port": "1234", "--path_prefix": "/x"}


def test_where_it_is_not_installed_the_command_that_installs_it_is_told(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ClusterError, match="not installed") as caught:
        tensorboard(Path("/logs"), 1234, "/x")
    assert 'pip install "rlark[tensorboard]"' in caught.value.hint


def test_the_controllers_verb(platform, monkeypatch):
    opened = []
    boards = platform.controller._boards
    monkeypatch.setattr(boards, "open", lambda *given: opened.append(given) or {"ready": True})
    monkeypatch.setattr(boards, "end", lambda name: opened.append(("end", name)))
    with pytest.raises(NotFound):
        platform.controller.tensorboard("demo", "/x")
    platform.controller.submit(job_text())
    uid = platform.reader.job("demo")["metadata"]["uid"]
    assert platform.controller.tensorboard("demo", "/x") == {"ready": True}
    assert opened == [("demo", uid, platform.home.job("demo").tensorboard, "/x")]
    worker = platform.cluster.worker("demo")
    worker.obeys = False
    platform.controller.delete("demo")
    assert opened[1:] == [("end", "demo")]
    with pytest.raises(ConflictError):
        platform.controller.tensorboard("demo", "/x")


def test_none_is_started_for_a_job_while_it_is_deleted(platform, monkeypatch):
    platform.controller.submit(job_text())
    keeper, boards, told = platform.controller._keeper, platform.controller._boards, []
    find, deleting = keeper.find, threading.Thread(target=platform.controller.delete, args=("demo",))

    def found_as_it_goes(name):
        monkeypatch.setattr(keeper, "find", find)
        record = find(name)
        deleting.start()
        deleting.join(0.1)
        return record

    monkeypatch.setattr(keeper, "find", found_as_it_goes)
    monkeypatch.setattr(boards, "open", lambda *_: told.append("opened"))
    monkeypatch.setattr(boards, "end", lambda _: told.append("ended"))
    platform.controller.tensorboard("demo", "/x")
    deleting.join(10)
    assert told == ["opened", "ended"]
