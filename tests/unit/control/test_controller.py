"""The verbs: how a Job is changed, and what goes wrong on the way."""

from __future__ import annotations

import errno

import pytest

from rlark.api.commands import Commands
from rlark.control import attempts
from rlark.control.controller import Controller
from rlark.errors import ConflictError, NotFound, SpecError, UsageError
from rlark.testing import a_node, job_text


def test_it_offers_every_verb(platform):
    commands: Commands = platform.controller
    verbs = [name for name in vars(Commands) if not name.startswith("_")]
    assert all(callable(getattr(commands, verb)) for verb in verbs)


# ---- changing


def test_labels_can_change_while_it_runs_and_the_run_cannot(platform):
    platform.controller.submit(job_text())
    job = platform.controller.patch("demo", {"metadata": {"labels": {"team": "nav"}}})
    assert job["metadata"]["labels"] == {"team": "nav"}
    assert job["metadata"]["generation"] == 2
    assert job["status"]["phase"] == "Running"
    with pytest.raises(ConflictError, match="only labels"):
        platform.controller.patch("demo", {"spec": {"activeDeadline": "2h"}})
    platform.controller.stop("demo")
    changed = platform.controller.patch("demo", {"spec": {"activeDeadline": "2h"}})
    assert changed["spec"]["activeDeadline"] == "2h"
    assert changed["metadata"]["generation"] == 3
    assert changed["status"]["phase"] == "Stopped"
    assert platform.replays()


@pytest.mark.parametrize("change", [{"spec": {"stopped": "yes"}}, {"metadata": {"name": "other"}}])
def test_a_change_that_cannot_be_read(platform, change):
    platform.controller.submit(job_text())
    with pytest.raises(UsageError):
        platform.controller.patch("demo", change)


def test_a_change_that_makes_the_job_wrong_is_refused(platform):
    platform.controller.submit(job_text())
    platform.controller.stop("demo")
    with pytest.raises(SpecError):
        platform.controller.patch("demo", {"spec": {"nonsense": 1}})
    assert "nonsense" not in platform.reader.job("demo")["spec"]


def test_put_replaces_the_text_and_obeys_stopped(platform):
    platform.controller.submit(job_text())
    assert platform.controller.put("demo", job_text(stopped=True))["status"]["phase"] == "Stopped"
    assert (
        platform.controller.put("demo", job_text(run="echo two\n", stopped=True))["spec"]["tasks"][0]["runScript"]
        == "echo two\n"
    )
    assert platform.controller.put("demo", job_text(run="echo two\n"))["status"]["phase"] == "Running"
    with pytest.raises(UsageError, match="renamed"):
        platform.controller.put("demo", job_text("other"))
    with pytest.raises(NotFound):
        platform.controller.put("nothing", job_text("nothing"))


# ---- what goes wrong on the way


@pytest.mark.parametrize(
    ("number", "reason"), [(errno.ENOSPC, "DiskFull"), (errno.EDQUOT, "DiskFull"), (errno.EACCES, "FolderNotWritable")]
)
def test_a_folder_that_cannot_be_written_fails_the_job_and_frees_the_lease(platform, monkeypatch, number, reason):
    def full(*_args, **_kwargs):
        raise OSError(number, "No space left on device")

    monkeypatch.setattr(attempts, "write_text", full)
    status = platform.controller.submit(job_text()).job["status"]
    assert (status["phase"], status["reason"]) == ("Failed", reason)
    assert str(platform.home.job("demo").root) in status["message"]
    assert platform.cluster.leases() == []
    monkeypatch.undo()
    assert platform.controller.start("demo")["status"]["phase"] == "Running"


def test_a_start_that_finds_no_cluster_is_tried_again(platform, monkeypatch):
    from rlark.errors import ClusterError

    def refuse(*_args):
        raise ClusterError("the dashboard does not answer")

    monkeypatch.setattr(platform.cluster, "start", refuse)
    assert platform.controller.submit(job_text()).job["status"]["phase"] == "Pending"
    platform.clock.advance(2)
    platform.tick()
    assert platform.phase() == "Pending"
    monkeypatch.undo()
    platform.clock.advance(2)
    platform.tick()
    assert platform.phase() == "Running"


def test_a_start_that_never_finds_the_cluster_fails(platform, monkeypatch):
    from rlark.errors import ClusterError

    def refuse(*_args):
        raise ClusterError("the dashboard does not answer")

    monkeypatch.setattr(platform.cluster, "start", refuse)
    platform.controller.submit(job_text())
    for _ in range(35):
        platform.clock.advance(2)
        platform.tick()
    status = platform.status()
    assert (status["phase"], status["reason"]) == ("Failed", "StartFailed")
    assert "the dashboard does not answer" in status["message"]
    assert platform.cluster.leases() == []


