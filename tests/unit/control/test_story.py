"""What a Job's steps and events tell of each way it can go: what happened, why, where, and where to look."""

from __future__ import annotations

import json

import pytest

from rlark.errors import ConflictError
from rlark.spec.story import points_at, story
from rlark.testing import job_text, run_through

SIGNAL = {"firstSignal": {"pattern": "iter 1/", "within": "5m"}}
OUTPUTS = {"outputs": [{"path": "policy.onnx"}]}
MISSING = {"verdict": {"verified": False, "checks": []}}


def expecting(name="demo", expect=SIGNAL | OUTPUTS, **more):
    job = json.loads(job_text(name, **more))
    job["spec"]["tasks"][0]["expect"] = expect
    return json.dumps(job)


@pytest.fixture
def lives(platform):
    """Submits a Job whose worker does what the test says, and ticks until that has been seen."""

    def live(text, script=lambda worker: worker.begin()):
        platform.cluster.script = script
        name = platform.controller.submit(text).job["metadata"]["name"]
        platform.tick(3)
        return name

    return live


def steps(platform, name="demo"):
    return {step.name: step for step in story(platform.reader.job(name))}


def where(platform, name="demo"):
    """The step that is pointed at, why, and the command that shows more."""
    point = points_at(platform.reader.job(name))
    return point and (point.step, point.reason, point.look)


def message(platform, name="demo"):
    return points_at(platform.reader.job(name)).message


def told(platform, name="demo"):
    return [f"{event.type} {event.reason}: {event.message}" for event in platform.reader.events(name)]


def test_a_job_that_succeeded_and_is_verified_points_nowhere(platform, lives):
    lives(expecting(), run_through)
    assert where(platform) is None
    assert {step.state for step in steps(platform).values()} == {"done", "none"}
    assert steps(platform)["run completed"].message == "exit code 0"
    assert platform.status()["verified"] is True


def test_the_steps_stand_in_the_order_of_a_life_each_with_its_time(platform, lives):
    def script(worker):
        for step in ("Prepared", "RayReady", "Started", "SignalSeen"):
            worker.clock.advance(1)
            worker.report(step)

    lives(expecting(), script)
    found = [(step.name, step.time and step.time[17:19]) for step in story(platform.reader.job("demo"))]
    assert found == [
        ("accepted", "00"),
        ("validated", "00"),
        ("its turn in the queue", "00"),
        ("leased", "00"),
        ("worker started", "04"),
        ("prepared", "01"),
        ("Ray head started", "02"),
        ("run started", "03"),
        ("components placed", None),
        ("first signal", "04"),
        ("run completed", None),
        ("outputs verified", None),
    ]
    assert where(platform) == ("run completed", "", "rlark logs -f demo")


def test_a_run_is_over_before_its_outputs_are_looked_at(platform, lives):
    def script(worker):
        worker.begin()
        worker.report("SignalSeen")
        worker.clock.advance(1)
        worker.report("OutputsVerified")
        worker.clock.advance(1)
        worker.finish(verified=True)

    lives(expecting(), script)
    times = [step.time for step in story(platform.reader.job("demo")) if step.time]
    assert times[-2:] == sorted(times[-2:])
    assert steps(platform)["run completed"].time[17:19] == "01"


def test_nothing_expected_is_neither_missing_nor_proven(platform, lives):
    lives(job_text(), lambda worker: (worker.begin(), worker.finish()))
    assert where(platform) is None
    assert (steps(platform)["outputs verified"].state, platform.status()["verified"]) == ("none", None)
    assert steps(platform)["first signal"].state == "none"


def test_a_waiting_job_points_at_the_queue_with_its_place_and_reason(platform, lives):
    lives(job_text("first", gpu=2))
    lives(expecting("second", gpu=1))
    assert where(platform, "second") == ("its turn in the queue", "Waiting", "rlark queue")
    assert message(platform, "second") == "number 1: GPU 0,1 (faked) leased by job first"
    platform.controller.stop("second")
    assert where(platform, "second") == ("its turn in the queue", "Stopped", "rlark events second")
    assert message(platform, "second") == "stopped before it started"
    assert platform.status("second")["verified"] is None


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("PrepareFailed", "the prepare script failed at line 2 with status 2: ls /nowhere"),
        ("PrepareExited", "the prepare script ended the shell with status 0 before the run could begin"),
    ],
)
def test_a_prepare_script_that_failed_is_pointed_at_with_its_line(platform, lives, reason, said):
    def script(worker):
        worker.report("Prepared", status=False, reason=reason, message=said)
        worker.finish(None, reason=reason, message=said)

    lives(expecting(), script)
    assert where(platform) == ("prepared", reason, "rlark logs demo -n 50")
    assert message(platform) == said
    assert platform.status()["verified"] is False


def test_a_head_that_did_not_come_up(platform, lives):
    def script(worker):
        worker.report("Prepared")
        worker.report("RayReady", status=False, reason="RayNotReady", message="port 6379 is taken")
        worker.finish(None, reason="RayNotReady", message="port 6379 is taken")

    lives(expecting(), script)
    assert where(platform) == ("Ray head started", "RayNotReady", "rlark logs demo -n 50")
    assert message(platform) == "port 6379 is taken"


def test_a_run_that_uses_no_head_misses_none(platform, lives):
    def script(worker):
        worker.report("Prepared")
        worker.report("RayReady", status=False, reason="NoHead")
        worker.report("Started")
        worker.finish()

    lives(job_text(), script)
    assert where(platform) is None


