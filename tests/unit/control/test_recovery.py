"""A controller that is killed, a head that is started again: the ledger decides."""

from __future__ import annotations

import pytest

from rlark.cluster.base import Busy
from rlark.control.attempts import Attempts
from rlark.errors import ClusterError, ConflictError
from rlark.plan.plan import Ask
from rlark.testing import FakeWorker, job_text


class Killed(BaseException):
    """The process is gone at this point."""


def die(*_args, **_kwargs):
    raise Killed


def test_a_running_worker_is_found_again(platform):
    platform.controller.submit(job_text(gpu=1))
    platform.again()
    assert platform.phase() == "Running"
    worker = platform.cluster.worker("demo")
    worker.report("SignalSeen", message="iter 1/8")
    worker.finish(verified=True)
    platform.tick()
    assert platform.phase() == "Succeeded"
    assert len(platform.cluster.workers) == 1
    assert platform.replays()


def test_what_a_worker_said_while_nobody_listened_is_taken_in_once(platform):
    platform.controller.submit(job_text())
    platform.cluster.worker("demo").finish(verified=True)
    platform.again()
    platform.again()
    assert platform.phase() == "Succeeded"
    assert platform.reasons().count("Completed") == 1


def test_a_lost_worker_fails_the_job_with_its_reason(platform):
    platform.controller.submit(job_text(gpu=1))
    platform.cluster.worker("demo").die("the OOM killer ended it")
    platform.again()
    status = platform.status()
    assert (status["phase"], status["reason"]) == ("Failed", "WorkerLost")
    assert "the OOM killer ended it" in status["message"]
    assert platform.cluster.leases() == []


def test_a_head_that_was_started_again_leaves_no_job_running(platform):
    platform.controller.submit(job_text("one", gpu=1))
    platform.controller.submit(job_text("two", gpu=1))
    platform.controller.submit(job_text("three", gpu=1))
    platform.cluster.worker("two").finish(verified=True)
    platform.cluster.restart()
    platform.again()
    platform.tick()
    assert platform.phase("one") == "Failed"
    assert platform.status("one")["reason"] == "WorkerLost"
    assert platform.phase("two") == "Succeeded"
    assert platform.phase("three") == "Running"


def test_a_retry_survives_a_head_that_was_started_again(platform):
    platform.controller.submit(job_text(restartPolicy="OnFailure", backoffLimit=1))
    platform.cluster.restart()
    platform.again()
    platform.tick()
    assert (platform.phase(), platform.status()["attempt"]) == ("Running", 2)


def test_the_queue_survives_in_its_order(platform):
    platform.controller.submit(job_text("holder", gpu=2))
    for name in ("a", "b", "c"):
        platform.controller.submit(job_text(name, gpu=2))
    platform.again()
    assert [turn["job"] for turn in platform.reader.queue()] == ["a", "b", "c"]
    platform.cluster.worker("holder").finish()
    platform.tick()
    assert platform.phase("a") == "Running"


def test_a_lease_that_no_job_knows_is_released(platform):
    assert not isinstance(platform.cluster.lease("ghost", 1, "node-0", Ask(gpus=2)), Busy)
    platform.again()
    assert platform.cluster.leases() == []


def test_a_lease_that_is_lost_while_the_controller_lives_is_found_and_released(platform):
    """A fault between the lease and its entry in the ledger leaves one that no record names."""
    assert not isinstance(platform.cluster.lease("ghost", 1, "node-0", Ask(gpus=2)), Busy)
    platform.tick()
    assert len(platform.cluster.leases()) == 1
    platform.clock.advance(31)
    platform.tick()
    assert platform.cluster.leases() == []


def test_a_fault_behind_a_written_end_does_not_stop_the_controller(platform, monkeypatch):
    """What is remembered would be older than what is written, and look like another controller's work."""
    platform.controller.submit(job_text(gpu=2))
    platform.controller.submit(job_text("next", gpu=2))
    platform.cluster.worker("demo").finish(verified=True)

    def broken(_):
        raise OSError("not one of the errors that a cluster may raise")

    monkeypatch.setattr(platform.cluster, "release", broken)
    platform.tick()
    assert platform.phase() == "Succeeded"
    monkeypatch.undo()
    platform.clock.advance(1.1)
    platform.tick()
    assert platform.phase("next") == "Running"
    assert platform.replays()


def test_a_fault_while_the_queue_moves_does_not_stop_the_queue(platform, monkeypatch):
    def broken(*_):
        raise OSError("not one of the errors that a cluster may raise")

    monkeypatch.setattr(platform.cluster, "start", broken)
    assert platform.controller.submit(job_text(gpu=2)).job["status"]["phase"] == "Pending"
    monkeypatch.setattr(platform.cluster, "lease", broken)
    platform.controller.submit(job_text("next"))
    monkeypatch.undo()
    platform.clock.advance(1.1)
    platform.tick()
    assert [platform.phase(name) for name in ("demo", "next")] == ["Running", "Running"]
    assert platform.status()["attempt"] == 1
    assert platform.replays()


