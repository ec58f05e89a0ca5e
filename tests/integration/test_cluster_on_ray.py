"""`RayCluster` against a real head: inventory, leases, workers, release."""

from __future__ import annotations

import json
import os
import signal
import sys
import time

import pytest
from ray.exceptions import RaySystemError

from rlark.cluster.base import Busy, Released
from rlark.cluster.on_ray import leases
from rlark.cluster.on_ray.cluster import RayCluster
from rlark.errors import ClusterError, PlacementError
from rlark.folder import Home
from rlark.host import process
from rlark.host.clock import SystemClock
from rlark.plan.plan import Ask

pytestmark = pytest.mark.integration
GIB = 1024**3


@pytest.fixture
def home(tmp_path):
    found = Home(tmp_path / "home")
    found.create()
    return found


@pytest.fixture
def cluster(driver, home, fake_worker):
    made = RayCluster(driver, home, SystemClock(), worker=[sys.executable, "-S", str(fake_worker)])
    yield made
    for lease in made.leases():
        made.release(lease)


def started(cluster, home, job, behaviour, *, gpus=0):
    lease = cluster.lease(job, 1, "box", Ask(cpus=1, gpus=gpus))
    folder = home.job(job)
    folder.create()
    folder.plan.write_text(json.dumps({"behaviour": behaviour}))
    folder.lease.write_text(json.dumps(lease.to_json()))
    return lease, cluster.start(lease, folder, 5)


def until(cluster, handle, condition, seconds=20):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen = cluster.observe(handle, 0)
        if condition(seen):
            return seen
        time.sleep(0.05)
    raise AssertionError(f"not seen in {seconds} s: {seen}")


def worker_pid(seen):
    return next(report.data["pid"] for report in seen.reports if "pid" in report.data)


def free_gpus(cluster):
    """Ray's view of what is free lags by a tenth of a second."""
    time.sleep(0.5)
    return cluster.inventory().node("box").free_gpus


def test_the_inventory_names_the_node_and_marks_faked_gpus(cluster):
    [node] = cluster.inventory().nodes
    assert (node.name, node.cpus, node.gpus) == ("box", 2, 8)
    assert node.gpus_faked
    assert node.gpu_model == ""
    assert node.memory == 4 * GIB
    assert node.labels["team"] == "nav"
    assert node.labels["rlark.io/node-category-cloud"] == "true"
    assert node.labels["kubernetes.io/hostname"] == "box"
    assert not [key for key in node.labels if key.startswith("ray.io/")]


def test_a_lease_maps_logical_gpus_in_order_and_frees_them(cluster):
    lease = cluster.lease("pong", 1, "box", Ask(cpus=1, gpus=4, memory=GIB))
    assert [device.id for device in lease.devices] == ["0", "1", "2", "3"]
    assert all(device.faked and device.uuid is None for device in lease.devices)
    assert (lease.node, lease.cpus, lease.memory) == ("box", 1, GIB)
    assert lease.head.address.startswith("127.0.0.1:")
    assert cluster.inventory().node("box").holders == {"pong": 4}
    assert cluster.release(lease) == Released()
    assert cluster.release(lease) == Released()
    assert free_gpus(cluster) == 8
    assert cluster.leases() == []


def test_the_same_job_and_attempt_gets_the_same_lease_also_from_another_controller(cluster, driver, home):
    first = cluster.lease("pong", 1, "box", Ask(gpus=2))
    assert cluster.lease("pong", 1, "box", Ask(gpus=2)) == first
    reborn = RayCluster(driver, home, SystemClock())
    assert reborn.lease("pong", 1, "box", Ask(gpus=2)) == first
    assert len(list(leases.groups())) == 1


def test_a_controller_that_died_finds_its_leases_again(cluster, driver, home):
    cluster.lease("pong", 3, "box", Ask(gpus=2))
    [found] = RayCluster(driver, home, SystemClock()).leases()
    assert (found.job, found.attempt, found.key, found.node) == ("pong", 3, "rlark-pong-3", "box")


