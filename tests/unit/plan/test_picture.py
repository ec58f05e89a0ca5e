"""The placement map."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from rlark.plan.node import Node
from rlark.plan.picture import placement_grid, placement_svg
from rlark.plan.placement import resolve
from rlark.plan.plan import Ask, Plan


def plan_of(rules, gpus, *, ask=None, fused=False, **facts):
    node = Node(name="cloud-1", gpus=gpus, cpus=64, **facts)
    placement, _ = resolve({"component_placement": rules}, node)
    ranks = placement.ranks if placement else {}
    return Plan(
        job="j", node="cloud-1", ask=Ask(gpus=gpus if ask is None else ask, cpus=2), placement=ranks, fused=fused
    ), node


def grid(rules, gpus, **more):
    return placement_grid(*plan_of(rules, gpus, **more)).splitlines()


def test_ranks_stand_in_the_columns_of_their_gpus():
    assert grid({"actor": "0-1", "rollout": 2}, 4, gpu_model="H200") == [
        "cloud-1: 4 GPUs (H200), 2 CPUs",
        "",
        "         GPU 0  GPU 1  GPU 2  GPU 3",
        "actor    0      1      .      .",
        "rollout  .      .      0      .",
        "",
        "idle: GPU 3",
    ]


def test_faked_gpus_are_marked_in_title_and_columns():
    lines = grid({"actor": "0-7"}, 8, gpus_faked=True)
    assert lines[0] == "cloud-1: 8 GPUs (faked), 2 CPUs"
    assert lines[3].split() == ["(faked)"] * 8
    assert "(faked)" not in "\n".join(grid({"actor": "0-7"}, 8))
    assert "(faked)" not in "\n".join(grid({"actor": 0}, 0, gpus_faked=True))


def test_ranks_without_a_gpu_stand_in_the_cpu_column():
    assert grid({"actor,rollout": 0, "env": "0:0-1"}, 0)[2:] == [
        "         cpu",
        "actor    0",
        "rollout  0",
        "env      0-1",
    ]


def test_components_on_the_same_gpus_are_named_together():
    lines = grid({"actor": "0-1", "env": "0-3:0-7", "rollout": "2-3"}, 4)
    assert lines[-2:] == ["shared: GPUs 0-1 by actor and env", "shared: GPUs 2-3 by env and rollout"]
    assert lines[4].split() == ["env", "0-1", "2-3", "4-5", "6-7"]


def test_a_rank_on_several_gpus_stands_in_all_of_them():
    assert grid({"actor": "0-3:0-1"}, 4)[3].split() == ["actor", "0", "0", "1", "1"]


def test_fused_components_are_one_process():
    assert grid({"actor,rollout,env": 0}, 0, fused=True)[-1] == "fused: one process runs actor, rollout and env"


def test_a_run_script_alone_has_no_grid():
    assert grid({}, 2) == ["cloud-1: 2 GPUs, 2 CPUs", "", "no component is placed: the run script has everything"]


def test_a_thousand_ranks_are_summarised():
    lines = grid({"env": "0-7:0-999"}, 8)
    assert lines[3].split()[:3] == ["env", "0-124", "125-249"]
    assert max(map(len, lines)) <= 100


def test_ranks_in_many_pieces_are_counted():
    groups = [{"label": "a", "node_ranks": 0}]
    node = Node(name="n", gpus=2, cpus=64)
    rules = {"env": {"node_group": "a,a,a,a,a", "placement": "all"}}
    placement, _ = resolve({"component_placement": rules, "node_groups": groups}, node)
    text = placement_grid(Plan(job="j", node="n", ask=Ask(gpus=2), placement=placement.ranks), node)
    assert text.splitlines()[3].split() == ["env", "0,2,4,6,8", "1,3,5,7,9"]
    rules["env"]["node_group"] = ",".join("a" * 20)
    placement, _ = resolve({"component_placement": rules, "node_groups": groups}, node)
    text = placement_grid(Plan(job="j", node="n", ask=Ask(gpus=2), placement=placement.ranks), node)
    assert text.splitlines()[3].split() == ["env", "20", "ranks", "20", "ranks"]


def test_many_gpus_go_on_below():
    lines = grid({"actor": "all"}, 40)
    headings = [name for line in lines if line.lstrip().startswith("GPU") for name in line.split("GPU ")[1:]]
    assert [int(name) for name in headings] == list(range(40))
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize("gpus_faked", [True, False])
def test_the_svg_says_what_the_grid_says(gpus_faked):
    plan, node = plan_of({"actor": "0-1", "env": "0-1:0-3"}, 2, gpus_faked=gpus_faked)
    svg = placement_svg(plan, node)
    root = ET.fromstring(svg)
    words = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert words[0] == placement_grid(plan, node).splitlines()[0]
    assert words.count("(faked)") == (2 if gpus_faked else 0)
    assert {"actor", "env", "GPU 0", "GPU 1", "0-1", "2-3", "shared: GPUs 0-1 by actor and env"} <= set(words)
    assert len([element for element in root.iter() if element.tag.endswith("rect")]) == 4


def test_names_in_the_svg_are_escaped():
    plan, node = plan_of({"<b>&": 0}, 1)
    assert "<b>" not in placement_svg(plan, node)
    ET.fromstring(placement_svg(plan, node))


def test_the_svg_of_a_run_script_is_whole():
    ET.fromstring(placement_svg(*plan_of({}, 0)))