def test_killed_between_the_lease_and_its_entry(platform, monkeypatch):
    monkeypatch.setattr(Attempts, "_leased", die)
    with pytest.raises(Killed):
        platform.controller.submit(job_text(gpu=2))
    monkeypatch.undo()
    assert len(platform.cluster.leases()) == 1
    platform.again()
    assert platform.phase() == "Running"
    assert [lease.job for lease in platform.cluster.leases()] == ["demo"]


def test_killed_between_the_lease_and_the_start(platform, monkeypatch):
    monkeypatch.setattr(Attempts, "_lay_down", die)
    with pytest.raises(Killed):
        platform.controller.submit(job_text(gpu=2))
    monkeypatch.undo()
    assert platform.phase() == "Pending"
    platform.again()
    assert (platform.phase(), platform.status()["attempt"]) == ("Running", 1)
    assert len(platform.cluster.leases()) == 1


def test_killed_between_the_start_and_its_entry_starts_nothing_twice(platform, monkeypatch):
    real = platform.cluster.start

    def start_and_die(*args):
        real(*args)
        raise Killed

    monkeypatch.setattr(platform.cluster, "start", start_and_die)
    with pytest.raises(Killed):
        platform.controller.submit(job_text())
    monkeypatch.undo()
    platform.again()
    assert platform.phase() == "Running"
    assert len(platform.cluster.workers) == 1


def test_a_lease_that_went_with_the_head_before_the_start_is_asked_for_again(platform, monkeypatch):
    monkeypatch.setattr(Attempts, "_lay_down", die)
    with pytest.raises(Killed):
        platform.controller.submit(job_text(gpu=2))
    monkeypatch.undo()
    platform.cluster.restart()
    platform.again()
    assert platform.phase() == "Running"
    assert "LeaseLost" in platform.reasons()
    assert platform.replays()


def test_a_stop_that_was_not_sent_is_sent_by_the_next_controller(platform, monkeypatch):
    platform.controller.submit(job_text())
    monkeypatch.setattr(Attempts, "stop", die)
    with pytest.raises(Killed):
        platform.controller.stop("demo")
    monkeypatch.undo()
    assert platform.cluster.worker("demo").stops == []
    platform.again()
    assert platform.cluster.worker("demo").stops == [30.0]
    assert platform.phase() == "Stopped"


def test_a_stop_that_does_not_arrive_is_sent_again(platform, monkeypatch):
    platform.controller.submit(job_text())
    worker = platform.cluster.worker("demo")

    def lost(*_args):
        raise ClusterError("the dashboard does not answer")

    monkeypatch.setattr(platform.cluster, "stop", lost)
    platform.controller.stop("demo")
    monkeypatch.undo()
    platform.clock.advance(2)
    platform.tick()
    assert worker.stops == [30.0]


def test_a_delete_that_was_interrupted_is_finished(platform):
    platform.controller.submit(job_text())
    worker = platform.cluster.worker("demo")
    worker.obeys = False
    platform.controller.delete("demo")
    worker.finish(143, reason="Stopped")
    platform.again()
    platform.tick()
    assert platform.reader.record("demo") is None
    assert not platform.home.job("demo").root.exists()


def test_the_last_words_between_two_looks_are_not_lost(platform, monkeypatch):
    platform.controller.submit(job_text())
    worker, real = platform.cluster.worker("demo"), platform.cluster.observe
    looks = []

    def race(handle, after):
        """The first look reads the file before the Outcome is in it, and finds the process gone."""
        looks.append(after)
        if len(looks) == 1:
            seen = real(handle, after)
            worker.finish(verified=True)
            return type(seen)(alive=False, reports=seen.reports)
        return real(handle, after)

    monkeypatch.setattr(platform.cluster, "observe", race)
    platform.controller.tick()
    assert platform.phase() == "Succeeded"


def test_a_cluster_that_is_down_changes_no_phase(platform):
    platform.controller.submit(job_text())
    platform.cluster.down = "the head does not answer"
    platform.clock.advance(60)
    platform.tick(5)
    assert platform.phase() == "Running"
    platform.cluster.down = ""
    platform.tick()
    assert platform.phase() == "Running"


def test_two_controllers_on_one_ledger_do_not_both_write(platform):
    platform.controller.submit(job_text())
    first = platform.controller
    platform.again()
    platform.controller.stop("demo")
    with pytest.raises(ConflictError, match="another controller"):
        first.tick()
    assert platform.replays()


def test_a_worker_that_never_reports_anything(platform):
    platform.cluster.script = FakeWorker.die
    platform.controller.submit(job_text())
    platform.tick()
    assert platform.status()["reason"] == "WorkerLost"
