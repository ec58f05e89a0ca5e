"""Node groups, as RLinf reads them."""

from __future__ import annotations

import pytest

from rlark.plan.node_group import node_groups

ARM = {"type": "Franka", "configs": [{"node_rank": 0, "robot_ip": "10.0.0.1"}]}


def group(**more):
    return {"label": "g", "node_ranks": 0} | more


def read(*items, gpus=2):
    return node_groups({"node_groups": list(items)}, gpus, "cluster")


def places(*items):
    """code -> where, of everything wrong."""
    return {finding.code: finding.path.removeprefix("cluster.node_groups") for finding in read(*items)[1]}


@pytest.mark.parametrize(
    ("item", "kind", "size"),
    [
        (group(), "GPU", 2),
        (group(node_ranks="0-0"), "GPU", 2),
        (group(node_ranks="all"), "GPU", 2),
        (group(ignore_hardware=True), "node", 1),
        (group(hardware=ARM), "Franka", 1),
        (group(hardware_type="Accelerator"), "GPU", 2),
        (group(label=4090), "GPU", 2),
    ],
)
def test_what_a_group_counts(item, kind, size):
    groups, found = read(item)
    assert found == []
    assert (groups[str(item["label"])].kind, groups[str(item["label"])].size) == (kind, size)


def test_two_groups_always_exist():
    groups, found = node_groups({}, 4, "cluster")
    assert found == []
    assert [(label, g.kind, g.size) for label, g in groups.items()] == [("node", "node", 1), ("cluster", "GPU", 4)]
    assert node_groups({}, 0, "cluster")[0]["cluster"].kind == "node"
    assert node_groups({}, None, "cluster")[0]["cluster"].size is None


def test_a_group_may_name_robots_that_another_describes():
    groups, found = read(group(hardware=ARM), group(label="h", hardware_type="Franka"))
    assert found == []
    assert (groups["h"].kind, groups["h"].size, groups["h"].noun) == ("Franka", 1, "Franka robot")


def test_variables_and_interpreter_are_kept():
    config = {"node_ranks": 0, "env_vars": [{"A": "1"}, {"B": 2}], "python_interpreter_path": "/venv/bin/python"}
    groups, found = read(group(env_configs=[config]))
    assert found == []
    assert groups["g"].environment == {"A": "1", "B": "2"}
    assert groups["g"].python == "/venv/bin/python"


def test_node_groups_is_a_list_of_mappings():
    assert [f.code for f in node_groups({"node_groups": {"label": "a"}}, 0, "c")[1]] == ["RL120"]
    assert places("train") == {"RL120": "[0]"}


@pytest.mark.parametrize(
    ("item", "where"),
    [
        ({"node_ranks": 0}, "[0]"),
        ({"label": "g"}, "[0]"),
        (group(labell="x"), "[0].labell"),
        (group(label=True), "[0].label"),
    ],
)
def test_keys_of_a_group(item, where):
    assert places(item) == {"RL121": where}


def test_an_unknown_key_names_the_near_one():
    (finding,) = read(group(node_rank=0))[1]
    assert finding.hint == "did you mean node_ranks?"


@pytest.mark.parametrize("label", ["node", "cluster"])
def test_reserved_labels(label):
    assert places(group(label=label)) == {"RL122": "[0].label"}


def test_a_label_stands_once():
    assert places(group(), group()) == {"RL122": "[1].label"}


@pytest.mark.parametrize("ranks", ["1", 1, "0-1", "x", -1, "0:0", "", True, [0]])
def test_node_ranks_name_node_0(ranks):
    assert places(group(node_ranks=ranks)) == {"RL123": "[0].node_ranks"}


@pytest.mark.parametrize(
    ("configs", "where"),
    [
        ({"node_ranks": 0}, ""),
        (["x"], ""),
        ([{"node_ranks": 0, "env_var": []}], "[0].env_var"),
        ([{"env_vars": []}], "[0]"),
        ([{"node_ranks": 0}, {"node_ranks": 0}], "[1]"),
        ([{"node_ranks": 0, "env_vars": {"A": "1"}}], "[0].env_vars"),
        ([{"node_ranks": 0, "env_vars": [{"A": "1", "B": "2"}]}], "[0].env_vars[0]"),
        ([{"node_ranks": 0, "env_vars": [{"A": "1"}, {"A": "2"}]}], "[0].env_vars[1]"),
    ],
)
def test_env_configs(configs, where):
    assert places(group(env_configs=configs)) == {"RL124": f"[0].env_configs{where}"}


def test_values_of_variables_are_never_shown():
    (finding,) = read(group(env_configs=[{"node_ranks": 0, "env_vars": {"TOKEN": "hush"}}]))[1]
    assert "hush" not in finding.model_dump_json()


@pytest.mark.parametrize(
    ("more", "where"),
    [
        ({"hardware": "Franka"}, "hardware"),
        ({"hardware": {"type": "Franka"}}, "hardware"),
        ({"hardware": {"type": "Frankia", "configs": []}}, "hardware.type"),
        ({"hardware": ARM | {"config": 1}}, "hardware.config"),
        ({"hardware": {"type": "Franka", "configs": {"node_rank": 0}}}, "hardware.configs"),
        ({"hardware": {"type": "Franka", "configs": ["a"]}}, "hardware.configs[0]"),
        ({"hardware": {"type": "Franka", "configs": [{"node_rank": 1}]}}, "hardware.configs[0].node_rank"),
        (
            {"hardware": {"type": "Franka", "configs": [{"node_rank": 0, "robot_ip": "ROBOT_IP"}]}},
            "hardware.configs[0].robot_ip",
        ),
        (
            {"hardware": {"type": "DOSW1", "configs": [{"node_rank": 0, "camera_serials": []}]}},
            "hardware.configs[0].camera_serials",
        ),
        ({"hardware": ARM | {"configs": ARM["configs"] * 2}}, "hardware.configs[1]"),
        ({"hardware": ARM, "ignore_hardware": True}, "ignore_hardware"),
        ({"hardware": ARM, "hardware_type": "Franka"}, "hardware_type"),
        ({"ignore_hardware": "yes"}, "ignore_hardware"),
    ],
)
def test_hardware(more, where):
    assert places(group(**more)) == {"RL125": f"[0].{where}"}


def test_robots_of_one_type_are_in_one_group():
    assert places(group(hardware=ARM), group(label="h", hardware=ARM)) == {"RL125": "[1].hardware.configs[0]"}
