"""What is shipped for tests behaves as the real thing does."""

from __future__ import annotations

import pytest

from rlark.cluster.base import Busy, Cluster, Released
from rlark.errors import ClusterError, PlacementError
from rlark.folder import JobFolder
from rlark.host.clock import Clock
from rlark.plan.plan import Ask
from rlark.testing import FakeClock, FakeCluster, a_node, run_through


@pytest.fixture
def cluster():
    return FakeCluster([a_node(gpus=2, cpus=4)], FakeClock())


@pytest.fixture
def folder(tmp_path):
    made = JobFolder(tmp_path / "demo")
    made.create()
    return made


def test_it_is_a_cluster_and_a_clock(cluster):
    place: Cluster = cluster
    clock: Clock = cluster.clock
    before = clock.now()
    clock.sleep(5)
    assert (clock.now() - before).total_seconds() == clock.monotonic() == 5
    assert place.inventory().nodes[0].free_gpus == 2


def test_a_lease_is_all_or_nothing_and_the_same_for_the_same_attempt(cluster):
    first = cluster.lease("a", 1, "node-0", Ask(gpus=2))
    assert cluster.lease("a", 1, "node-0", Ask(gpus=2)) == first
    assert isinstance(cluster.lease("b", 1, "node-0", Ask(gpus=1)), Busy)
    assert isinstance(cluster.lease("c", 1, "node-0", Ask(cpus=4)), Busy)
    for ask, node in ((Ask(gpus=3), "node-0"), (Ask(cpus=9), "node-0"), (Ask(), "nowhere")):
        with pytest.raises(PlacementError):
            cluster.lease("d", 1, node, ask)
    assert cluster.release(first) == Released()
    assert cluster.release(first) == Released()
    assert cluster.leases() == []


def test_a_worker_lives_in_its_folder(cluster, folder):
    lease = cluster.lease("demo", 1, "node-0", Ask())
    handle = cluster.start(lease, folder, 5.0)
    assert cluster.start(lease, folder, 5.0) == handle
    assert len(cluster.workers) == 1
    assert [report.type for report in cluster.observe(handle, 0).reports] == ["Prepared", "RayReady", "Started"]
    assert cluster.observe(handle, 2).reports[0].n == 3
    assert not cluster.release(lease).clean
    cluster.stop(handle, 5.0)
    seen = cluster.observe(handle, 3)
    assert (seen.alive, seen.reports[-1].reason) == (False, "Stopped")
    assert cluster.release(lease).clean


def test_a_script_is_a_whole_life(cluster, folder):
    cluster.script = run_through
    handle = cluster.start(cluster.lease("demo", 1, "node-0", Ask()), folder, 5.0)
    last = cluster.observe(handle, 0).reports[-1]
    assert (last.type, last.status, last.data["exitCode"]) == ("Outcome", True, 0)


def test_down_and_restarted(cluster, folder):
    handle = cluster.start(cluster.lease("demo", 1, "node-0", Ask()), folder, 5.0)
    cluster.down = "no head"
    with pytest.raises(ClusterError, match="no head"):
        cluster.inventory()
    cluster.down = ""
    cluster.restart("the head went")
    assert cluster.leases() == []
    assert cluster.observe(handle, 0).reason == "the head went"
    with pytest.raises(LookupError):
        cluster.worker("nobody")
