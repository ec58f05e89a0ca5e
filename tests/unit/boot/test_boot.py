from __future__ import annotations

import json
import os
import socket

import pytest

from rlark.boot import __main__ as boot
from rlark.boot import attach, state
from rlark.boot.down import down
from rlark.boot.options import Options, read_labels
from rlark.errors import ClusterError, ConflictError, UsageError
from rlark.folder import Home
from rlark.host.process import this_process


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


def test_a_second_up_or_down_is_kept_out(home):
    with state.lock(home), pytest.raises(ConflictError, match="at work"), state.lock(home):
        pass
    with state.lock(home):
        pass


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
    assert attach.their_token(home) == str(home.ray_token)
    assert (home.ray_token.read_text(), home.ray_token.stat().st_mode & 0o777) == ("v", 0o600)
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
