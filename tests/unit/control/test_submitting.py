"""Coming in: what a submission makes, refuses, replays and replaces."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rlark.errors import ConflictError, PlacementError, SpecError, UsageError
from rlark.folder import read_json, read_lines
from rlark.testing import job_text, run_through


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
