from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from rlark.cli.main import run
from rlark.folder import Home


@dataclass
class Result:
    """What one call of `rlark` gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def yaml(self) -> Any:
        return yaml.safe_load(self.out)

    @property
    def rows(self) -> list[list[str]]:
        """The lines of a plain table, its titles first."""
        return [line.split("\t") for line in self.out.splitlines()]


Rlark = Callable[..., Result]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A state directory of the test's own; nothing of the user's settings is seen."""
    home = Home(tmp_path / "home")
    home.create()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("RLARK_HOME", str(home.root))
    for name in (
        "RLARK_ADDRESS",
        "RLARK_TOKEN",
        "RLARK_OUTPUT",
        "RLARK_COLOR",
        "NO_COLOR",
        "DISPLAY",
        "WAYLAND_DISPLAY",
    ):
        monkeypatch.delenv(name, raising=False)
    return home


@pytest.fixture
def rlark(home: Home, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Rlark:
    """Call `rlark` in this process."""

    def call(*arguments: object, stdin: str = "") -> Result:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return call
