from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any

import pytest

from rlark.cli import platform
from rlark.folder import write_json
from rlark.sdk import local

RECORD = {
    "address": "http://127.0.0.1:19091",
    "dashboard": "http://127.0.0.1:8265",
    "head": {"address": "10.0.0.2:6379", "tokenPath": "/state/ray-token"},
    "attached": False,
    "gpusFaked": True,
}
Boot = Callable[..., list[list[str]]]


@pytest.fixture
def boot(monkeypatch: pytest.MonkeyPatch) -> Boot:
    """Let a line of Python stand in for `rlark.boot`."""

    def answers(answer: dict[str, Any], code: int = 0) -> list[list[str]]:
        asked: list[list[str]] = []
        script = (
            f"import sys; print('talk', file=sys.stderr); print({json.dumps(json.dumps(answer))}); sys.exit({code})"
        )

        def command(_home: object, verb: str, options: tuple[str, ...] = ()) -> list[str]:
            asked.append([verb, *options])
            return [sys.executable, "-c", script]

        monkeypatch.setattr(local, "boot_command", command)
        return asked

    return answers


def test_up_passes_its_options_and_says_where_everything_is(rlark: Any, home: Any, boot: Boot) -> None:
    asked = boot(RECORD)
    result = rlark("up", "--num-gpus", 8, "--labels", "a=b,c=d", "--port", 19092, "--host", "0.0.0.0")
    assert result.code == 0
    assert asked == [["up", "--host", "0.0.0.0", "--port", "19092", "--num-gpus", "8", "--labels", "a=b,c=d"]]
    table = dict(row[:2] for row in result.rows)
    assert table["address"] == "http://127.0.0.1:19091"
    assert table["gpus"] == "faked"
    assert table["token"] == str(home.token)
    assert "rlark down" in table["stop with"]
    assert "starting the platform" in result.err


def test_up_as_json_and_quiet(rlark: Any, boot: Boot) -> None:
    boot(RECORD)
    assert rlark("up", "-o", "json").json == RECORD
    quiet = rlark("up", "-q")
    assert (quiet.out, quiet.err) == ("http://127.0.0.1:19091\n", "")
    assert "talk" in rlark("up", "-v").err


def test_a_held_port_names_its_holder(rlark: Any, boot: Boot) -> None:
    boot({"code": "conflict", "message": "Port 19091 is held by process 7 (python).", "hint": "rlark up --port N"}, 7)
    result = rlark("up")
    assert result.code == 7
    assert "held by process 7" in result.err
    assert "hint: rlark up --port N" in result.err


def test_foreground_becomes_the_platform(rlark: Any, home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    became: list[Any] = []
    monkeypatch.setattr(os, "execve", lambda *arguments: became.append(arguments))
    monkeypatch.setattr(platform, "_record_rows", lambda *_: [])
    monkeypatch.setattr(local, "boot", lambda *_: RECORD)  # execve does not return in life
    rlark("up", "--foreground", "--num-cpus", 2)
    (program, command, environment) = became[0]
    assert program == sys.executable
    assert command[1:] == ["-m", "rlark.boot", "up", "--home", str(home.root), "--num-cpus", "2", "--foreground"]
    assert "PATH" in environment


def test_down(rlark: Any, home: Any, boot: Boot) -> None:
    asked = boot({"stopped": True})
    result = rlark("down")
    assert (result.code, result.out, asked) == (0, "", [["down"]])
    assert str(home.jobs) in result.err
    assert rlark("down", "--force", "-o", "json").json == {"stopped": True}
    assert asked[-1] == ["down", "--force"]


def test_the_dashboard_and_its_token(rlark: Any, home: Any) -> None:
    missing = rlark("open", "dashboard")
    assert missing.code == 5
    assert "rlark up" in missing.err
    write_json(home.platform, RECORD)
    result = rlark("open")
    assert dict(row for row in result.rows) == {"dashboard": "http://127.0.0.1:8265", "token in": "/state/ray-token"}
    assert "cat /state/ray-token" in result.err
    assert rlark("open", "dashboard", "-o", "json").json == {
        "dashboard": "http://127.0.0.1:8265",
        "tokenPath": "/state/ray-token",
    }


def test_a_browser_is_opened_only_where_somebody_can_see_it(
    rlark: Any, home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import webbrowser

    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    write_json(home.platform, RECORD)
    rlark("open", "dashboard")
    assert opened == []
    monkeypatch.setenv("DISPLAY", ":0")
    rlark("open", "dashboard", "--no-browser")
    assert opened == []
    rlark("open", "dashboard")
    assert opened == ["http://127.0.0.1:8265"]