def test_stopping_a_job_whose_worker_was_not_started_yet(platform, monkeypatch):
    from rlark.errors import ClusterError

    def refuse(*_args):
        raise ClusterError("the dashboard does not answer")

    monkeypatch.setattr(platform.cluster, "start", refuse)
    platform.controller.submit(job_text())
    platform.controller.stop("demo")
    platform.tick()
    assert platform.phase() == "Stopped"
    assert platform.cluster.leases() == []


def test_a_failed_job_says_what_the_worker_said(platform):
    platform.controller.submit(job_text())
    platform.cluster.worker("demo").finish(3, message="actor 0: ValueError: no such file (log actor-0.log)")
    platform.tick()
    status = platform.status()
    assert (status["phase"], status["reason"], status["exitCode"]) == ("Failed", "RunFailed", 3)
    assert "actor 0" in status["message"]


def test_on_failure_tries_again_up_to_the_limit(platform):
    platform.controller.submit(job_text(restartPolicy="OnFailure", backoffLimit=2))
    for attempt in (1, 2, 3):
        assert platform.status()["attempt"] == attempt
        platform.cluster.worker("demo").finish(1)
        platform.tick()
    assert platform.phase() == "Failed"
    assert len(platform.cluster.workers) == 3
    assert platform.reasons().count("Retried") == 2
    assert platform.replays()


def test_a_stop_is_no_failure_to_retry(platform):
    platform.controller.submit(job_text(restartPolicy="OnFailure", backoffLimit=2))
    platform.controller.stop("demo")
    platform.tick()
    assert platform.phase() == "Stopped"
    assert len(platform.cluster.workers) == 1


def test_one_job_in_trouble_does_not_hold_up_the_others(platform, monkeypatch):
    platform.controller.submit(job_text("bad"))
    platform.controller.submit(job_text("good"))
    real = platform.cluster.observe

    def observe(handle, after):
        if handle.job == "bad":
            raise ValueError("half a line")
        return real(handle, after)

    monkeypatch.setattr(platform.cluster, "observe", observe)
    platform.cluster.worker("good").finish()
    platform.tick()
    assert platform.phase("good") == "Succeeded"
    assert platform.phase("bad") == "Running"


def test_ready_says_why_not(platform):
    assert platform.controller.ready() == {"ready": True, "reason": ""}
    platform.cluster.down = "the head does not answer"
    platform.clock.advance(3)
    assert platform.controller.ready() == {"ready": False, "reason": "the head does not answer"}
    platform.cluster.down = ""
    platform.cluster.nodes = [a_node(online=False)]
    platform.clock.advance(3)
    assert platform.controller.ready()["ready"] is False


def test_an_idle_tick_touches_neither_ledger_nor_cluster(platform, monkeypatch):
    platform.tick()
    calls = []
    monkeypatch.setattr(platform.cluster, "_answer", lambda: calls.append("cluster"))
    monkeypatch.setattr(platform.controller._ledger, "_rows", lambda *_: calls.append("ledger"))
    monkeypatch.setattr(platform.controller._ledger, "_replace", lambda *_: calls.append("ledger"))
    platform.tick(20)
    assert calls == []


def test_the_state_directory_is_private(platform):
    assert oct(platform.home.root.stat().st_mode & 0o777) == "0o700"
    kept = list(platform.home.root.glob("ledger.sqlite*"))
    assert len(kept) == 3
    assert {oct(path.stat().st_mode & 0o777) for path in kept} == {"0o600"}


def test_a_preview_decides_everything_and_stores_nothing(platform):
    decided = platform.controller.preview(job_text(gpu=1))
    assert decided["ok"]
    assert decided["node"] == "node-0"
    wrong = platform.controller.preview("nonsense: [")
    assert not wrong["ok"]
    assert wrong["findings"]
    assert platform.reader.jobs() == ([], None)


def test_a_controller_without_a_cluster_comes_up_and_recovers(platform):
    platform.controller.submit(job_text())
    platform.cluster.down = "no head"
    controller = platform.again()
    assert isinstance(controller, Controller)
    assert platform.phase() == "Running"
    platform.cluster.down = ""
    platform.cluster.worker("demo").finish()
    platform.clock.advance(3)
    platform.tick()
    assert platform.phase() == "Succeeded"