def test_busy_gpus_say_who_holds_them_and_leave_nothing(cluster):
    cluster.lease("first", 1, "box", Ask(gpus=6))
    answer = cluster.lease("second", 1, "box", Ask(gpus=4))
    assert answer == Busy("GPU 0,1,2,3,4,5 (faked) leased by job first")
    assert [lease.job for lease in cluster.leases()] == ["first"]


def test_gpus_need_not_be_contiguous(cluster):
    first, second, _third = (cluster.lease(name, 1, "box", Ask(cpus=0.1, gpus=2)) for name in ("a", "b", "c"))
    taken = {device.id for device in second.devices}
    cluster.release(first)
    time.sleep(0.5)
    lease = cluster.lease("d", 1, "box", Ask(cpus=0.1, gpus=4))
    ids = [device.id for device in lease.devices]
    assert ids == sorted(ids)
    assert not taken & set(ids)


def test_what_the_node_can_never_offer_is_refused(cluster):
    with pytest.raises(PlacementError, match="9 GPUs asked, 8 GPUs there"):
        cluster.lease("big", 1, "box", Ask(gpus=9))
    with pytest.raises(PlacementError, match=r"64\.0 GiB memory asked, 4\.0 GiB memory there"):
        cluster.lease("big", 1, "box", Ask(memory=64 * GIB))
    assert cluster.leases() == []


def test_an_unknown_node_is_named(cluster):
    with pytest.raises(ClusterError, match=r"Node elsewhere is gone.*there are: box"):
        cluster.lease("lost", 1, "elsewhere", Ask())


def test_a_worker_runs_to_its_outcome(cluster, home):
    lease, handle = started(cluster, home, "done", "done", gpus=1)
    assert handle.id.startswith("rlark-done-1-")
    seen = until(cluster, handle, lambda seen: not seen.alive)
    assert [report.type for report in seen.reports] == ["Prepared", "Outcome"]
    assert cluster.observe(handle, 1).reports == seen.reports[1:]
    assert cluster.release(lease).clean


def test_starting_the_same_attempt_twice_gives_one_worker(cluster, home):
    lease, handle = started(cluster, home, "twice", "wait")
    assert cluster.start(lease, home.job("twice"), 5) == handle
    seen = until(cluster, handle, lambda seen: seen.reports)
    time.sleep(1)
    assert len(cluster.observe(handle, 0).reports) == len(seen.reports) == 1


def test_stop_is_a_sigterm_that_the_worker_obeys(cluster, home):
    lease, handle = started(cluster, home, "stopped", "wait")
    until(cluster, handle, lambda seen: seen.reports)
    begun = time.monotonic()
    cluster.stop(handle, 5)
    assert time.monotonic() - begun < 0.5
    cluster.stop(handle, 5)
    seen = until(cluster, handle, lambda seen: not seen.alive)
    assert seen.reports[-1].data == {"exitCode": 143}
    assert cluster.release(lease).clean


def test_a_worker_that_ignores_sigterm_is_killed_after_its_grace(cluster, home, monkeypatch):
    monkeypatch.setattr("rlark.cluster.on_ray.cluster.STOP_MARGIN_S", 0)
    _, handle = started(cluster, home, "stubborn", "stubborn")
    until(cluster, handle, lambda seen: seen.reports)
    cluster.stop(handle, 1)
    assert cluster.observe(handle, 0).alive
    seen = until(cluster, handle, lambda seen: not seen.alive, 10)
    assert [report.type for report in seen.reports] == ["Prepared"]


def test_stop_without_grace_kills_at_once(cluster, home):
    _, handle = started(cluster, home, "killed", "stubborn")
    until(cluster, handle, lambda seen: seen.reports)
    cluster.stop(handle, 0)
    assert not cluster.observe(handle, 0).alive


