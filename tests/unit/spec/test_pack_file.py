"""The packs and adapters that come with the project, and how they are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlark.spec.config import compose
from rlark.spec.config_files import Reading
from rlark.spec.job import ConfigSource
from rlark.spec.pack_file import inline_packs

CONFIGS = Path(__file__).resolve().parents[3] / "configs"
PACKS = sorted(file.stem for file in (CONFIGS / "tasks").glob("*.yaml"))


def found(task: object, base: Path = CONFIGS):
    data, findings = inline_packs({"env": {"train": {"task": task}}}, base, Reading(), "config")
    return data["env"]["train"]["task"], [f"{finding.code} {finding.message} ({finding.hint})" for finding in findings]


@pytest.mark.parametrize("name", PACKS)
def test_every_pack_is_right_and_agrees_with_its_adapter(name):
    pack, findings = found(name)
    assert findings == []
    assert pack["id"] == name


@pytest.mark.parametrize(
    ("name", "size", "adapter"),
    [
        ("goal-navigation", 8, "rdk-originbot"),
        ("generic-goal-navigation", 42, "generic-differential-drive"),
        ("originbot-goal-navigation-history", 24, "rdk-originbot-history3"),
    ],
)
def test_what_the_policy_sees(name, size, adapter):
    from engines.starter_ppo.config import Config

    source = ConfigSource(path=str(CONFIGS / "originbot_ppo.yaml"), overrides=[f"env.train.task={name}"])
    composed = compose(source, CONFIGS)
    config = Config.model_validate(composed.effective)
    assert (config.task.observation_size, config.task.adapter_id) == (size, adapter)


def test_a_pack_is_found_by_another_name():
    pack, findings = found("clear-arena")
    assert (pack["id"], findings) == ("goal-navigation-clear-arena", [])


@pytest.mark.parametrize(
    ("name", "meant"), [("clear-areno", "clear-arena"), ("originbot-goal-navigatoin", "originbot-goal-navigation")]
)
def test_the_name_that_was_meant_is_told(name, meant):
    _, findings = found(name)
    assert len(findings) == 1
    assert findings[0].startswith("RL474 ")
    assert f"did you mean {meant}?" in findings[0]


def test_a_broken_pack_beside_it_hides_no_alias(tmp_path):
    (tmp_path / "tasks").mkdir()
    text = (CONFIGS / "tasks/goal-navigation-clear-arena.yaml").read_text()
    (tmp_path / "tasks/goal-navigation-clear-arena.yaml").write_text(text)
    (tmp_path / "tasks/broken.yaml").write_bytes(b"\xff\xfe")
    (tmp_path / "tasks/listed.yaml").write_text("aliases: clear-arena\n")
    pack, findings = found("clear-arena", tmp_path)
    assert (pack["id"], findings) == ("goal-navigation-clear-arena", [])


def test_a_wrong_adapter_is_shown_in_its_own_file(tmp_path):
    for folder in ("tasks", "adapters"):
        (tmp_path / folder).mkdir()
    text = (CONFIGS / "tasks/goal-navigation.yaml").read_text()
    (tmp_path / "tasks/goal-navigation.yaml").write_text(text)
    robot = (CONFIGS / "adapters/rdk-originbot.yaml").read_text().replace("watchdogMs: 500", "watchdogMs: never")
    (tmp_path / "adapters/rdk-originbot.yaml").write_text(robot)
    _, findings = inline_packs({"env": {"train": {"task": "goal-navigation"}}}, tmp_path, Reading(), "config")
    assert [(finding.code, Path(finding.file).name) for finding in findings] == [("RL472", "rdk-originbot.yaml")]
    assert robot.splitlines()[findings[0].line - 1].strip() == "watchdogMs: never"
