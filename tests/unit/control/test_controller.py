"""The verbs: what a person asks of a Job, and what becomes of it."""

from __future__ import annotations

import errno
import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rlark.api.commands import Commands
from rlark.control import attempts
from rlark.control.controller import Controller
from rlark.errors import ConflictError, NotFound, PlacementError, SpecError, UsageError
from rlark.folder import read_json, read_lines
from rlark.testing import a_node, job_text, run_through


def test_it_offers_every_verb(platform):
    commands: Commands = platform.controller
    verbs = [name for name in vars(Commands) if not name.startswith("_")]
    assert all(callable(getattr(commands, verb)) for verb in verbs)


# ---- submitting


def test_a_submission_starts_within_the_same_call(platform):
    done = platform.controller.submit(job_text("demo", gpu=1))
    assert done.created
    assert done.job["status"]["phase"] == "Running"
    assert done.job["status"]["attempt"] == 1
    assert done.job["metadata"]["generation"] == 1
    folder = platform.home.job("demo")
    assert read_json(folder.lease)["devices"][0]["id"] == "0"
    assert read_json(folder.plan)["run"] == "echo hello\n"
    assert "echo hello" in folder.job.read_text()
    assert oct(folder.root.stat().st_mode & 0o777) == "0o700"
    assert oct(folder.job.stat().st_mode & 0o777) == "0o600"


def test_a_life_to_its_verified_end(platform):
    platform.cluster.script = run_through
    platform.controller.submit(job_text())
    platform.tick()
    status = platform.status()
    assert (status["phase"], status["verified"], status["exitCode"]) == ("Succeeded", True, 0)
    assert status["qualityGatePassed"] is True
    assert status["lease"] is None
    assert platform.cluster.leases() == []
    assert platform.reasons() == [
        "Accepted",
        "Leased",
        "Launched",
        "Prepared",
        "RayReady",
        "Started",
        "SignalSeen",
        "OutputsVerified",
        "Completed",
        "Released",
    ]
    assert platform.replays()


def test_events_are_copied_into_the_folder(platform):
    platform.cluster.script = run_through
    platform.controller.submit(job_text())
    platform.tick()
    copied = [line["reason"] for line, _ in read_lines(platform.home.job("demo").events)]
    assert copied == platform.reasons()
    platform.again()
    platform.controller.start("demo")
    copied = [line["seq"] for line, _ in read_lines(platform.home.job("demo").events)]
    assert copied == [event.seq for event in platform.reader.events("demo")]


def test_a_wrong_job_is_refused_with_every_finding_and_nothing_is_stored(platform):
    text = job_text().replace('"replicas": 1', '"replicas": 2').replace('"head": true', '"head": false')
    with pytest.raises(SpecError) as refused:
        platform.controller.submit(text)
    codes = {finding.code for finding in refused.value.findings if finding.severity == "error"}
    assert len(codes) >= 2
    assert platform.reader.jobs() == ([], None)


def test_what_can_never_run_is_refused_not_queued(platform):
    with pytest.raises(PlacementError):
        platform.controller.submit(job_text(gpu=3))
    assert platform.reader.jobs() == ([], None)


def test_the_same_text_again_is_the_same_job_while_it_lives(platform):
    first = platform.controller.submit(job_text())
    again = platform.controller.submit(job_text())
    assert not again.created
    assert again.job["metadata"]["uid"] == first.job["metadata"]["uid"]
    assert len(platform.cluster.workers) == 1


def test_the_same_text_after_the_end_is_a_new_attempt(platform):
    platform.cluster.script = run_through
    platform.controller.submit(job_text())
    platform.tick()
    again = platform.controller.submit(job_text())
    assert again.created
    assert again.job["status"]["attempt"] == 2
    platform.tick()
    assert platform.phase() == "Succeeded"
    assert platform.replays()


def test_another_text_under_the_same_name_is_a_conflict(platform):
    platform.controller.submit(job_text())
    with pytest.raises(ConflictError, match="taken"):
        platform.controller.submit(job_text(run="echo other\n"))
    with pytest.raises(ConflictError, match="only an ended job can be replaced"):
        platform.controller.submit(job_text(run="echo other\n"), replace=True)


