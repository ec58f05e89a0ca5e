"""What must hold in an RLinf-style configuration."""

from __future__ import annotations

import pytest

from rlark.engine import Engine
from rlark.plan.node import Node
from rlark.plan.placement import resolve
from rlark.plan.rules.rlinf import check_configuration
from rlark.spec.scalar import Unquoted

ENGINE = Engine(id="starter-ppo", title="t", module="m", program="p:p", config="c:c", max_ranks={"actor": 1})
ALL = {"actor,rollout,env": 0}


def check(cluster, *, engine=ENGINE, gpus=8, path="config", config=None, **more):
    cluster = {"num_nodes": 1, "component_placement": ALL} | cluster
    placement, _ = resolve(cluster, Node(name="n", gpus=gpus, cpus=64))
    return check_configuration((config or {}) | {"cluster": cluster}, placement, engine, path, **more)


def only(cluster, **more):
    (finding,) = check(cluster, **more)
    return finding


def test_a_sound_configuration_has_no_findings():
    assert check({}) == []
    assert check({}, engine=None) == []
    assert check({"profiling": None, "tracer": {"enable": False}}) == []


@pytest.mark.parametrize("config", [{}, {"cluster": None}, {"cluster": [1]}])
def test_without_a_cluster_section_nothing_else_is_asked(config):
    (finding,) = check_configuration(config, None, ENGINE, "")
    assert (finding.code, finding.path) == ("RL150", "cluster")


@pytest.mark.parametrize(
    ("value", "shown"),
    [("1", '"1"'), (True, "true"), (1.0, "1.0"), (0, "0"), (-1, "-1"), (Unquoted("01", 1), '"01"')],
)
def test_num_nodes_is_an_integer(value, shown):
    finding = only({"num_nodes": value})
    assert (finding.code, finding.path, finding.actual) == ("RL150", "config.cluster.num_nodes", shown)
    assert finding.message == f"num_nodes is {shown}, not the integer 1"
    assert finding.hint.startswith("write num_nodes: 1")


def test_num_nodes_is_there():
    finding = only({"num_nodes": None})
    assert (finding.code, finding.message) == ("RL150", "num_nodes is missing")


def test_more_nodes_are_told_where_they_belong():
    finding = only({"num_nodes": 2})
    assert (finding.code, finding.path) == ("RL151", "config.cluster.num_nodes")
    assert "single node" in finding.message
    assert "multi-node flow" in finding.hint
    assert "KubeRay" in finding.hint


def test_one_node_group_is_enough():
    groups = [{"label": "a", "node_ranks": 0}, {"label": "b", "node_ranks": 0}]
    assert check({"node_groups": groups[:1]}) == []
    assert only({"node_groups": groups}).code == "RL152"


@pytest.mark.parametrize(
    ("key", "severity", "hint"),
    [("node_group", "error", "did you mean node_groups?"), ("colour", "warning", "known here are num_nodes")],
)
def test_keys_that_rlinf_would_drop(key, severity, hint):
    finding = only({key: 1})
    assert (finding.code, finding.severity, finding.path) == ("RL153", severity, f"config.cluster.{key}")
    assert finding.hint.startswith(hint)


def test_a_misspelt_placement_is_left_to_the_resolver():
    cluster = {"num_nodes": 1, "componet_placement": ALL}
    assert check_configuration({"cluster": cluster}, None, ENGINE, "") == []


def test_every_component_of_the_engine_is_placed():
    finding = only({"component_placement": {"actor,rollout": 0}})
    assert (finding.code, finding.path) == ("RL154", "config.cluster.component_placement")
    assert "starter-ppo needs env" in finding.message
    assert check({"component_placement": {"actor,rollout": 0}}, engine=None) == []


def test_a_misspelt_component_is_one_finding():
    finding = only({"component_placement": {"Actor,rollout": 0, "env": 0}})
    assert (finding.code, finding.hint) == ("RL155", "did you mean actor?")
    assert finding.path == 'config.cluster.component_placement["Actor,rollout"]'


def test_a_component_that_the_engine_has_not():
    finding = only({"component_placement": ALL | {"reward": 0}})
    assert (finding.code, finding.hint) == ("RL155", "its components are actor, rollout, env")


def test_more_ranks_than_the_engine_can_use():
    finding = only({"component_placement": {"actor": "0-1", "rollout,env": "2-3"}})
    assert (finding.code, finding.path) == ("RL156", "config.cluster.component_placement.actor")
    assert finding.message == "starter-ppo uses at most 1 Actor rank, and 2 are placed"
    assert finding.hint == "place actor on 1 resource, for example actor: 0"
    assert not finding.curable
    assert check({"component_placement": {"actor": "0-1:0", "rollout,env": "2-3"}}) == []


@pytest.mark.parametrize(
    ("rules", "where"),
    [
        ({"actor": "0-1:0", "rollout": "1", "env": "0-1"}, "rollout"),
        ({"actor": 0, "rollout": "0-1", "env": 0}, "actor"),
    ],
)
def test_actor_and_rollout_that_share_only_some_gpus(rules, where):
    finding = only({"component_placement": rules}, gpus=2)
    assert (finding.code, finding.severity) == ("RL133", "warning")
    assert finding.path == f"config.cluster.component_placement.{where}"


@pytest.mark.parametrize("rules", [{"actor": 0, "rollout": 1, "env": 0}, ALL])
def test_actor_and_rollout_that_share_all_or_nothing(rules):
    assert check({"component_placement": rules}, gpus=2) == []


def test_partial_sharing_is_nothing_to_an_engine_without_a_rollout():
    engine = Engine(id="e", title="t", module="m", program="p:p", config="c:c", components=("actor", "env"))
    assert check({"component_placement": {"actor": "0-1", "env": 0}}, engine=engine) == []


ARM = {"type": "Franka", "configs": [{"node_rank": 0, "robot_ip": "10.0.0.1"}]}


@pytest.mark.parametrize(
    ("cluster", "config", "where"),
    [
        ({}, {"env": {"eval": {"env_type": "realworld"}}}, "config.env.eval.env_type"),
        (
            {"node_groups": [{"label": "a", "node_ranks": 0, "hardware": ARM}]},
            {},
            "config.cluster.node_groups[0].hardware",
        ),
        (
            {"node_groups": [{"label": "a", "node_ranks": 0, "hardware_type": "Franka"}]},
            {},
            "config.cluster.node_groups[0].hardware_type",
        ),
    ],
)
def test_a_real_device_needs_a_confirmation(cluster, config, where):
    finding = only(cluster, config=config, engine=None)
    assert (finding.code, finding.severity, finding.path) == ("RL160", "error", where)
    assert 'metadata.annotations["rlark.io/device-safety-confirmed"]: "true"' in finding.hint
    assert check(cluster, config=config, engine=None, devices_confirmed=True) == []


def test_a_simulator_needs_no_confirmation():
    assert check({}, config={"env": {"train": {"env_type": "maniskill"}, "group_name": "EnvGroup"}}) == []


def test_numbers_that_do_not_divide_are_errors_whoever_runs_it():
    config = {"env": {"train": {"total_num_envs": 3}}}
    cluster = {"component_placement": {"actor,rollout": 0, "env": "0:0-1"}}
    assert only(cluster, config=config).severity == "error"
    assert only(cluster, config=config, engine=None).severity == "error"
    collecting = config | {"runner": {"task_type": "embodied"}}
    assert check(cluster, config=collecting, engine=None) == []  # nothing learns or acts: data are collected
