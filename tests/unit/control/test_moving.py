"""Stop, start, restart, delete."""

from __future__ import annotations

import pytest

from rlark.errors import ConflictError, NotFound, PlacementError
from rlark.testing import a_node, job_text, run_through


def test_stopping_a_queued_job_ends_it_at_once(platform):
    platform.controller.submit(job_text("first", gpu=2))
    platform.controller.submit(job_text("second", gpu=2))
    stopped = platform.controller.stop("second")
    assert stopped["status"]["phase"] == "Stopped"
    assert platform.reader.queue() == []


def test_stopping_a_running_job(platform):
    platform.controller.submit(job_text(terminationGrace="7s"))
    stopped = platform.controller.stop("demo")
    assert stopped["status"]["phase"] == "Stopped"
    assert stopped["status"]["exitCode"] == 143
    assert platform.cluster.worker("demo").stops == [7.0]
    assert platform.controller.stop("demo")["status"]["phase"] == "Stopped"
    assert platform.cluster.worker("demo").stops == [7.0]
    assert platform.cluster.leases() == []


def test_what_a_job_gives_back_shows_at_once(platform):
    platform.controller.submit(job_text(gpu=2))
    platform.clock.advance(3)
    platform.tick()  # the nodes are looked at again while the job holds them
    run_through(platform.cluster.worker("demo"))
    platform.tick()
    assert platform.status()["lease"] is None
    assert [node.free_gpus for node in platform.reader.inventory().nodes] == [2]


def test_a_stop_that_hangs_is_forced(platform):
    platform.controller.submit(job_text(terminationGrace="5s"))
    worker = platform.cluster.worker("demo")
    worker.obeys = False
    platform.controller.stop("demo")
    platform.clock.advance(15)
    platform.tick()
    assert platform.phase() == "Running"
    platform.clock.advance(6)
    platform.tick()
    assert worker.stops == [5.0, 0.0]
    assert platform.phase() == "Stopped"
    assert "StopForced" in platform.reasons()
    assert platform.replays()


def test_what_survives_even_a_kill_is_named_and_keeps_its_lease(platform):
    platform.controller.submit(job_text(terminationGrace="1s", gpu=2))
    worker = platform.cluster.worker("demo")
    worker.obeys = worker.mortal = False
    platform.controller.stop("demo")
    for _ in range(60):
        platform.clock.advance(1)
        platform.tick()
    assert platform.phase() == "Stopped"
    assert platform.status()["reason"] == "StopForced"
    assert len(platform.cluster.leases()) == 1
    assert platform.reasons().count("Survivors") == 1
    waiting = platform.controller.submit(job_text("next", gpu=1)).job["status"]
    assert "leased by job demo" in waiting["queue"]["reason"]
    worker.alive = False
    platform.clock.advance(2)
    platform.tick()
    assert platform.phase("next") == "Running"


def test_a_worker_that_lingers_after_its_outcome_keeps_the_lease_until_it_is_gone(platform):
    platform.controller.submit(job_text())
    worker = platform.cluster.worker("demo")
    worker.finish(exits=False)
    platform.tick()
    assert platform.phase() == "Succeeded"
    assert len(platform.cluster.leases()) == 1
    assert "Survivors" not in platform.reasons()
    worker.alive = False
    platform.tick()
    assert platform.cluster.leases() == []


def test_start_again_is_a_new_attempt_and_needs_an_end(platform):
    platform.controller.submit(job_text())
    assert platform.controller.start("demo")["status"]["attempt"] == 1
    platform.controller.stop("demo")
    started = platform.controller.start("demo")
    assert (started["status"]["phase"], started["status"]["attempt"]) == ("Running", 2)
    assert platform.cluster.worker("demo").lease.attempt == 2


def test_starting_a_job_that_is_just_stopping_starts_it_afterwards(platform):
    platform.controller.submit(job_text())
    worker = platform.cluster.worker("demo")
    worker.obeys = False
    platform.controller.stop("demo")
    platform.controller.start("demo")
    worker.finish(143, reason="Stopped")
    platform.tick()
    assert platform.phase() == "Running"
    assert platform.status()["attempt"] == 2


def test_a_start_checks_again(platform):
    platform.controller.submit(job_text(gpu=2))
    platform.controller.stop("demo")
    platform.cluster.nodes = [a_node(gpus=1)]
    platform.clock.advance(3)
    with pytest.raises(PlacementError):
        platform.controller.start("demo")
    assert platform.phase() == "Stopped"


def test_restart_stops_and_starts(platform):
    platform.controller.submit(job_text())
    platform.controller.restart("demo")
    platform.tick()
    status = platform.status()
    assert (status["phase"], status["attempt"]) == ("Running", 2)
    assert platform.cluster.worker("demo", 1).stops == [30.0]
    assert not platform.reader.job("demo")["spec"]["stopped"]
    assert "Restarted" in platform.reasons()
    assert platform.replays()
    platform.controller.stop("demo")
    assert platform.controller.restart("demo")["status"]["attempt"] == 3


def test_a_stop_after_a_restart_wins(platform):
    platform.controller.submit(job_text())
    worker = platform.cluster.worker("demo")
    worker.obeys = False
    platform.controller.restart("demo")
    platform.controller.stop("demo")
    worker.finish(143, reason="Stopped")
    platform.tick()
    assert platform.phase() == "Stopped"


def test_delete_removes_the_job_and_its_folder(platform, tmp_path):
    platform.controller.submit(job_text())
    elsewhere = tmp_path / "host"
    elsewhere.mkdir()
    (elsewhere / "data").write_text("x")
    (platform.home.job("demo").work / "mount").symlink_to(elsewhere)
    platform.controller.delete("demo")
    platform.tick()
    with pytest.raises(NotFound):
        platform.reader.job("demo")
    assert not platform.home.job("demo").root.exists()
    assert (elsewhere / "data").exists()
    assert platform.cluster.leases() == []
    assert platform.controller.submit(job_text()).job["status"]["attempt"] == 1
    with pytest.raises(NotFound):
        platform.controller.delete("nothing")


def test_delete_of_a_job_that_never_ran_touches_no_folder(platform):
    platform.controller.submit(job_text(stopped=True))
    platform.home.job("demo").create()
    platform.controller.delete("demo")
    assert platform.reader.record("demo") is None
    assert platform.home.job("demo").root.exists()


def test_a_job_that_is_being_deleted_takes_no_orders(platform):
    platform.controller.submit(job_text())
    worker = platform.cluster.worker("demo")
    worker.obeys = False
    platform.controller.delete("demo")
    for verb in (platform.controller.start, platform.controller.restart):
        with pytest.raises(ConflictError, match="deleted"):
            verb("demo")
    with pytest.raises(ConflictError, match="deleted"):
        platform.controller.submit(job_text())
    worker.finish(143, reason="Stopped")
    platform.tick()
    assert platform.reader.record("demo") is None
