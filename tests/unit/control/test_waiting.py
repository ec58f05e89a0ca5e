"""The queue and the nodes: who waits, why, and what lets it start."""

from __future__ import annotations

import pytest

from rlark.errors import NotFound, PlacementError, SpecError, UsageError
from rlark.testing import job_text


def test_a_busy_gpu_queues_and_says_who_holds_it(platform):
    platform.controller.submit(job_text("first", gpu=2))
    waiting = platform.controller.submit(job_text("second", gpu=1)).job["status"]
    assert waiting["phase"] == "Pending"
    assert waiting["queue"] == {
        "position": 1,
        "reason": "GPU 0,1 (faked) leased by job first",
    }
    assert platform.reader.queue() == [{"job": "second", "priority": 0, **waiting["queue"]}]
    third = platform.controller.submit(job_text("third", gpu=0)).job["status"]["queue"]
    assert third == {"position": 2, "reason": "waits behind job second"}
    assert platform.reasons("second") == ["Accepted", "Waiting"]
    platform.cluster.worker("first").finish()
    platform.tick()
    assert [platform.phase(name) for name in ("first", "second", "third")] == ["Succeeded", "Running", "Running"]
    assert platform.reader.queue() == []


def test_the_controller_is_idle_while_no_job_needs_anything(platform):
    assert platform.controller.idle
    platform.controller.submit(job_text())
    assert not platform.controller.idle
    platform.cluster.worker("demo").finish()
    platform.tick()
    assert platform.controller.idle


def test_what_an_ended_attempt_held_stands_in_its_events(platform):
    platform.controller.submit(job_text(gpu=2))
    platform.cluster.worker("demo").finish()
    platform.tick()
    assert platform.status()["lease"] is None
    [leased] = [event for event in platform.reader.events("demo") if event.reason == "Leased"]
    assert leased.message == "1 CPU and GPU 0,1 (faked) of node node-0"


def test_priority_goes_first(platform):
    platform.controller.submit(job_text("holder", gpu=2))
    platform.controller.submit(job_text("low", gpu=2))
    platform.controller.submit(job_text("high", gpu=2, priority=5))
    assert [turn["job"] for turn in platform.reader.queue()] == ["high", "low"]
    platform.cluster.worker("holder").finish()
    platform.tick()
    assert platform.phase("high") == "Running"
    assert platform.phase("low") == "Pending"


def test_a_cluster_that_refuses_is_asked_again_after_a_while(platform):
    platform.cluster.busy = "GPU 0 is used outside rlark"
    assert platform.controller.submit(job_text(gpu=1)).job["status"]["queue"]["reason"] == platform.cluster.busy
    platform.tick(3)
    platform.cluster.busy = ""
    platform.clock.advance(1.1)
    platform.tick()
    assert platform.phase() == "Running"
    assert platform.reasons().count("Waiting") == 1


def test_a_cordoned_node_takes_no_further_job(platform):
    platform.controller.patch_node("node-0", {"spec": {"unschedulable": True}})
    with pytest.raises((PlacementError, SpecError)):
        platform.controller.submit(job_text())
    node = platform.controller.patch_node(
        "node-0", {"spec": {"unschedulable": False}, "metadata": {"labels": {"a": "b"}}}
    )
    assert node["labels"]["a"] == "b"
    assert node["phase"] == "Online"
    assert platform.controller.submit(job_text()).created


def test_a_queued_job_waits_while_its_node_is_cordoned(platform):
    platform.controller.submit(job_text("first", gpu=2))
    platform.controller.submit(job_text("second", gpu=2))
    platform.controller.patch_node("node-0", {"spec": {"unschedulable": True}})
    platform.cluster.worker("first").finish()
    platform.tick()
    assert platform.status("second")["queue"]["reason"] == "node node-0 is cordoned"
    platform.controller.patch_node("node-0", {"spec": {"unschedulable": False}})
    assert platform.phase("second") == "Running"


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"unschedulable": "yes"}},
        {"spec": {"taints": []}},
        {"metadata": {"labels": {"a": 1}}},
        {"metadata": {"labels": {"": "x"}}},
        {"metadata": {"name": "x"}},
        {"spec": 3},
        {"kind": "Node"},
    ],
)
def test_a_node_change_that_cannot_be_read(platform, change):
    with pytest.raises(UsageError):
        platform.controller.patch_node("node-0", change)
    with pytest.raises(NotFound, match="node-0"):
        platform.controller.patch_node("nowhere", {})


def test_what_people_set_on_a_node_outlives_the_controller(platform):
    labels = {"zone": "a", "kubernetes.io/hostname": None}
    platform.controller.patch_node("node-0", {"spec": {"unschedulable": True}, "metadata": {"labels": labels}})
    platform.again()
    node = platform.reader.nodes()[0]
    assert node["unschedulable"] is True
    assert node["labels"]["zone"] == "a"
    assert "kubernetes.io/hostname" not in node["labels"]
