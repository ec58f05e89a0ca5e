from __future__ import annotations

import json
import socket
import sys
from pathlib import Path

import pytest

from rlark.errors import ClusterError, ConflictError
from rlark.folder import Home, write_json
from rlark.sdk import local
from rlark.sdk.client import Client


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    home = Home(tmp_path / "home")
    home.create()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("RLARK_HOME", "RLARK_ADDRESS", "RLARK_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    return home


def stand_in(monkeypatch: pytest.MonkeyPatch, script: str) -> list[list[str]]:
    """Let a few lines of Python answer in the place of `rlark.boot`; gives what was asked of it."""
    asked: list[list[str]] = []

    def command(home: Home, verb: str, options: tuple[str, ...] = ()) -> list[str]:
        asked.append([verb, *options])
        return [sys.executable, "-c", script, str(home.root)]

    monkeypatch.setattr(local, "boot_command", command)
    return asked


def test_the_command_line_of_the_platform(home: Home) -> None:
    command = local.boot_command(home, "up", ["--port", "1"])
    assert command == [sys.executable, "-m", "rlark.boot", "up", "--home", str(home.root), "--port", "1"]


def test_boot_gives_the_last_line_and_passes_the_talk_on(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    script = "import sys; print('one', file=sys.stderr); print('noise'); print('{\"address\": \"http://x:1\"}')"
    asked = stand_in(monkeypatch, script)
    said: list[str] = []
    assert local.boot(home, "up", ["--port", "5"], said.append) == {"address": "http://x:1"}
    assert (asked, said) == ([["up", "--port", "5"]], ["one"])


def test_a_refusal_is_raised_as_what_it_is(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    refusal = {"code": "conflict", "message": "port 19091 is held by pid 7", "hint": "rlark up --port N", "exitCode": 7}
    stand_in(monkeypatch, f"import sys; print({json.dumps(json.dumps(refusal))}); sys.exit(7)")
    with pytest.raises(ConflictError) as caught:
        local.boot(home, "up")
    assert (caught.value.message, caught.value.hint) == ("port 19091 is held by pid 7", "rlark up --port N")


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("import sys; print('boom', file=sys.stderr); sys.exit(9)", "exit code 9 and without an answer: boom"),
        ("print('no json')", "without an answer: it said nothing"),
    ],
)
def test_an_end_without_an_answer(home: Home, monkeypatch: pytest.MonkeyPatch, script: str, told: str) -> None:
    stand_in(monkeypatch, script)
    with pytest.raises(ClusterError, match=told):
        local.boot(home, "up")


def test_a_daemon_that_keeps_the_pipes_open_does_not_hold_us_up(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    script = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    open(sys.argv[1] + "/daemon", "w").write(str(os.getpid()))
    time.sleep(60)
    os._exit(0)
print('{"address": "http://x:1"}', flush=True)
"""
    stand_in(monkeypatch, script)
    import os
    import signal

    try:
        assert local.boot(home, "up") == {"address": "http://x:1"}
    finally:
        os.kill(int((home.root / "daemon").read_text()), signal.SIGKILL)


def test_running_means_that_the_port_answers(home: Home) -> None:
    assert local.running(home) == {}
    with socket.create_server(("127.0.0.1", 0)) as server:
        record = {"address": f"http://127.0.0.1:{server.getsockname()[1]}"}
        write_json(home.platform, record)
        assert local.running(home) == record
    assert local.running(home) == {}


def test_somebody_elses_head_is_not_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "auto")
    assert "RAY_ADDRESS" not in local.boot_environment()
    assert "PATH" in local.boot_environment()


def test_a_client_starts_its_own_platform_once_and_finds_its_new_address(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        script = f"""
import json, pathlib, sys
home = pathlib.Path(sys.argv[1])
(home / "token").write_text("new")
(home / "platform.json").write_text(json.dumps({{"address": "{address}"}}))
print(json.dumps({{"address": "{address}"}}))
"""
        asked = stand_in(monkeypatch, script)
        client = Client({"home": str(home.root)})
        assert client.transport.token == ""
        client.ensure_platform()
        client.ensure_platform()
        assert asked == [["up"]]
        assert (client.transport.address, client.transport.token) == (address, "new")


def test_a_platform_elsewhere_is_never_started(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = stand_in(monkeypatch, "print('{}')")
    Client({"home": str(home.root), "address": "http://127.0.0.1:9"}).ensure_platform()
    assert asked == []


def test_this_machine_is_one_usable_node(home: Home) -> None:
    inventory = local.this_machine(home)
    (node,) = inventory.nodes
    assert inventory.source == "this machine"
    assert node.usable
    assert node.cpus >= 1
    assert node.memory > 0
    assert node.labels["rlark.io/node-category-cloud"] == "true"
    assert node.labels["kubernetes.io/hostname"] == node.name == socket.gethostname()
