"""Every row of RLinf's own results, and its shipped configurations at 0, 1, 2 and 8 GPUs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from rlark.plan.node import Node
from rlark.plan.placement import resolve
from rlark.plan.rules.rlinf import check_configuration
from rlark.spec.finding import errors_of
from rlark.spec.scalar import Unquoted, yaml11_surprise

SHARED = Path(__file__).parents[3] / "../shared"
NUM_NODES = {"err_num_nodes_float": 1.0, "err_num_nodes_bool": True}
"""Rows whose mistake stands beside the placement."""

pytestmark = pytest.mark.skipif(not (SHARED / "cases").is_dir(), reason="needs ../shared/cases")


class _Loader(yaml.SafeLoader):
    """Plain scalars as a file has them: decimals, null and text, the rest marked."""


def _scalar(loader, node):
    surprise = yaml11_surprise(node.value) if node.style is None else None
    if surprise is not None:
        return Unquoted(node.value, surprise)
    return _plain(node)


def _plain(node):
    if node.style is not None or not node.value.lstrip("-").isdigit():
        return None if node.style is None and node.value in ("null", "~", "") else node.value
    return int(node.value)


for _tag in ("int", "float", "str", "bool", "null"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _scalar)


def rows(name):
    path = SHARED / "cases" / name
    return json.loads(path.read_text()) if path.is_file() else []


def cluster_of(row):
    section = {
        "num_nodes": NUM_NODES.get(row["name"], 1),
        "component_placement": yaml.load(row["placement_yaml"], Loader=_Loader),
    }
    return section | ({"node_groups": row["node_groups"]} if "node_groups" in row else {})


@pytest.mark.parametrize("row", rows("placement.json"), ids=lambda row: row["name"])
def test_a_row_resolves_as_rlinf_does(row):
    cluster = cluster_of(row)
    node = Node(name="n", gpus=row["gpus_per_node"][0], cpus=64)

    placement, found = resolve(cluster, node, isolate=row.get("isolate_accelerator", True))
    if row["name"] in NUM_NODES:
        found += check_configuration({"cluster": cluster}, placement, None, "config")

    if row.get("error"):
        assert errors_of(found)
        assert all(finding.hint and finding.path and finding.message for finding in found)
        return
    assert errors_of(found) == []
    assert placement is not None
    assert {name: placement.world_size(name) for name in placement.ranks} == row["world_size"]
    assert {name: [r.gpus for r in ranks] for name, ranks in placement.ranks.items()} == row["visible_gpus"]
    assert {name: [r.local_rank for r in ranks] for name, ranks in placement.ranks.items()} == row["local_rank"]
    assert any(finding.code == "RL130" for finding in found) == bool(row.get("warning"))


def test_no_row_is_missing():
    assert len(rows("placement.json")) == 78


SHIPPED = [row for row in rows("rlinf-configs.json") if "by_gpus" in row and not row["has_node_groups"]]


@pytest.mark.parametrize("gpus", [0, 1, 2, 8])
def test_shipped_configurations_resolve_as_rlinf_does(gpus):
    assert len(SHIPPED) > 150
    for row in SHIPPED:
        expected = row["by_gpus"][str(gpus)]
        cluster = {"component_placement": row["component_placement"]}
        placement, found = resolve(cluster, Node(name="n", gpus=gpus, cpus=64))
        if "error" in expected:
            assert errors_of(found), row["config"]
            assert all(finding.curable for finding in errors_of(found)), row["config"]
            continue
        assert placement is not None, (row["config"], found)
        seen = {name: [r.gpus for r in ranks] for name, ranks in placement.ranks.items()}
        assert seen == expected["visible_gpus"], row["config"]
