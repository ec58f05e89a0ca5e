"""What is known of nodes: labels and cordons that outlive Ray, and nodes that went away."""

from __future__ import annotations

import json

import pytest

from rlark.cluster.base import Observation
from rlark.control.nodes import REMEMBERED_S
from rlark.control.reconcile import reconcile
from rlark.errors import PlacementError
from rlark.testing import a_node, job_text


def nodes(platform):
    return {node["name"]: node for node in platform.reader.nodes()}


def look_again(platform, seconds=3):
    platform.clock.advance(seconds)
    platform.tick()


@pytest.fixture
def two(platform):
    """A platform of two nodes: `left` and `right`."""
    platform.cluster.nodes[:] = [a_node("left", gpus=2), a_node("right", gpus=2)]
    look_again(platform)
    return platform


def on(node, name="demo", **more):
    job = json.loads(job_text(name, **more))
    job["spec"]["tasks"][0]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return json.dumps(job)


def test_labels_and_cordons_outlive_the_controller_and_ray(two):
    two.controller.patch_node("right", {"spec": {"unschedulable": True}, "metadata": {"labels": {"team": "nav"}}})
    two.controller.patch_node("right", {"metadata": {"labels": {"rlark.io/node-category": None}}})
    before = nodes(two)["right"]
    two.cluster.nodes[:] = [node.model_copy(update={"id": f"{node.name}-born-again"}) for node in two.cluster.nodes]
    two.again()
    look_again(two)
    after = nodes(two)["right"]
    assert after["id"] != before["id"]
    assert (after["labels"], after["phase"]) == (before["labels"], "Cordoned")
    assert after["labels"]["team"] == "nav"
    assert "rlark.io/node-category" not in after["labels"]


def test_what_is_used_is_the_sum_of_what_is_leased(two):
    two.controller.submit(on("right", "one", gpu=1))
    two.controller.submit(on("right", "two", gpu=1))
    node = nodes(two)["right"]
    assert node["used"] == {"cpus": 2.0, "memory": 0, "gpus": 2}
    assert [(lease["job"], len(lease["gpus"])) for lease in node["leases"]] == [("one", 1), ("two", 1)]
    assert node["allocatable"]["gpus"] == 0
    assert nodes(two)["left"]["used"] == {"cpus": 0, "memory": 0, "gpus": 0}


def test_a_node_that_went_away_is_offline_and_cannot_be_hit(two):
    two.cluster.nodes.pop()
    look_again(two)
    node = nodes(two)["right"]
    assert (node["phase"], node["allocatable"]["gpus"], node["capacity"]["gpus"]) == ("Offline", 0, 2)
    with pytest.raises(PlacementError) as refused:
        two.controller.submit(on("right"))
    assert [finding.code for finding in refused.value.findings] == ["RL203"]
    assert two.controller.submit(job_text("any", gpu=1)).job["status"]["node"] == "left"


def test_a_job_that_waits_for_it_says_so_and_runs_when_it_is_back(two):
    two.controller.submit(on("right", "first", gpu=2))
    two.controller.submit(on("right", "second", gpu=2))
    gone = two.cluster.nodes.pop()
    look_again(two)
    two.cluster.worker("first").finish()
    look_again(two)
    assert two.status("second")["queue"]["reason"] == "node right is offline"
    two.cluster.nodes.append(gone)
    look_again(two)
    assert two.phase("second") == "Running"


def test_it_is_remembered_by_the_next_controller_and_forgotten_in_the_end(two):
    two.cluster.nodes.pop()
    look_again(two)
    two.again()
    look_again(two)
    assert nodes(two)["right"]["phase"] == "Offline"
    look_again(two, REMEMBERED_S)
    assert set(nodes(two)) == {"left"}


def test_a_job_whose_node_went_away_says_that(two):
    two.controller.submit(on("right"))
    record = two.reader.record("demo")
    gone = Observation(alive=False, reason="node right has left the Ray cluster", node_lost=True)
    [event] = reconcile(record, gone, two.clock.now())
    assert event.reason == "NodeLost"
    assert event.message.endswith(": node right has left the Ray cluster")
