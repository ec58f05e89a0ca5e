from __future__ import annotations

import json

import pytest

from rlark.errors import SpecError, UsageError
from rlark.plan.inventory_file import read_inventory
from rlark.preflight import load_inventory_file

FILE = """\
nodes:
  - name: gpu-1
    labels: {zone: a, rlark.io/node-category-cloud: "false"}
    cpus: 64
    memory: 512Gi
    shm: 256Gi
    gpus: 8
    gpuModel: NVIDIA H200
  - {name: old, online: false, unschedulable: true}
"""


def wrong(text: str) -> list[str]:
    with pytest.raises(SpecError) as raised:
        read_inventory(text, "nodes.yaml")
    assert raised.value.exit_code == 3
    assert raised.value.message.startswith("the inventory nodes.yaml has ")
    return [f"{f.file}:{f.line}:{f.column} {f.code} {f.path}" for f in raised.value.findings]


def test_nodes_as_they_are_described():
    first, second = read_inventory(FILE, "nodes.yaml").nodes
    assert (first.name, first.cpus, first.memory, first.shm, first.gpus) == ("gpu-1", 64, 512 * 2**30, 256 * 2**30, 8)
    assert first.labels == {
        "kubernetes.io/hostname": "gpu-1",
        "rlark.io/node-category": "cloud",
        "rlark.io/node-category-cloud": "false",
        "rlark.io/gpu-model": "NVIDIA-H200",
        "zone": "a",
    }
    assert first.usable
    assert (first.free_gpus, first.free_cpus) == (None, None)
    assert not second.usable
    assert (second.cpus, second.gpus) == (1, 0)


def test_a_listing_of_the_platform_is_read_too():
    node = {"name": "box", "id": "3f", "gpus": 2, "gpusFaked": True, "freeGpus": 1, "holders": {"a": 1}, "leases": []}
    (read,) = read_inventory(json.dumps({"source": "ray", "nodes": [node]}), "-").nodes
    assert (read.id, read.gpus_faked, read.free_gpus, read.holders) == ("3f", True, 1, {"a": 1})


def test_from_a_file(tmp_path):
    file = tmp_path / "nodes.yaml"
    file.write_text(FILE)
    assert load_inventory_file(file).source == str(file)
    with pytest.raises(UsageError, match="cannot be read"):
        load_inventory_file(tmp_path / "nothing.yaml")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (FILE.replace("gpuModel", "gpuModle"), ["nodes.yaml:8:5 RL240 nodes[0].gpuModle"]),
        (FILE.replace("- name: gpu-1\n    labels", "- labels"), ["nodes.yaml:2:5 RL241 nodes[0].name"]),
        (FILE.replace("gpus: 8", 'gpus: "8"'), ["nodes.yaml:7:11 RL242 nodes[0].gpus"]),
        (FILE.replace("512Gi", "lots"), ["nodes.yaml:5:13 RL243 nodes[0].memory"]),
        (FILE.replace("cpus: 64", "cpus: 0"), ["nodes.yaml:4:11 RL243 nodes[0].cpus"]),
        (FILE.replace("name: old", "name: gpu-1"), ["nodes.yaml:9:12 RL243 nodes[1].name"]),
        (FILE.replace("nodes:", "node:"), ["nodes.yaml:1:1 RL241 nodes", "nodes.yaml:1:1 RL240 node"]),
        (FILE + "nodes: []\n", ["nodes.yaml:10:1 RL004 nodes"]),
        ("", ["nodes.yaml:1:1 RL002 "]),
        ("- name: x\n", ["nodes.yaml:1:1 RL003 "]),
        ("nodes: [", ["nodes.yaml:1:9 RL001 "]),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text, found):
    assert wrong(text) == found
