from __future__ import annotations

from typing import Any

from rlark.spec.schema import job_schema


def test_a_jobs_schema_is_what_is_printed_first(rlark: Any) -> None:
    assert rlark("schema").json == job_schema()
    assert rlark("schema", "job").out == rlark("schema").out
    assert rlark("schema", "-o", "yaml").yaml == job_schema()
    assert rlark("-q", "schema").json == job_schema()


def test_a_configurations_schema_is_its_engines(rlark: Any) -> None:
    result = rlark("schema", "config", "--engine", "starter-ppo")
    assert result.code == 0
    assert result.json["title"] == "A configuration of starter-ppo"
    assert "algorithm" in result.json["properties"]


def test_an_engine_that_does_not_exist_is_not_found(rlark: Any) -> None:
    result = rlark("schema", "config", "--engine", "starter-pp")
    assert (result.code, result.out) == (102, "")
    assert "did you mean 'starter-ppo'?" in result.err


def test_an_engine_is_named_for_a_configuration_only(rlark: Any) -> None:
    result = rlark("schema", "--engine", "starter-ppo")
    assert result.code == 2
    assert "rlark schema config --engine starter-ppo" in result.err


def test_which_engine_must_be_said_where_there_are_several(rlark: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("rlark.engine.find_engines", lambda: {"one": None, "other": None})
    result = rlark("schema", "config")
    assert result.code == 2
    assert "installed: one, other" in result.err
