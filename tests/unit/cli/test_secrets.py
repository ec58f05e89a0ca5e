from __future__ import annotations

import io
import json
import pty
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from rlark.secrets import SecretStore
from rlark.testing import job_text

VALUE = "hf_zYx9w8v7"


class Terminal(io.StringIO):
    """Standard input, as if somebody sat there."""

    def isatty(self) -> bool:
        return True


def stored(home: Any, name: str = "hub", key: str = "token") -> str | None:
    return SecretStore(home.secrets).get(name, key)


def test_a_value_comes_through_a_pipe_and_is_never_printed(rlark: Any, platform: Any, home: Any) -> None:
    result = rlark("secrets", "set", "hub", "token", stdin=f"{VALUE}\n")
    assert (result.code, result.out, result.err) == (0, "", "hub/token: set\n")
    assert stored(home) == VALUE
    rlark("secrets", "set", "deploy", "key", stdin="two\nlines\n")
    assert stored(home, "deploy", "key") == "two\nlines\n"
    listed = rlark("secrets")
    assert listed.rows[0] == ["NAME", "KEYS", "UPDATED"]
    assert [row[:2] for row in listed.rows[1:]] == [["deploy", "key"], ["hub", "token"]]
    assert rlark("secrets", "list", "-q").out == "deploy\nhub\n"
    as_json = rlark("secrets", "list", "-o", "json")
    assert [(item["name"], item["keys"]) for item in as_json.json["items"]] == [("deploy", ["key"]), ("hub", ["token"])]
    assert set(as_json.json["items"][0]) == {"name", "keys", "updatedAt"}
    assert VALUE not in listed.out + listed.err + as_json.out


def test_a_value_comes_from_a_file(rlark: Any, platform: Any, home: Any) -> None:
    Path("token.txt").write_text(f"{VALUE}\r\n", encoding="utf-8")
    assert rlark("secrets", "set", "hub", "token", "--from-file", "token.txt").code == 0
    assert stored(home) == VALUE
    missing = rlark("secrets", "set", "hub", "token", "--from-file", "nothing.txt")
    assert missing.code == 2
    assert "nothing.txt cannot be read: No such file" in missing.err
    Path("key.der").write_bytes(b"\x30\x82\xff")
    binary = rlark("secrets", "set", "hub", "token", "--from-file", "key.der")
    assert binary.code == 2
    assert "base64 -w0 FILE | rlark secrets set hub token" in binary.err
    assert stored(home) == VALUE


