from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rlark.spec import composer, config_files
from rlark.spec import config as config_module
from rlark.spec.config import CONFIG, Composed, compose, compose_text
from rlark.spec.job import ConfigSource
from rlark.spec.scalar import Unquoted

BASE = """\
cluster:
  num_nodes: 1
  component_placement: {actor: 0}
algorithm:
  seed: 1
  lr: 1e-4
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "base.yaml").write_text(BASE)
    return tmp_path


def of(folder: Path | None, *, engine: bool = True, **source: object) -> Composed:
    return compose(ConfigSource.model_validate(source), folder, engine=engine)


def told(composed: Composed) -> list[str]:
    return [f"{finding.code} {finding.path}" for finding in composed.findings]


@pytest.fixture
def no_hydra(monkeypatch):
    def refuse(*_args, **_more):
        raise AssertionError("Hydra was asked")

    monkeypatch.setattr(config_module, "compose_file", refuse)


def test_a_plain_file_needs_no_hydra(folder, no_hydra):
    composed = of(folder, path="base.yaml")
    assert composed.effective == {
        "cluster": {"num_nodes": 1, "component_placement": {"actor": 0}},
        "algorithm": {"seed": 1, "lr": 1e-4},
    }
    assert (composed.findings, composed.base, composed.path) == ((), str(folder), CONFIG)
    assert composed.origin is not None
    assert composed.origin.path == str(folder / "base.yaml")


def test_where_it_comes_from_is_absolute_though_the_folder_is_not(folder, monkeypatch):
    monkeypatch.chdir(folder)
    composed = of(Path(), path="base.yaml")
    assert composed.origin is not None
    assert (composed.origin.path, composed.base, composed.file) == (
        f"{folder}/base.yaml",
        f"{folder}",
        f"{folder}/base.yaml",
    )


def test_the_plain_way_gives_what_hydra_gives(folder):
    file = folder / "base.yaml"
    assert of(folder, path="base.yaml").effective == composer.compose_file(file, [], composer.Reading(), lenient=False)


def test_overrides_are_applied_in_order(folder):
    composed = of(folder, path="base.yaml", overrides=["algorithm.seed=2", "algorithm.seed=3", "+algorithm.gamma=0.9"])
    assert composed.effective is not None
    assert composed.effective["algorithm"] == {"seed": 3, "lr": 1e-4, "gamma": 0.9}
    assert composed.origin is not None
    assert composed.origin.overrides == ["algorithm.seed=2", "algorithm.seed=3", "+algorithm.gamma=0.9"]


def test_defaults_and_interpolation(folder, monkeypatch):
    monkeypatch.setenv("RLARK_TEST_SEED", "5")
    (folder / "model").mkdir()
    (folder / "model" / "small.yaml").write_text("width: 8\n")
    (folder / "top.yaml").write_text(
        "defaults: [base, model: small, _self_]\n"
        "algorithm: {seed: '${oc.env:RLARK_TEST_SEED}', copy: '${model.width}'}\n"
    )
    composed = of(folder, dir=".", name="top")
    assert composed.findings == ()
    assert composed.effective is not None
    assert composed.effective["algorithm"] == {"seed": "5", "lr": 1e-4, "copy": 8}
    assert composed.effective["model"] == {"width": 8}


def test_one_configuration_of_many_jobs_is_composed_once_until_it_changes(folder, monkeypatch):
    first = of(folder, path="base.yaml", overrides=["algorithm.seed=2"])
    assert of(folder, path="base.yaml", overrides=["algorithm.seed=2"]) is first
    assert of(folder, path="base.yaml", overrides=["algorithm.seed=3"]) is not first
    monkeypatch.setenv("RLARK_TEST_SEED", "6")
    assert of(folder, path="base.yaml", overrides=["algorithm.seed=2"]) is not first
    second = of(folder, path="base.yaml")
    (folder / "base.yaml").write_text(BASE.replace("seed: 1", "seed: 99"))
    os.utime(folder / "base.yaml", ns=(1, 1))
    changed = of(folder, path="base.yaml")
    assert changed is not second
    assert changed.effective is not None
    assert changed.effective["algorithm"]["seed"] == 99


def test_inline_stays_as_it_is_written(no_hydra):
    inline = {"cluster": {"component_placement": {"actor": Unquoted("1:0", 60)}}}
    composed = of(None, inline=inline)
    assert composed.effective == inline
    assert isinstance(composed.effective["cluster"]["component_placement"]["actor"], Unquoted)
    assert (composed.path, composed.file) == (f"{CONFIG}.inline", "")


def test_inline_with_overrides_and_interpolation():
    composed = of(None, inline={"a": {"x": 1}, "b": "${a.x}"}, overrides=["a.x=2"])
    assert composed.effective == {"a": {"x": 2}, "b": 2}
    assert told(of(None, inline={"a": 1}, overrides=["b=2"])) == [f"RL452 {CONFIG}.overrides[0]"]


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("runner.max_epoch=3", "did you mean max_epochs?"),
        ("runner.colour=3", "a new key needs a + in front: +runner.colour=3"),
        ("runner.place={env: 0}", "to replace this one write two overrides, ~runner.place and +runner.place={env: 0}"),
        ("runner.place", "write section.key=value"),
        ("~runner.nothing", None),
    ],
)
def test_how_to_write_an_override_that_cannot_be_applied(override, hint):
    inline = {"runner": {"max_epochs": 1, "place": {"actor,env": 0}}}
    (finding,) = of(None, inline=inline, overrides=[override]).findings
    assert (finding.code, finding.path) == ("RL452", f"{CONFIG}.overrides[0]")
    assert finding.hint == hint or (hint is not None and str(finding.hint).endswith(hint))


def test_what_yaml_11_reads_otherwise_survives_hydra_and_is_told(folder):
    (folder / "base.yaml").write_text(BASE + "  note: 0x1f\n  list: [on]\n")
    composed = of(folder, path="base.yaml", overrides=["+algorithm.gamma=1"])
    assert composed.effective is not None
    assert isinstance(composed.effective["algorithm"]["note"], Unquoted)
    assert told(composed) == [f"RL459 {CONFIG}.algorithm.note", f"RL459 {CONFIG}.algorithm.list[0]"]


def test_over_http_a_relative_path_means_nothing():
    assert told(of(None, path="base.yaml")) == [f"RL457 {CONFIG}.path"]
    assert told(of(None, dir="configs", name="base")) == [f"RL457 {CONFIG}.dir"]


def test_over_http_an_absolute_path_does(folder):
    assert of(None, path=str(folder / "base.yaml")).findings == ()


def test_a_file_that_cannot_be_read(folder):
    (folder / "base.yaml").write_bytes(b"a: \xff\xfe\n")
    assert [finding.code for finding in of(folder, path="base.yaml").findings] == ["RL451"]


def test_an_empty_configuration_is_an_empty_mapping(folder):
    (folder / "base.yaml").write_text("# nothing\n")
    assert of(folder, path="base.yaml").effective == {}


def test_several_values_that_are_missing_are_told_at_once(folder):
    (folder / "base.yaml").write_text("a: {x: '???'}\nb: '???'\nc: '${oc.env:RLARK_TEST_UNSET}'\nd: '${nowhere}'\n")
    codes = [finding.code for finding in of(folder, path="base.yaml").findings]
    assert codes == ["RL455", "RL455", "RL453", "RL454"]


def test_a_run_scripts_configuration_may_leave_more_open_than_its_placement(folder):
    (folder / "base.yaml").write_text(BASE + "  later: '???'\nenv: {path: '${oc.env:RLARK_TEST_UNSET}'}\n")
    composed = of(folder, path="base.yaml", engine=False)
    assert composed.findings == ()
    assert composed.effective is not None
    assert composed.effective["cluster"]["num_nodes"] == 1
    (folder / "base.yaml").write_text("cluster: {num_nodes: '${oc.env:RLARK_TEST_UNSET}'}\n")
    assert [finding.code for finding in of(folder, path="base.yaml", engine=False).findings] == ["RL453"]


def test_a_pack_is_put_inline_by_id_and_by_file(folder):
    (folder / "tasks").mkdir()
    (folder / "tasks" / "walk.yaml").write_text("id: walk\n")
    for task in ("walk", "tasks/walk.yaml", str(folder / "tasks" / "walk.yaml")):
        composed = of(folder, inline={"env": {"train": {"task": task, "n": 1}, "eval": {"m": 2}}})
        assert composed.effective == {"env": {"train": {"task": {"id": "walk"}, "n": 1}, "eval": {"m": 2}}}
        assert "RL471" in [finding.code for finding in composed.findings]


def test_a_pack_of_an_inline_configuration_stands_beside_its_origin(folder):
    (folder / "tasks").mkdir()
    (folder / "tasks" / "walk.yaml").write_text("id: walk\n")
    origin = {"path": str(folder / "base.yaml")}
    composed = of(None, inline={"env": {"train": {"task": "walk"}}}, origin=origin)
    assert composed.effective == {"env": {"train": {"task": {"id": "walk"}}}}
    assert told(of(None, inline={"env": {"train": {"task": "walk"}}})) == [f"RL474 {CONFIG}.inline.env.train.task"]


def test_what_is_wrong_with_a_pack_is_told_once_though_two_sections_name_it(folder):
    (folder / "tasks").mkdir()
    (folder / "tasks" / "walk.yaml").write_text("id: walk\nid: walk\n")
    composed = of(folder, inline={"env": {"train": {"task": "walk"}, "eval": {"task": "walk"}}})
    assert [(finding.code, Path(finding.file).name, finding.line) for finding in composed.findings] == [
        ("RL004", "walk.yaml", 2)
    ]


def test_a_pack_that_is_written_later_is_found(folder):
    (folder / "later.yaml").write_text("env: {train: {task: later}}\n")
    assert told(of(folder, path="later.yaml")) == [f"RL474 {CONFIG}.env.train.task"]
    (folder / "tasks").mkdir()
    (folder / "tasks" / "later.yaml").write_text("id: later\n")
    again = of(folder, path="later.yaml")
    assert "RL474" not in [finding.code for finding in again.findings]
    assert again.effective == {"env": {"train": {"task": {"id": "later"}}}}


def test_a_run_scripts_tasks_are_its_own(folder):
    inline = {"env": {"train": {"task": "PickCube-v1"}}}
    assert of(folder, inline=inline, engine=False).effective == inline


def test_rlinfs_own_configurations_compose_to_what_rlinf_makes_of_them(shared, monkeypatch):
    root = shared / "data/rlinf-configs"
    monkeypatch.setenv("EMBODIED_PATH", str(root / "examples/embodiment"))
    monkeypatch.setenv("REPO_PATH", str(root))
    rows = json.loads((shared / "cases/rlinf-configs.json").read_text())
    assert len(rows) > 150
    for row in rows[::43]:
        composed = of(root, path=row["config"], engine=False)
        if "compose_error" in row:
            assert composed.findings, row["config"]
            continue
        assert composed.effective is not None, (row["config"], composed.findings)
        cluster = composed.effective["cluster"]
        assert (cluster["num_nodes"], cluster["component_placement"]) == (row["num_nodes"], row["component_placement"])


def test_a_group_is_parsed_once_for_all_configurations_until_it_changes(folder, monkeypatch):
    (folder / "env").mkdir()
    (folder / "env/walk.yaml").write_text("steps: 5\n")
    for name in ("one", "two"):
        (folder / f"{name}.yaml").write_text("defaults: [env/walk@env.train, _self_]\ncluster: {num_nodes: 1}\n")
    parsed = []
    real = config_files.parse
    monkeypatch.setattr(config_files, "parse", lambda text: parsed.append(text) or real(text))
    assert of(folder, path="one.yaml", engine=False).effective == of(folder, path="two.yaml", engine=False).effective
    assert parsed.count("steps: 5\n") == 1
    (folder / "env/walk.yaml").write_text("steps: 7\n")
    os.utime(folder / "env/walk.yaml", ns=(1, 1))
    changed = of(folder, path="one.yaml", engine=False).effective
    assert changed is not None
    assert changed["env"] == {"train": {"steps": 7}}


def test_rlinfs_own_arithmetic_is_resolved_and_not_left_behind(folder):
    (folder / "sums.yaml").write_text(
        "cluster: {num_nodes: 1}\n"
        "a: {x: 8, y: 3, less: '${subtract:${a.x},${a.y}}', no: '${not:${a.x}}', open: '${oc.env:RLARK_NOT_SET}'}\n"
        "b: {part: '${int_div:${multiply:${a.x},${a.y}},5}'}\n"
    )
    composed = of(folder, path="sums.yaml", engine=False)
    assert composed.findings == ()
    assert composed.effective is not None
    assert composed.effective["a"] == {
        "x": 8,
        "y": 3,
        "less": 5,
        "no": False,
        "open": "${oc.env:RLARK_NOT_SET}",
    }
    assert composed.effective["b"] == {"part": 4}
    assert not OmegaConf.has_resolver("subtract")
    assert "RL453" in told(of(folder, path="sums.yaml"))[0]


def test_a_text_is_composed_though_no_file_holds_it(folder):
    composed = compose_text("defaults: [base, _self_]\nalgorithm: {seed: 2}\n", folder / "stdin")
    assert composed.effective is not None
    assert composed.effective["algorithm"] == {"seed": 2, "lr": 1e-4}
    assert (composed.path, composed.origin) == ("", None)


@pytest.mark.parametrize(
    ("text", "place", "told"),
    [
        ("a: 1\ndefaults: base\n", (2, 11), "write a list"),
        ("defaults: [base, null]\n", (1, 11), "name of a file"),
        ("defaults: [_self_, base, _self_]\n", (1, 11), "keep one _self_"),
        ("defaults: [base, {override model: big}]\n", (1, 11), "without override"),
        ("defaults: [base, {model: small}, {model: big}]\n", (1, 11), "name it once"),
        ("defaults: [base, {model: '???'}]\n", (1, 11), "instead of ???"),
        ("defaults: [base, {model: '${size}'}]\nsize: small\n", (1, 11), "write the name"),
        ("defaults: [base]\nhydra: {searchpath: /data}\n", (2, 21), "write a list"),
        ("defaults: [base]\nhydra: {jobb: 1}\n", (2, 8), "correct the key"),
        ("a: 1\ndefaults: [main]\n", (2, 11), "its own default"),
        ("defaults: [base, other]\n", (1, 11), "its own default"),
    ],
)
def test_what_hydra_cannot_compose_is_told_where_it_stands_and_how_to_mend_it(folder, text, place, told):
    (folder / "model").mkdir()
    for size in ("small", "big"):
        (folder / "model" / f"{size}.yaml").write_text("width: 1\n")
    (folder / "other.yaml").write_text("defaults: [main]\n")
    (folder / "main.yaml").write_text(text)
    (finding,) = of(folder, path="main.yaml").findings
    assert (finding.code, finding.file) == ("RL456", str(folder / "main.yaml"))
    assert (finding.line, finding.column) == place
    assert told in str(finding.hint)
    assert finding.path.startswith(f"{CONFIG}.")


@pytest.mark.parametrize("wrong", ["${", "${a", "x ${a.b y", "${a:b", "${oc.env:'A}"])
def test_an_interpolation_that_is_none_is_told_where_it_stands(folder, wrong):
    text = f"defaults: [base]\nalgorithm:\n  note: {json.dumps(wrong)}\n"
    (folder / "main.yaml").write_text(text)
    (finding,) = of(folder, path="main.yaml").findings
    assert (finding.code, finding.path, finding.line) == ("RL454", f"{CONFIG}.algorithm.note", 3)
    assert "close it" in str(finding.hint)
    (inline,) = of(None, inline={"algorithm": {"note": wrong, "seed": "${algorithm.note}"}}).findings
    assert (inline.code, inline.path, inline.file) == ("RL454", f"{CONFIG}.inline.algorithm.note", "")


def test_defaults_of_an_inline_configuration_lie_beside_the_job(folder):
    inline = {"defaults": ["base", "_self_"], "algorithm": {"seed": 2}}
    composed = of(folder, inline=inline, engine=False)
    assert composed.effective == {
        "cluster": {"num_nodes": 1, "component_placement": {"actor": 0}},
        "algorithm": {"seed": 2, "lr": 1e-4},
    }
    assert sorted(file.name for file in folder.iterdir()) == ["base.yaml"]


@pytest.mark.parametrize("beside", [True, False])
def test_defaults_that_are_not_there_are_looked_for_where_the_job_is(folder, beside):
    (finding,) = of(folder if beside else None, inline={"defaults": ["bose"]}).findings
    assert (finding.code, finding.path, finding.file) == ("RL460", f"{CONFIG}.inline.defaults[0]", "")
    where = str(folder) if beside else "none, for the configuration stands inline"
    assert finding.message == f"defaults name bose, and there is no bose.yaml in the search path: {where}"
    assert finding.hint == (
        "did you mean base?" if beside else "add the folder that holds bose to hydra.searchpath, or correct the name"
    )


def test_a_group_that_is_no_text_is_told(folder):
    (folder / "bytes.yaml").write_bytes(b"\xff\xfe")
    (folder / "main.yaml").write_text("defaults: [base, bytes]\n")
    assert [finding.code for finding in of(folder, path="main.yaml").findings] == ["RL451"]


@pytest.mark.parametrize(("text", "told"), [("010", "reads 8"), ("0o7", "and for RLinf's"), ("08", "and for RLinf's")])
def test_a_number_that_is_none_for_rlinf_is_not_said_to_be_read_otherwise(text, told):
    composed = compose_text(f"cluster: {{num_nodes: {text}}}\nseed: {text}\n", Path("/nowhere/main.yaml"))
    (finding,) = composed.findings  # the cluster section has rules of its own, in a file of its own too
    assert (finding.code, finding.path) == ("RL459", "seed")
    assert told in finding.message
