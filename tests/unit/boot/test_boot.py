from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import urllib.error
from pathlib import Path
from typing import ClassVar

import pytest

import rlark.boot
from rlark.boot import __main__ as boot
from rlark.boot import attach, state, up
from rlark.boot.down import down, stop_jobs
from rlark.boot.options import Options, read_labels
from rlark.errors import ClusterError, ConflictError, UsageError
from rlark.folder import Home
from rlark.host.process import this_process
from rlark.testing import FakeClock


@pytest.fixture
def home(tmp_path):
    made = Home(tmp_path / "h")
    made.create()
    return made


def test_labels_are_read_and_trimmed():
    assert read_labels("") == {}
    assert read_labels("team=nav, rlark.io/gpu-model=H200,empty=") == {
        "team": "nav",
        "rlark.io/gpu-model": "H200",
        "empty": "",
    }


@pytest.mark.parametrize("text", ["team", "=x", "a b=c", "a=b c", "a/b/c=d", f"a={'x' * 64}", "ray.io/node-id=x"])
def test_what_is_no_label_is_named(text):
    with pytest.raises(UsageError, match="--labels"):
        read_labels(text)


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "http://127.0.0.1:19091"),
        ("0.0.0.0", "http://127.0.0.1:19091"),
        ("::", "http://[::1]:19091"),
        ("box.example", "http://box.example:19091"),
    ],
)
def test_the_address_is_one_a_client_here_can_use(host, address):
    assert Options(host=host).address == address


@pytest.mark.parametrize(
    "options",
    [
        {"port": 0},
        {"port": 65536},
        {"dashboard_port": -1},
        {"num_cpus": -1},
        {"num_gpus": -1},
        {"ray_address": "h:1", "num_gpus": 8},
        {"ray_address": "h:1", "labels": {"a": "b"}},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    Options().check()
    with pytest.raises(UsageError):
        Options(**options).check()


def answer(capfd, argv):
    code = boot.main(argv)
    out = capfd.readouterr().out
    return code, json.loads(out.strip().splitlines()[-1])


@pytest.mark.parametrize(
    "argv", [[], ["sideways"], ["up", "--port", "x"], ["up", "--port", "0"], ["up", "--labels", "x"]]
)
def test_a_wrong_command_line_is_answered_in_json(capfd, argv):
    code, said = answer(capfd, argv)
    assert (code, said["code"], said["exitCode"]) == (2, "usage", 2)
    assert set(said) == {"code", "message", "hint", "exitCode"}


def test_a_bug_is_answered_in_json_too(capfd, monkeypatch):
    monkeypatch.setattr(boot, "run", lambda argv: 1 / 0)
    assert answer(capfd, ["up"]) == (
        1,
        {"code": "internal", "message": "ZeroDivisionError: division by zero", "hint": None, "exitCode": 1},
    )


def test_what_libraries_print_is_talk(capfd, monkeypatch):
    monkeypatch.setattr(boot, "run", lambda argv: print("noise") or {"address": "x"})
    assert boot.main(["up"]) == 0
    out, err = capfd.readouterr()
    assert (out, err) == ('{"address": "x"}\n', "noise\n")


def test_down_of_nothing_is_harmless_and_leaves_a_stale_record_out(home):
    assert down(home) == {"stopped": False, "jobs": []}
    home.platform.write_text(
        json.dumps({"address": "http://127.0.0.1:9", "supervisor": {"pid": os.getpid(), "starttime": 1}})
    )
    assert down(home) == {"stopped": True, "jobs": []}
    assert not home.platform.exists()


class Patient(FakeClock):
    """Counts the waits, and does something at one of them."""

    def __init__(self, at=-1, do=None):
        super().__init__()
        self.at, self.do, self.waits = at, do, 0

    def sleep(self, seconds):
        super().sleep(seconds)
        self.waits += 1
        if self.waits == self.at:
            self.do()


def test_a_second_up_waits_for_the_first(home, capfd):
    first = contextlib.ExitStack()
    first.enter_context(state.lock(home, FakeClock()))
    clock = Patient(3, first.close)
    with state.lock(home, clock):
        assert clock.waits == 3
    assert "Waiting for another `rlark up`" in capfd.readouterr().err


def test_one_that_never_ends_is_not_waited_for_for_ever(home):
    clock = Patient()
    with state.lock(home, clock), pytest.raises(ConflictError, match="at work"), state.lock(home, clock):
        pass
    assert clock.monotonic() == pytest.approx(state.LOCK_S, abs=1)
    with state.lock(home, Patient(1, pytest.fail)):
        pass


def test_an_address_that_is_not_this_machines_is_refused():
    with pytest.raises(UsageError, match=r"--host 203\.0\.113\.7: this machine cannot listen there"):
        up._check_door("203.0.113.7", "t" * 64)


def test_a_short_token_is_for_this_machine_only():
    for host in ("127.0.0.1", "localhost"):
        up._check_door(host, "short")
    with pytest.raises(UsageError, match="5 characters only"):
        up._check_door("0.0.0.0", "short")
    up._check_door("0.0.0.0", "t" * 20)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, False),
        ({"port": 1}, False),
        ({"num_gpus": 0}, True),
        ({"labels": {"a": "b"}}, True),
        ({"ray_address": "h:1"}, True),
        ({"ray_address": "127.0.0.1:6379"}, False),
    ],
)
def test_options_without_effect_are_said_to_be_so(home, capfd, options, told):
    found = {"address": "http://127.0.0.1:1", "attached": True, "head": {"address": "127.0.0.1:6379"}}
    up._say_found(home, found, Options(**options))
    assert ("has no effect" in capfd.readouterr().err) is told


