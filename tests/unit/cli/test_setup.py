from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

from rlark import __version__


def test_show_prints_the_token_alone(rlark: Any, home: Any) -> None:
    home.token.write_text("secret\n", encoding="utf-8")
    assert (rlark("token", "show").out, rlark("token").out) == ("secret\n", "secret\n")
    assert rlark("token", "show", "-o", "json").json == {"token": "secret", "path": str(home.token)}


def test_rotate_replaces_it_for_its_owner_only(rlark: Any, home: Any) -> None:
    home.token.write_text("old", encoding="utf-8")
    result = rlark("token", "rotate")
    assert (result.code, result.out) == (0, "")
    fresh = home.token.read_text(encoding="utf-8").strip()
    assert fresh != "old"
    assert len(fresh) >= 40
    assert fresh not in result.err
    assert stat.S_IMODE(home.token.stat().st_mode) == 0o600
    assert [path.name for path in home.root.iterdir() if "token" in path.name] == ["token"]


@pytest.mark.parametrize("verb", ["show", "rotate"])
def test_no_token_yet(rlark: Any, verb: str) -> None:
    result = rlark("token", verb)
    assert result.code == 102
    assert "rlark up" in result.err


def test_config_shows_values_and_origins_but_no_token(rlark: Any, home: Any) -> None:
    Path("rlark.toml").write_text('output = "wide"', encoding="utf-8")
    home.token.write_text("secret", encoding="utf-8")
    result = rlark("config", "show", "--origin", "--address", "http://h:1", "--token", "given")
    assert result.rows[0] == ["KEY", "VALUE", "ORIGIN"]
    table = {row[0]: row[1:] for row in result.rows[1:]}
    assert table["address"] == ["http://h:1", "--address"]
    assert table["token"] == ["(set)", "--token"]
    assert table["home"] == [str(home.root), "default"] or table["home"][1] == "RLARK_HOME"
    assert table["output"] == ["wide", str(Path.cwd() / "rlark.toml")]
    assert "given" not in result.out
    assert rlark("config", "show").rows[0] == ["KEY", "VALUE"]


def test_version(rlark: Any) -> None:
    versions = rlark("version", "-o", "json").json
    assert versions["rlark"] == __version__
    assert {"python", "ray", "torch", "onnxruntime"} <= set(versions)
    assert rlark("--version").out == f"{__version__}\n"
    assert rlark("version", "-q").out == f"{__version__}\n"