def test_replace_deletes_an_ended_job_first(platform):
    first = platform.controller.submit(job_text()).job["metadata"]["uid"]
    platform.cluster.worker("demo").finish()
    platform.controller.tick()
    (platform.home.job("demo").artifacts / "old").write_text("x")
    done = platform.controller.submit(job_text(run="echo other\n"), replace=True)
    assert done.created
    assert done.job["metadata"]["uid"] != first
    assert done.job["status"]["attempt"] == 1
    assert not (platform.home.job("demo").artifacts / "old").exists()


def test_replace_waits_for_the_last_processes(platform):
    platform.controller.submit(job_text())
    platform.cluster.worker("demo").finish(exits=False)
    platform.controller.tick()
    assert platform.phase() == "Succeeded"
    with pytest.raises(ConflictError, match="last processes"):
        platform.controller.submit(job_text(run="echo other\n"), replace=True)


def test_a_dry_run_stores_nothing(platform):
    done = platform.controller.submit(job_text(), dry_run=True)
    assert not done.created
    assert done.job["status"]["phase"] == "Pending"
    assert platform.reader.jobs() == ([], None)
    assert not platform.home.job("demo").root.exists()


def test_stopped_at_submission_is_stored_and_not_started(platform):
    done = platform.controller.submit(job_text(stopped=True))
    assert done.created
    assert done.job["status"]["phase"] == "Stopped"
    assert done.job["spec"]["stopped"] is True
    assert platform.cluster.workers == []
    started = platform.controller.patch("demo", {"spec": {"stopped": False}})
    assert started["status"]["phase"] == "Running"
    assert started["spec"]["stopped"] is False


def test_what_get_shows_of_a_stopped_job_can_be_submitted_again(platform):
    platform.controller.submit(job_text())
    platform.controller.stop("demo")
    platform.tick()
    shown = platform.reader.job("demo")
    assert shown["spec"]["stopped"] is True
    assert not platform.controller.submit(json.dumps(shown)).created
    assert platform.controller.submit(job_text()).created


def test_an_idempotency_key_gives_the_same_job(platform):
    first = platform.controller.submit(job_text(), idempotency_key="k1")
    platform.cluster.worker("demo").finish()
    platform.tick()
    again = platform.controller.submit(job_text(), idempotency_key="k1")
    assert (first.created, again.created) == (True, False)
    assert len(platform.cluster.workers) == 1
    with pytest.raises(ConflictError, match="Idempotency-Key"):
        platform.controller.submit(job_text("other"), idempotency_key="k1")
    with pytest.raises(UsageError):
        platform.controller.submit(job_text(), idempotency_key="x" * 300)


def test_two_hundred_submissions_with_one_key_make_one_job(platform):
    gate = threading.Barrier(20)

    def submit(number: int):
        if number < 20:
            gate.wait()
        return platform.controller.submit(job_text(), idempotency_key="same")

    with ThreadPoolExecutor(20) as pool:
        done = list(pool.map(submit, range(200)))
    assert sum(one.created for one in done) == 1
    assert {one.job["metadata"]["uid"] for one in done} == {done[0].job["metadata"]["uid"]}
    assert len(platform.cluster.workers) == 1


def test_warnings_of_the_check_become_events(platform):
    text = job_text().replace('"replicas": 1', '"replicas": 1, "image": "registry.example.com/rlinf:v1"')
    platform.controller.submit(text)
    warned = [event for event in platform.reader.events("demo") if event.type == "Warning"]
    assert any("image" in event.message for event in warned)


def test_a_folder_that_the_ledger_does_not_know_is_set_aside(platform):
    stale = platform.home.job("demo")
    stale.create()
    (stale.artifacts / "precious").write_text("x")
    platform.controller.submit(job_text())
    assert not (stale.artifacts / "precious").exists()
    assert list(platform.home.jobs.glob(".demo.before-*/artifacts/precious"))
    assert "FolderSetAside" in platform.reasons()


# ---- the queue


def test_a_busy_gpu_queues_and_says_who_holds_it(platform):
    platform.controller.submit(job_text("first", gpu=2))
    waiting = platform.controller.submit(job_text("second", gpu=1)).job["status"]
    assert waiting["phase"] == "Pending"
    assert waiting["queue"] == {
        "position": 1,
        "reason": "GPU 0 (faked) leased by job first, GPU 1 (faked) leased by job first",
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
    assert leased.message == "1 CPUs and GPU 0 (faked), GPU 1 (faked) of node node-0"


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


# ---- stop, start, restart, delete


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
