"""Files that are no Jobs: configurations, parts of them, and Jobs with a slip."""

from __future__ import annotations

import pytest

from rlark.configuration import check_text, looks_like_job
from rlark.plan.node import Inventory, Node
from rlark.spec.yaml import parse

PPO = """\
cluster:
  num_nodes: 1
  component_placement:
    actor,env,rollout: 0-1
runner: {note: x}
"""


def nodes(*gpus, **more):
    return Inventory(nodes=[Node(name=f"n{n}", gpus=n, cpus=64, **more) for n in gpus], source="nodes.yaml")


def check(text, inventory=None, **more):
    return check_text(text, inventory or nodes(2), **({"file": "ppo.yaml"} | more))


def told(checked):
    return [str(finding).split(": ", 1)[0] + ": " + str(finding).split(": ", 1)[1][:40] for finding in checked.findings]


@pytest.mark.parametrize(
    "text",
    [
        "apiVersion: x",
        "kind: Job",
        "metadata: {}",
        "spec: {}",
        "apiVerison: x",
        "Metadata: {}",
        "tasks: []",
        "",
        "- 1",
        "a: [",
    ],
)
def test_what_looks_like_a_job_or_like_nothing_is_checked_as_one(text):
    assert looks_like_job(parse(text))


@pytest.mark.parametrize(
    "text", ["cluster: 1", "defaults: [a]", "data: {}", "precision: 32", "metadata_path: /a", "a: 1"]
)
def test_what_does_not_is_a_configuration_or_a_part_of_one(text):
    assert not looks_like_job(parse(text))


def test_a_job_is_checked_as_before():
    checked = check("apiVerison: rlinf.io/v1alpha1\nkind: Job\n")
    assert "RL023" in {finding.code for finding in checked.findings}
    assert checked.exit_code == 3


def test_places_are_those_of_the_file(tmp_path):
    checked = check(PPO.replace("num_nodes: 1", "num_nodes: 2").replace("note: x", "task_type: sfd"), folder=tmp_path)
    assert [(found.file, found.line, found.column, found.code, found.path) for found in checked.findings] == [
        ("ppo.yaml", 2, 14, "RL151", "cluster.num_nodes"),
        ("ppo.yaml", 5, 21, "RL161", "runner.task_type"),
    ]
    assert checked.exit_code == 3


def test_a_part_is_told_what_would_make_it_checkable(tmp_path):
    checked = check("total_num_envs: 8\n", folder=tmp_path)
    (finding,) = checked.findings
    assert (finding.code, finding.severity, checked.exit_code) == ("RL012", "warning", 0)
    assert "cluster: {num_nodes: 1" in finding.hint


def test_a_cluster_section_may_come_from_the_defaults(tmp_path):
    (tmp_path / "base.yaml").write_text(PPO.replace("0-1", "0-7"))
    (tmp_path / "top.yaml").write_text("defaults: [base, _self_]\nrunner: {note: x}\n")
    checked = check((tmp_path / "top.yaml").read_text(), file="top.yaml", folder=tmp_path)
    assert [(found.code, found.file, found.line) for found in checked.findings if found.code == "RL119"] == [
        ("RL119", str(tmp_path / "base.yaml"), 4)
    ]
    assert checked.exit_code == 4


def test_where_a_value_of_a_group_stands(tmp_path):
    (tmp_path / "env").mkdir()
    (tmp_path / "env/walk.yaml").write_text("# walks\nenv_type: walk\ntotal_num_envs: 3\n")
    text = f"defaults: [env/walk@env.train, _self_]\n{PPO}rollout: {{pipeline_stage_num: 1}}\n".replace(
        "sft", "embodied"
    )
    checked = check(text, folder=tmp_path)
    finding = next(found for found in checked.findings if found.code == "RL171")
    assert (finding.file, finding.line, finding.column) == (str(tmp_path / "env/walk.yaml"), 3, 17)
    assert finding.path == "env.train.total_num_envs"


def test_standard_input_is_composed_beside_the_folder(tmp_path):
    (tmp_path / "base.yaml").write_text(PPO)
    checked = check("defaults: [base, _self_]\ncluster: {num_nodes: 2}\n", file="-", folder=tmp_path)
    assert ("RL151", "-", 2) in {(found.code, found.file, found.line) for found in checked.findings}


def test_of_several_nodes_the_one_that_suits_best_counts():
    fits = PPO.replace("0-1", "0-3")
    assert check(fits, nodes(0, 8, 2)).findings == []
    assert check(fits, nodes(0, 2)).exit_code == 4
    assert check(fits, nodes(8, unschedulable=True)).findings == []  # no node is known, so only the text counts


def test_a_real_device_is_a_warning_without_a_job_to_confirm_it():
    (finding,) = check(PPO + "env: {train: {env_type: realworld}}\n").findings
    assert (finding.code, finding.severity) == ("RL160", "warning")


def test_an_engines_configuration_is_judged_by_the_engine():
    text = "cluster: {num_nodes: 1, component_placement: {'actor,rollout,env': 0}}\nrunner: {engine: starter_pbo}\n"
    (finding,) = check(text).findings
    assert (finding.code, finding.path, finding.file, finding.line) == ("RL190", "runner.engine", "ppo.yaml", 2)


def test_what_defaults_lack_names_the_folders_searched(tmp_path):
    (tmp_path / "hybrid").mkdir()
    (tmp_path / "hybrid/fsdp.yaml").write_text("a: 1\n")
    text = f"defaults:\n  - training/fsdp@actor.fsdp\n{PPO}"
    (finding,) = check(text, folder=tmp_path).findings
    assert (finding.code, finding.path, finding.line, finding.column) == ("RL460", "defaults[0]", 2, 5)
    assert str(tmp_path) in finding.message
    assert finding.hint == "fsdp is in hybrid; write hybrid/fsdp"