def stalled(worker):
    worker.begin()
    said = "no line matched 'iter 1/' within 300 s; stacks are in stderr.log"
    worker.report("SignalSeen", status=False, reason="Stalled", message=said)


def test_a_silent_run_is_pointed_at_before_and_after_its_good_end(platform, lives):
    lives(expecting())
    assert where(platform) == ("first signal", "", "rlark logs demo -n 50")
    assert message(platform) == "no line matches 'iter 1/' yet; it has 5m from the start of the run"
    worker = platform.cluster.worker("demo")
    stalled(worker)
    platform.clock.advance(300)
    platform.tick()
    assert where(platform) == ("first signal", "Stalled", "rlark logs demo --stream stderr")
    worker.report("OutputsVerified")
    worker.finish(verified=False)
    platform.tick()
    assert (platform.phase(), platform.status()["verified"]) == ("Succeeded", False)
    assert where(platform)[:2] == ("first signal", "Stalled")
    assert [steps(platform)[name].state for name in ("run completed", "outputs verified")] == ["done", "done"]


def test_conditions_keep_the_time_of_their_last_change(platform, lives):
    lives(expecting(), stalled)
    platform.clock.advance(60)
    platform.cluster.worker("demo").report("SignalSeen", status=False, reason="NotSeen")
    platform.tick()
    found = {item["type"]: item for item in platform.status()["conditions"]}
    assert all(item["reason"] for item in found.values())
    signal = found["SignalSeen"]
    assert (signal["status"], signal["reason"], signal["lastTransitionTime"][14:19]) == ("False", "NotSeen", "00:00")


def test_a_run_that_failed_before_its_signal_tells_both(platform, lives):
    def script(worker):
        worker.begin()
        worker.report("SignalSeen", status=False, reason="NotSeen", message="the run ended before its first signal")
        worker.finish(3, message="the run exited with code 3; its last words: oops")

    lives(expecting(), script)
    assert where(platform) == ("first signal", "NotSeen", "rlark logs demo -n 50")
    assert message(platform) == (
        "the run ended before its first signal; the run exited with code 3; its last words: oops"
    )


@pytest.mark.parametrize("reason", ["RunFailed", "DeadlineExceeded", "DiskFull"])
def test_a_run_that_did_not_complete(platform, lives, reason):
    def script(worker):
        worker.begin()
        worker.report("SignalSeen")
        worker.report("OutputsVerified", status=False, reason="NotVerified", message="policy.onnx is missing")
        worker.finish(1, reason=reason, message="why it ended")

    lives(expecting(), script)
    assert where(platform) == ("run completed", reason, "rlark logs demo -n 50")
    assert message(platform) == "why it ended"
    assert platform.status()["verified"] is False


@pytest.mark.parametrize("reason", ["OutputMissing", "EvidenceMissing", "GateFailed"])
def test_a_run_that_completed_without_its_proof_points_at_the_proof(platform, lives, reason):
    def script(worker):
        worker.begin()
        worker.report("SignalSeen")
        worker.report("OutputsVerified", status=False, reason="NotVerified", message="output policy.onnx: not there")
        worker.finish(0, reason=reason, message="the run exited with code 0, but ...", verified=False)

    lives(expecting(), script)
    assert platform.phase() == "Failed"
    assert where(platform) == ("outputs verified", "NotVerified", "rlark artifacts demo")
    assert message(platform) == "output policy.onnx: not there"


def test_a_stopped_run_points_at_where_it_stood(platform, lives):
    lives(expecting())
    platform.controller.stop("demo")
    assert where(platform)[:2] == ("first signal", "Stopped")
    assert platform.status()["verified"] is False


def test_a_worker_that_vanished_or_never_started(platform, lives):
    lives(expecting("lost", SIGNAL), lambda worker: (worker.begin(), worker.report("SignalSeen"), worker.die()))
    assert where(platform, "lost") == ("run completed", "WorkerLost", "rlark logs lost -n 50")
    assert platform.status("lost")["verified"] is False

    def refused(*_):
        raise ConflictError("the worker of another attempt runs")

    platform.cluster.start = refused
    lives(job_text("unborn"))
    assert where(platform, "unborn") == ("worker started", "StartFailed", "rlark events unborn")
    assert steps(platform, "unborn")["leased"].state == "done"


def test_the_next_attempt_is_told_from_its_beginning(platform, lives):
    lives(expecting(restartPolicy="OnFailure", backoffLimit=1), stalled)
    platform.cluster.script = lambda worker: None
    platform.cluster.worker("demo").finish(1)
    platform.tick(3)
    assert platform.status()["attempt"] == 2
    assert where(platform) == ("prepared", "", "rlark logs demo -n 50")


def test_the_events_tell_a_life_in_order(platform, lives):
    lives(job_text("other", gpu=2))
    lives(expecting(gpu=2), stalled)
    platform.cluster.worker("other").finish()
    platform.tick(3)
    platform.cluster.worker("demo").finish(3, message="the run exited with code 3; its last words: oops")
    platform.tick(3)
    assert told(platform) == [
        "Normal Accepted: checked, stored and queued",
        "Normal Waiting: GPU 0,1 (faked) leased by job other",
        "Normal Leased: 1 CPU and GPU 0,1 (faked) of node node-0",
        "Normal Launched: the worker of attempt 1 was started on node node-0",
        "Normal Prepared: ",
        "Normal RayReady: ",
        "Normal Started: ",
        "Warning Stalled: no line matched 'iter 1/' within 300 s; stacks are in stderr.log",
        "Warning RunFailed: the run exited with code 3; its last words: oops",
        "Normal Released: attempt 1 gave its capacity on node node-0 back",
    ]