def test_at_a_terminal_it_is_asked_for_without_being_shown(
    rlark: Any, platform: Any, home: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def prompt(text: str, **how: Any) -> str:
        asked.append((text, how))
        return VALUE

    monkeypatch.setattr(io, "StringIO", Terminal)
    monkeypatch.setattr(click, "prompt", prompt)
    assert rlark("secrets", "set", "hub", "token").code == 0
    assert asked == [("Value of hub/token", {"hide_input": True, "err": True})]
    assert stored(home) == VALUE


@pytest.mark.parametrize(
    "arguments",
    [("hub", f"token={VALUE}"), ("hub", "token", VALUE), (f"hub={VALUE}", "token"), ("hub", "to", "a", VALUE)],
)
def test_a_value_is_no_argument(rlark: Any, platform: Any, home: Any, arguments: tuple[str, ...]) -> None:
    result = rlark("secrets", "set", *arguments, stdin="other-value")
    assert result.code == 2
    assert stored(home) is None
    assert "everybody on this machine could read it" in result.err
    assert "< FILE" in result.err
    assert VALUE not in result.err


def test_what_cannot_be_kept_is_refused_with_a_hint(rlark: Any, platform: Any, home: Any) -> None:
    for arguments, stdin, said in (
        (("hub", "token"), "", "fewer than 4 characters"),
        (("h ub", "token"), VALUE, "'h ub' cannot be the name"),
        (("hub", "to/ken"), VALUE, "'to/ken' cannot be the key"),
        (("..", "token"), VALUE, "'..' cannot be the name"),
    ):
        result = rlark("secrets", "set", *arguments, stdin=stdin)
        assert result.code == 2, result.err
        assert said in result.err
        assert "hint:" in result.err
    assert not home.secrets.exists()


def test_deleting_asks_or_is_told(rlark: Any, platform: Any, home: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in ("token", "other"):
        rlark("secrets", "set", "hub", key, stdin=VALUE)
    assert rlark("secrets", "delete", "hub").code == 2
    assert "-y" in rlark("secrets", "delete", "hub").err
    assert rlark("secrets", "delete", "hub", "token", "-y").err == "hub/token: deleted\n"
    assert (stored(home), stored(home, key="other")) == (None, VALUE)
    gone = rlark("secrets", "delete", "hub", "token", "-y")
    assert gone.code == 102
    assert "it has other" in gone.err
    monkeypatch.setattr(io, "StringIO", Terminal)
    monkeypatch.setattr(click, "confirm", lambda *_, **__: False)
    assert rlark("secrets", "delete", "hub").code == 130
    assert stored(home, key="other") == VALUE
    monkeypatch.setattr(click, "confirm", lambda *_, **__: True)
    assert rlark("secrets", "delete", "hub").code == 0
    assert rlark("secrets").err == "no secrets; see: rlark secrets set --help\n"


def test_without_a_platform_it_says_how_to_start_one(rlark: Any) -> None:
    result = rlark("secrets", "--address", "http://127.0.0.1:1")
    assert result.code == 5
    local = rlark("secrets", "set", "hub", "token", stdin=VALUE)
    assert VALUE not in result.err + local.err


def test_a_job_whose_secret_is_missing_is_refused_until_it_is_set(rlark: Any, platform: Any, home: Any) -> None:
    job = json.loads(job_text())
    variable = {"name": "HF", "valueFrom": {"secretRef": {"name": "hub", "key": "token"}}}
    job["spec"]["tasks"][0]["ray"]["env"] = [variable]
    Path("job.yaml").write_text(yaml.safe_dump(job), encoding="utf-8")
    refused = rlark("submit", "-d", "job.yaml")
    assert refused.code == 4
    assert "RL354" in refused.err
    assert "rlark secrets set hub token" in refused.err
    rlark("secrets", "set", "hub", "token", stdin=VALUE)
    accepted = rlark("submit", "-d", "job.yaml")
    assert accepted.code == 0, accepted.err
    for command in ("get", "events"):
        for form in ("table", "json", "yaml"):
            assert VALUE not in rlark(command, "demo", "-o", form).out
    assert "secretRef" in rlark("get", "demo", "-o", "yaml").out


def test_the_prompt_at_a_real_terminal_shows_nothing(platform: Any, home: Any) -> None:
    """What a person types does not come back on the screen."""
    import os
    import subprocess
    import sys

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "rlark.cli.main", "secrets", "set", "hub", "token"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    os.close(theirs)
    seen = b""
    while b"Value of hub/token: " not in seen:
        seen += os.read(ours, 1024)
    os.write(ours, f"{VALUE}\n".encode())
    while b"hub/token: set" not in seen:
        seen += os.read(ours, 1024)
    assert process.wait(30) == 0
    os.close(ours)
    assert VALUE.encode() not in seen
    assert stored(home) == VALUE


def test_the_store_of_the_platform_that_is_meant_counts(
    rlark: Any, platform: Any, home: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RLARK_HOME", str(tmp_path / "another"))
    job = json.loads(job_text())
    variable = {"name": "HF", "valueFrom": {"secretRef": {"name": "hub", "key": "token"}}}
    job["spec"]["tasks"][0]["ray"]["env"] = [variable]
    Path("job.yaml").write_text(yaml.safe_dump(job), encoding="utf-8")
    there = ("--home", home.root)
    assert "RL354" in rlark("submit", "-d", "job.yaml", *there).err
    rlark("secrets", "set", "hub", "token", *there, stdin=VALUE)
    for command in ("validate", "preview"):
        assert rlark(command, "job.yaml", *there).code == 0
    away = ("--address", platform.address, "--token", "secret")  # whose store only the platform itself can see
    assert rlark("validate", "job.yaml", *away).code == 0
    assert rlark("submit", "-d", "job.yaml", *away).code == 0
    SecretStore(home.secrets).delete("hub")
    assert rlark("validate", "job.yaml", *there).code == 4
    assert rlark("validate", "job.yaml", *away).code == 0
