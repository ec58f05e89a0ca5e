"""Ray's nodes as an inventory; needs Ray's modules, not a head."""

from __future__ import annotations

import socket

import pytest

from rlark.boot.controller import packed, unpacked
from rlark.cluster.on_ray import leases, nodes
from rlark.cluster.on_ray.nodes import RayNode
from rlark.errors import PlacementError, SpecError
from rlark.host.device import DeviceReport, Gpu
from rlark.plan.node import Device
from rlark.plan.plan import Ask
from rlark.spec.finding import Finding

pytestmark = pytest.mark.integration
CARDS = [Gpu(index, f"GPU-{index:04d}", "NVIDIA H200", 1, 0, "570") for index in range(4)]
TWO = DeviceReport(gpus=CARDS[:2], gpus_installed=2, shm=1 << 30)


def node(name="n1", host="box", address="10.0.0.1", labels=None, **total):
    total = {"CPU": 8.0, "memory": 1024.0} | total
    return RayNode(name, host, address, labels or {}, total, total)


def test_names_are_the_label_else_the_host_and_never_twice():
    found = nodes.stable_names(
        [
            node("c", labels={"rlark.io/node": "left"}),
            node("b", address="10.0.0.2"),
            node("a"),
            node("d", host="", address="10.0.0.9"),
        ]
    )
    assert found == {"c": "left", "a": "box", "b": "box-2", "d": "10.0.0.9"}


def test_real_gpus_have_a_model_and_are_not_faked():
    described = nodes.describe(node(GPU=2.0), "box", TWO, {})
    assert (described.gpus, described.gpus_faked, described.gpu_model) == (2, False, "NVIDIA H200")
    assert described.labels["rlark.io/gpu-model"] == "NVIDIA-H200"
    assert [(card.id, card.uuid, card.model, card.faked) for card in described.devices] == [
        ("0", "GPU-0000", "NVIDIA H200", False),
        ("1", "GPU-0001", "NVIDIA H200", False),
    ]
    assert described.shm == 1 << 30


def test_more_gpus_than_there_are_are_faked_and_nameless():
    described = nodes.describe(node(GPU=8.0), "box", TWO, {})
    assert (described.gpus, described.gpus_faked, described.gpu_model) == (8, True, "")
    assert described.devices == [Device(id=str(number), faked=True) for number in range(8)]
    assert "rlark.io/gpu-model" not in described.labels


def test_labels_of_up_win_over_the_defaults_and_rays_own_are_left_out():
    labels = {"kubernetes.io/hostname": "other", "ray.io/node-id": "x", "rlark.io/node": "box"}
    described = nodes.describe(node(labels=labels), "box", None, {})
    assert described.labels["kubernetes.io/hostname"] == "other"
    assert not {"ray.io/node-id", "rlark.io/node"} & set(described.labels)


def test_gpus_in_use_that_no_lease_explains_are_said_to_be_others():
    busy = RayNode("n", "box", "a", {}, {"GPU": 8.0}, {"GPU": 3.0})
    assert nodes.describe(busy, "box", None, {"pong": 4}).holders == {"pong": 4, "(outside rlark)": 1}


def test_a_node_keeps_its_name_when_another_goes_away():
    head = node("h", **{"node:__internal_head__": 1.0})
    first, second = (
        RayNode(name, "box", "10.0.0.1", {}, {"CPU": 1.0}, {}, port) for name, port in (("z", 7001), ("a", 7002))
    )
    names = nodes.stable_names([second, first, head])
    assert names == {"h": "box", "z": "box-2", "a": "box-3"}
    assert nodes.stable_names([second, head], names) == {"h": "box", "a": "box-3"}
    reborn = RayNode("b", "box", "10.0.0.1", {}, {"CPU": 1.0}, {}, 7001)
    assert nodes.stable_names([second, head, reborn], names) == {"h": "box", "a": "box-3", "b": "box-2"}


def test_a_raylet_that_takes_no_connection_does_not_answer():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        assert nodes.answers(RayNode("n", "box", "127.0.0.1", port=port))
    assert not nodes.answers(RayNode("n", "box", "127.0.0.1", port=port))
    assert nodes.answers(RayNode("n", "box", "127.0.0.1"))  # of which Ray does not say where it listens


def test_ids_are_ordered_as_numbers():
    assert nodes.in_order(["10", "9", 2]) == ["2", "9", "10"]
    assert nodes.in_order(["GPU-b", "3", "GPU-a"]) == ["3", "GPU-a", "GPU-b"]


def test_ids_become_devices_with_uuids():
    found = nodes.devices(["1", "5"], node(GPU=2.0), TWO)
    assert found == [Device(id="1", uuid="GPU-0001", model="NVIDIA H200"), Device(id="5")]
    assert nodes.devices(["1"], node(GPU=2.0), None) == [Device(id="1")]
    assert nodes.devices(["1"], None, None) == [Device(id="1")]


def test_where_gpus_are_faked_none_of_them_stands_for_a_card():
    assert nodes.devices(["1", "5"], node(GPU=8.0), TWO) == [Device(id="1", faked=True), Device(id="5", faked=True)]


@pytest.mark.parametrize(
    ("ask", "bundle"),
    [
        (Ask(gpus=4, cpus=2, memory=512), {"CPU": 2, "GPU": 4, "memory": 512}),
        (Ask(cpus=0.5), {"CPU": 0.5}),
        (Ask(cpus=0), {"CPU": 0.001}),
        (Ask(cpus=1, shm=2 << 20), {"CPU": 1}),
    ],
)
def test_an_ask_becomes_one_bundle_of_what_is_counted(ask, bundle):
    assert leases.bundle(ask, node(GPU=8.0)) == bundle


def test_shm_is_counted_where_the_head_counts_it():
    assert leases.bundle(Ask(cpus=1, shm=2 << 20), node(shm=64.0)) == {"CPU": 1, "shm": 2}


def test_everything_a_node_lacks_is_named_in_one_error():
    with pytest.raises(PlacementError, match=r"16 CPUs asked, 8 CPUs there; 1 GPU asked, 0 GPUs there"):
        leases.check_possible(Ask(cpus=16, gpus=1), node(), "box")


def test_an_error_crosses_the_controllers_process_whole():
    finding = Finding(code="RL001", message="wrong", path="spec")
    error = SpecError("no", hint="yes", findings=[finding], details={"a": 1})
    again = unpacked(packed(error))
    assert type(again) is SpecError
    assert (again.message, again.hint, again.findings, again.details) == ("no", "yes", (finding,), {"a": 1})