def test_a_secret_is_made_once_and_only_its_owner_can_read_it(home):
    made = state.secret_file(home.token)
    assert len(made) == 64
    assert home.token.stat().st_mode & 0o777 == 0o600
    assert state.secret_file(home.token) == made
    assert state.secret_file(home.token, "given") == "given"
    assert home.token.read_text() == "given"


def test_a_secret_that_others_could_read_is_made_anew(home):
    made = state.secret_file(home.token)
    home.token.chmod(0o644)
    assert state.secret_file(home.token) != made
    assert home.token.stat().st_mode & 0o777 == 0o600


def test_a_record_of_processes_that_are_gone_is_no_platform(home):
    home.platform.write_text(json.dumps({"address": "http://127.0.0.1:9", "supervisor": {"pid": 1, "starttime": 0}}))
    assert state.running(home) is None
    assert state.supervisor(home) is None
    home.platform.write_text("{")
    assert state.record(home) == {}


def test_the_supervisor_is_found_before_up_has_come_to_its_end(home):
    own = this_process()
    (home.head / "head.json").write_text(json.dumps({"state": "starting", "supervisor": own.to_json()}))
    assert state.supervisor(home) == own


@pytest.mark.parametrize("address", ["", "6379", "host", "http://host:1", "host:port"])
def test_a_ray_address_that_is_none_is_refused(address):
    with pytest.raises(UsageError, match="HOST:PORT"):
        attach.reach(address)


def test_a_ray_address_where_nobody_listens_is_refused_at_once():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(ClusterError, match="No Ray cluster answers"):
            attach.reach(f"127.0.0.1:{bound.getsockname()[1]}")


@pytest.fixture
def no_ray(monkeypatch, tmp_path):
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return monkeypatch


def test_their_token_is_found_as_ray_finds_it(home, no_ray, tmp_path):
    assert attach.their_token(home) == ""
    usual = tmp_path / ".ray" / "auth_token"
    usual.parent.mkdir()
    usual.write_text("u")
    assert attach.their_token(home) == str(usual)
    named = tmp_path / "named"
    named.write_text("n")
    no_ray.setenv("RAY_AUTH_TOKEN_PATH", str(named))
    assert attach.their_token(home) == str(named)
    no_ray.setenv("RAY_AUTH_TOKEN", "v")
    copy = Path(attach.their_token(home))
    assert (copy.read_text(), copy.stat().st_mode & 0o777) == ("v", 0o600)
    assert not home.ray_token.exists()
    no_ray.setenv("RAY_AUTH_MODE", "disabled")
    assert attach.their_token(home) == ""