def test_sigkill_of_the_worker_is_seen_with_its_reason(cluster, home):
    _, handle = started(cluster, home, "shot", "wait")
    seen = until(cluster, handle, lambda seen: seen.reports)
    pid = worker_pid(seen)
    os.kill(pid, signal.SIGKILL)
    seen = until(cluster, handle, lambda seen: not seen.alive, 5)
    assert seen.reason.startswith(f"the worker (process {pid}) was killed by SIGKILL")
    assert len(seen.reason) < 300


def test_a_worker_that_cannot_start_gives_its_last_words(driver, home):
    broken = RayCluster(
        driver, home, SystemClock(), worker=[sys.executable, "-S", "-c", "raise SystemExit('no such module')"]
    )
    lease, handle = started(broken, home, "broken", "done")
    seen = until(broken, handle, lambda seen: not seen.alive)
    assert "no such module" in seen.reason
    assert broken.release(lease).clean


def test_a_worker_of_another_head_is_not_alive(cluster, home):
    lease, handle = started(cluster, home, "old", "done")
    until(cluster, handle, lambda seen: not seen.alive)
    home.job("old").reports.unlink()
    ghost = type(handle)("old", 1, "rlark-old-1-ffffffff", handle.folder)
    seen = cluster.observe(ghost, 0)
    assert not seen.alive
    assert "does not know it" in seen.reason
    cluster.release(lease)


def test_release_ends_a_daemon_that_left_the_session(cluster, home):
    lease, handle = started(cluster, home, "daemon", "daemon", gpus=1)
    until(cluster, handle, lambda seen: not seen.alive)
    left = cluster._left_of(lease)
    assert len(left) == 1
    assert cluster.release(lease) == Released()
    assert not process.alive(left[0])


def test_a_survivor_keeps_the_lease_and_is_named(cluster, home, monkeypatch):
    lease, handle = started(cluster, home, "undead", "daemon", gpus=8)
    until(cluster, handle, lambda seen: not seen.alive)
    [left] = cluster._left_of(lease)
    with monkeypatch.context() as patch:
        patch.setattr(process, "end", lambda processes, grace_s, clock: list(processes))
        released = cluster.release(lease)
    assert not released.clean
    assert released.survivors[0].startswith(f"{left.pid} (")
    assert isinstance(cluster.lease("next", 1, "box", Ask(gpus=1)), Busy)
    assert cluster.release(lease).clean


def test_a_worker_that_ray_may_still_start_keeps_its_lease_and_is_ended(driver, home):
    """The answer to its start was lost: nobody watches it, and without the lease it would be a ghost."""
    silent = RayCluster(driver, home, SystemClock(), worker=["sleep", "60"])
    lease, handle = started(silent, home, "silent", "done")
    released = silent.release(lease)
    assert not released.clean
    assert handle.id in released.survivors[0]
    end = time.monotonic() + 20
    while not silent.release(lease).clean:
        assert time.monotonic() < end
        time.sleep(0.2)
    assert silent._jobs.status(handle.id).ended
    assert silent.leases() == []


def test_rays_own_errors_are_told_as_the_one_that_may_be_tried_again(cluster, monkeypatch):
    def broken():
        raise RaySystemError("the GCS is away")

    monkeypatch.setattr(leases, "placement_group_table", broken)
    for verb in (cluster.inventory, cluster.leases):
        with pytest.raises(ClusterError, match="the GCS is away"):
            verb()


def test_nothing_of_a_job_stands_in_clear_in_rays_jobs_api(cluster, home):
    lease, handle = started(cluster, home, "clear", "done")
    until(cluster, handle, lambda seen: not seen.alive)
    status, answer = cluster._jobs._call("GET", f"/api/jobs/{handle.id}")
    shown = json.loads(answer)
    assert status == 200
    assert shown["metadata"] == {"rlark.io/job": "clear", "rlark.io/attempt": "1"}
    assert not (shown["runtime_env"] or {}).get("env_vars")
    cluster.release(lease)
