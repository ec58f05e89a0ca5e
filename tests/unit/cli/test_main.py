from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from rlark.cli import main as entry
from rlark.cli.command import Command
from rlark.cli.main import ENTRIES, root
from rlark.errors import SpecError
from rlark.spec.finding import Finding

COMMANDS = [
    *("submit", "validate", "preview", "export", "schema"),
    *("jobs", "get", "logs", "wait", "events", "metrics", "artifacts", "queue"),
    *("stop", "start", "resume", "restart", "delete"),
    *("up", "down", "doctor", "nodes", "engines", "secrets", "open", "token", "config", "version"),
]


def every_command() -> list[tuple[str, click.Command]]:
    context = click.Context(root)
    found = []
    for name in ENTRIES:
        command = root.get_command(context, name)
        assert command is not None
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {verb}", sub) for verb, sub in command.commands.items()]
    return found


def test_the_commands_are_those_of_the_contract() -> None:
    assert list(ENTRIES) == COMMANDS


def test_the_summaries_of_the_help_are_the_commands_own() -> None:
    context = click.Context(root)
    assert {name: root.get_command(context, name).short_help for name in ENTRIES} == {
        name: item.summary for name, item in ENTRIES.items()
    }


@pytest.mark.parametrize(
    ("name", "command"), every_command(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_explains_itself(rlark: Any, name: str, command: click.Command) -> None:
    result = rlark(*name.split(), "--help")
    assert result.code == 0
    assert f"Usage: rlark {name}" in result.out
    assert "Global options:" in result.out
    assert command.help
    assert command.short_help.endswith(".")
    if " " not in name:
        assert "Examples:\n  rlark" in result.out or "Examples:\n  export" in result.out


def test_the_help_is_grouped_and_has_examples(rlark: Any) -> None:
    result = rlark("--help")
    for heading in ("Run a Job:", "Look:", "Manage:", "The platform:", "Global options:", "Examples:"):
        assert heading in result.out
    assert rlark().out == result.out
    assert rlark("-h").out == result.out


def test_help_loads_nothing_heavy() -> None:
    code = "import sys; from rlark.cli.main import run; run(['--help']); print(*sys.modules)"
    modules = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    loaded = {name.split(".")[0] for name in modules}
    assert loaded & {"ray", "torch", "jax", "onnx", "numpy", "pydantic", "rich", "hydra", "yaml", "httpx"} == set()


def test_every_option_of_a_command_has_help() -> None:
    for name, command in every_command():
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert parameter.help, f"{name} {parameter.opts}"


def test_unknown_commands_and_options_are_usage_errors(rlark: Any) -> None:
    result = rlark("jbos")
    assert result.code == 2
    assert "Did you mean 'jobs'?" in result.err
    assert rlark("jobs", "--phase", "Sleeping").code == 2
    assert rlark("nodes", "cordn").code == 2
    assert "Did you mean 'cordon'?" in rlark("nodes", "cordn").err
    assert rlark("get").code == 2


def test_global_options_stand_before_and_after(rlark: Any) -> None:
    before = rlark("-o", "json", "version")
    after = rlark("version", "-o", "json")
    assert before.json == after.json
    assert rlark("-o", "yaml", "version", "-o", "json").json == before.json
    assert rlark("config", "-o", "json").json == rlark("-o", "json", "config", "show").json


def test_quiet_prints_names_only(rlark: Any) -> None:
    assert rlark("config", "-q").out.split() == ["address", "token", "home", "output", "color", "port"]
    assert rlark("-q", "config").out == rlark("config", "-o", "name").out
    assert rlark("-q", "version", "-o", "json").out.startswith("{")


def test_an_error_is_message_hint_and_findings(rlark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = Finding(code="RL021", path="spec", line=3, column=2, file="job.yaml", message="one only")

    def refuse(*_: object) -> None:
        raise SpecError("the Job has 1 error", hint="mend it", findings=[finding]) from ValueError("inside")

    monkeypatch.setattr(entry.root, "main", lambda *_args, **_options: refuse())
    result = rlark("jobs")
    assert result.code == 3
    assert result.out == ""
    assert result.err == "job.yaml:3:2: error RL021 spec: one only\nerror: the Job has 1 error\n  hint: mend it\n"


def test_a_fault_of_ours_is_short_and_long_with_v(rlark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command(cls=Command)
    def broken() -> None:
        raise TypeError("oh")

    monkeypatch.setattr(type(entry.root), "get_command", lambda *_: broken)
    result = rlark("jobs")
    assert result.code == 1
    assert "error: a fault in rlark: TypeError: oh" in result.err
    assert "Traceback" not in result.err
    assert "Traceback" in rlark("-v", "jobs").err


def test_bad_settings_are_told_as_what_they_are(rlark: Any) -> None:
    Path("rlark.toml").write_text("adress = 'x'", encoding="utf-8")
    result = rlark("jobs")
    assert result.code == 2
    assert "did you mean 'address'?" in result.err


def test_a_reader_that_leaves_early_is_no_error(home: Any) -> None:
    code = (
        "import sys\n"
        "sys.stdin.readline()  # until the reader is gone\n"
        "from rlark.cli.main import main; main(['config', 'show'])"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.write(b"\n")
    process.stdin.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


def completions(words: str, count: int) -> list[str]:
    environment = os.environ | {"_RLARK_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(count)}
    return subprocess.check_output([sys.executable, "-m", "rlark.cli.main"], env=environment, text=True).split()


def complete(words: str, count: int) -> list[str]:
    return [line.split(",", 1)[1] for line in completions(words, count)]


def test_completion_of_commands_options_and_jobs(home: Any) -> None:
    (home.jobs / "demo-a").mkdir()
    (home.jobs / "demo-b").mkdir()
    (home.jobs / "other").mkdir()
    assert complete("rlark res", 1) == ["resume", "restart"]
    assert complete("rlark jobs --ph", 2) == ["--phase"]
    assert complete("rlark get demo", 2) == ["demo-a", "demo-b"]
    assert complete("rlark jobs -o ", 3) == ["table", "wide", "json", "yaml", "name"]
    assert complete(f"rlark --home {home.root}/none get ", 4) == []


@pytest.mark.parametrize("words", ["validate jo", "preview jo", "submit jo", "doctor jo", "queue --what-if jo"])
def test_job_files_complete_to_files(home: Any, words: str) -> None:
    assert completions(f"rlark {words}", len(words.split())) == ["file,jo"]