def test_a_token_path_that_names_nothing_is_said(home, no_ray):
    no_ray.setenv("RAY_AUTH_TOKEN_PATH", "/no/such/file")
    with pytest.raises(UsageError, match="/no/such/file"):
        attach.their_token(home)


def test_ray_reads_nothing_of_an_outer_cluster(no_ray):
    for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN"):
        no_ray.setenv(name, "outer")
    no_ray.setenv("RAY_USAGE_STATS_ENABLED", "1")
    attach.ray_environment("/the/token")
    assert "RAY_ADDRESS" not in os.environ
    assert "RAY_AUTH_TOKEN" not in os.environ
    assert os.environ["RAY_AUTH_TOKEN_PATH"] == "/the/token"
    assert (os.environ["RAY_AUTH_MODE"], os.environ["RAY_USAGE_STATS_ENABLED"]) == ("token", "0")
    no_ray.setenv("RAY_AUTH_MODE", "token")
    attach.ray_environment("")
    assert os.environ["RAY_AUTH_MODE"] == "disabled"


class TheirCluster:
    """Stands in for `rlark.boot.deploy` on a cluster of somebody else, where nothing can be deployed."""

    address_info: ClassVar = {"session_dir": "/tmp/ray/session_1"}

    def __init__(self, home, *, ours, dashboard_url="127.0.0.1:8265"):
        self.home, self.ours, self.taken_off, self.dashboard_url = home, ours, [], dashboard_url

    @contextlib.contextmanager
    def connected(self, address):
        yield self

    def is_ours(self, home):
        return self.ours

    def serve_runs(self):
        return False

    def deploy(self, *_, **__):
        assert state.record(self.home)["head"]["address"] == "127.0.0.1:6379"  # `down` would find it already
        raise ClusterError("the API did not start")

    def undeploy(self, home, *, shut_serve):
        self.taken_off.append((home, shut_serve))


@pytest.fixture
def join(no_ray):
    """Lets `up` find a cluster where it imports what deploys."""

    def put(cluster):
        no_ray.setitem(sys.modules, "rlark.boot.deploy", cluster)
        no_ray.setattr(rlark.boot, "deploy", cluster, raising=False)
        no_ray.setattr(attach, "reach", lambda _: None)
        no_ray.setattr(attach, "ray_environment", lambda _: None)
        return cluster

    return put


def test_a_cluster_without_a_dashboard_is_refused_before_anything_is_put_there(home, join):
    cluster = join(TheirCluster(home, ours=False, dashboard_url=None))
    with pytest.raises(ClusterError, match="has no dashboard"):
        up._attach(home, Options(), FakeClock(), "127.0.0.1:6379")
    assert cluster.taken_off == []
    assert not home.platform.exists()


@pytest.mark.parametrize("ours", [False, True])
def test_an_attach_that_fails_takes_off_what_it_put_there_and_nothing_else(home, join, ours):
    cluster = join(TheirCluster(home, ours=ours))
    with pytest.raises(ClusterError, match="did not start"):
        up._attach(home, Options(), FakeClock(), "127.0.0.1:6379")
    assert cluster.taken_off == ([] if ours else [(home, True)])
    assert home.platform.exists() is ours


def test_down_stops_what_lives_and_what_was_deleted_meanwhile_is_no_trouble(home, monkeypatch):
    asked = []

    def call(_home, _address, method, path, body=None):
        asked.append((method, path.removeprefix("/api/v1/rlinf.io/v1alpha1/jobs"), body))
        if method == "GET":
            names = ["gone", "slow"] if len(asked) == 1 else []
            return {"items": [{"metadata": {"name": name}} for name in names]}
        if path.endswith("/gone"):
            raise urllib.error.HTTPError(path, 404, "Not Found", None, None)
        return {}

    monkeypatch.setattr(state, "answers", lambda _: True)
    monkeypatch.setattr(state, "call", call)
    assert stop_jobs(home, "http://127.0.0.1:1", FakeClock()) == ["gone", "slow"]
    assert asked[1:3] == [("PATCH", f"/{name}", {"spec": {"stopped": True}}) for name in ("gone", "slow")]
