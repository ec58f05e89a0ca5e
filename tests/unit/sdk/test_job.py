from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from rlark.errors import ClusterError, JobFailed, JobStopped, NotFinished
from rlark.sdk.job import Job, LogRecord
from rlark.sdk.transport import JOBS, Transport
from rlark.testing import FakeClock

Make = Callable[..., dict[str, Any]]
ROUTE = f"GET {JOBS}/demo"


def job(api: Any, record: dict[str, Any], clock: FakeClock | None = None) -> Job:
    return Job(Transport(api.address), record, clock=clock or FakeClock())


def test_an_ended_job_is_not_asked_for_again(api: Any, job_record: Make) -> None:
    held = job(api, job_record(phase="Succeeded", verified=True, qualityGatePassed=False, exitCode=0))
    assert (held.phase, held.verified, held.quality_gate_passed, held.exit_code) == ("Succeeded", True, False, 0)
    assert api.asked == []


def test_a_running_job_is(api: Any, job_record: Make) -> None:
    api.says(ROUTE, job_record(phase="Failed", exitCode=3))
    held = job(api, job_record())
    assert (held.exit_code, held.phase) == (3, "Failed")


def test_wait_looks_until_the_end(api: Any, job_record: Make) -> None:
    for phase in ("Pending", "Running", "Stopped"):
        api.says(ROUTE, job_record(phase=phase))
    clock = FakeClock()
    assert job(api, job_record(phase="Pending"), clock).wait() == "Stopped"
    assert clock.monotonic() == pytest.approx(0.6)


def test_wait_gives_up_in_time(api: Any, job_record: Make) -> None:
    api.says(ROUTE, job_record())
    clock = FakeClock()
    with pytest.raises(NotFinished, match="had not ended after 2 s"):
        job(api, job_record(), clock).wait(timeout=2)
    assert clock.monotonic() == pytest.approx(2)


def test_wait_outlives_a_restart_of_the_api_but_not_its_end(api: Any, job_record: Make) -> None:
    api.says(ROUTE, {"detail": "starting"}, status=503)
    api.says(ROUTE, {"detail": "starting"}, status=503)
    api.says(ROUTE, job_record(phase="Succeeded"))
    assert job(api, job_record()).wait() == "Succeeded"
    api.close()
    clock = FakeClock()
    with pytest.raises(ClusterError):
        job(api, job_record(), clock).wait()
    assert clock.monotonic() > 60


def test_wait_async_leaves_the_loop_free(api: Any, job_record: Make) -> None:
    api.says(ROUTE, job_record())
    api.says(ROUTE, job_record(phase="Succeeded"))
    beats = 0

    async def main() -> str:
        nonlocal beats
        waiting = asyncio.create_task(job(api, job_record()).wait_async(timeout=30))
        while not waiting.done():
            beats += 1
            await asyncio.sleep(0.01)
        return await waiting

    assert asyncio.run(main()) == "Succeeded"
    assert beats > 5


@pytest.mark.parametrize(("phase", "kind"), [("Failed", JobFailed), ("Stopped", JobStopped), ("Running", NotFinished)])
def test_check_raises_a_bad_end(api: Any, job_record: Make, phase: str, kind: type[Exception]) -> None:
    record = job_record(phase=phase, reason="RunFailed", message="exit code 3")
    api.says(ROUTE, record)
    with pytest.raises(kind, match=f"demo is {phase}: RunFailed exit code 3"):
        job(api, record).check()


def test_check_raises_where_the_first_signal_did_not_come(api: Any, job_record: Make) -> None:
    late = {"type": "SignalSeen", "status": "False", "reason": "Stalled", "message": "no line matched"}
    record = job_record(phase="Succeeded", reason="Completed", message="but is not verified", conditions=[late])
    assert job(api, record).check().phase == "Succeeded"  # it was expected by nobody
    record["spec"] = {"tasks": [{"expect": {"firstSignal": {"pattern": "iter 1/"}}}]}
    with pytest.raises(JobFailed, match="demo is Succeeded: Completed but is not verified"):
        job(api, record).check()


def test_check_gives_a_good_one_back(api: Any, job_record: Make) -> None:
    held = job(api, job_record(phase="Succeeded"))
    assert held.check() is held


def test_logs_as_records(api: Any, job_record: Make) -> None:
    items = [{"line": "a", "stream": "env-0", "component": "env", "rank": 0, "attempt": 2, "time": None}, {"line": "b"}]
    lines = "".join(f"{json.dumps(item)}\n" for item in items)
    api.says(f"{ROUTE}/logs", lines.encode(), kind="application/x-ndjson")
    records = list(job(api, job_record()).logs(tail=2, component="env"))
    assert records == [LogRecord("a", "env-0", 2, "env", 0), LogRecord("b")]
    assert [str(record) for record in records] == ["a", "b"]
    assert api.asked[0]["query"] == "tail=2&component=env"
    assert api.asked[0]["headers"]["Accept"] == "application/x-ndjson"


def test_followed_logs_end_with_the_job_and_know_its_outcome(api: Any, job_record: Make) -> None:
    text = 'id: 1\nevent: log\ndata: {"line": "a"}\n\nid: 2\nevent: end\ndata: {"phase": "Failed"}\n\n'
    api.says(f"{ROUTE}/logs", text.encode(), kind="text/event-stream")
    api.says(ROUTE, job_record(phase="Failed"))
    held = job(api, job_record())
    assert [record.line for record in held.logs(follow=True)] == ["a"]
    assert held.record["status"]["phase"] == "Failed"
    assert api.asked[0]["query"] == "follow=true"


def test_commands_ask_what_they_should(api: Any, job_record: Make) -> None:
    api.says(f"PATCH {JOBS}/demo", job_record())
    api.says(f"POST {JOBS}/demo/restart", job_record())
    api.says(f"DELETE {JOBS}/demo", {})
    held = job(api, job_record())
    held.stop().start().restart().delete()
    assert [(asked["route"].split()[0], asked["body"]) for asked in api.asked] == [
        ("PATCH", '{"spec": {"stopped": true}}'),
        ("PATCH", '{"spec": {"stopped": false}}'),
        ("POST", ""),
        ("DELETE", ""),
    ]


def test_metrics_and_events(api: Any, job_record: Make) -> None:
    api.says(f"{ROUTE}/metrics", {"metrics": {"iteration": [1, 2], "meanReward": [0.5, None]}, "count": 2})
    api.says(f"{ROUTE}/events", {"items": [{"reason": "Queued"}]})
    held = job(api, job_record())
    assert held.metrics()["meanReward"] == [0.5, None]
    assert held.events() == [{"reason": "Queued"}]


def test_curves_as_a_frame_where_pandas_is_installed(
    api: Any, job_record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.says(f"{ROUTE}/metrics", {"metrics": {"iteration": [1, 2]}, "count": 2})
    held = job(api, job_record())
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError):
        held.metrics_frame()
    pandas = ModuleType("pandas")
    pandas.DataFrame = lambda curves: ("frame", curves)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    assert held.metrics_frame() == ("frame", {"iteration": [1, 2]})


PLACED = {
    "node": "box",
    "attempt": 1,
    "fused": False,
    "placement": {"actor": [{"rank": 0, "node": "box", "gpus": [0], "localRank": 0}]},
    "lease": {"cpus": 2, "gpus": [{"logical": 0, "id": "3", "uuid": None, "faked": True}]},
}


def test_placement_names_logical_and_physical_gpus(api: Any, job_record: Make) -> None:
    api.says(ROUTE, job_record(**PLACED))
    placement = job(api, job_record()).placement
    assert placement.ranks["actor"][0].gpus == [0]
    assert "logical GPU 0 is GPU 3, faked" in repr(placement)
    assert "actor" in repr(placement)
    html = placement._repr_html_()
    assert "<svg" in html
    assert "faked" in html


def test_a_job_without_components_has_an_empty_placement(api: Any, job_record: Make) -> None:
    api.says(ROUTE, job_record())
    placement = job(api, job_record()).placement
    assert repr(placement) == "no components on no node yet"
    assert "no components" in placement._repr_html_()


def test_repr_and_card(api: Any, job_record: Make) -> None:
    record = job_record(
        name="<demo>",
        phase="Succeeded",
        verified=True,
        qualityGatePassed=False,
        progress={"iteration": 40, "iterations": 40, "metrics": {"meanReward": 1.5}},
        **PLACED,
    )
    held = job(api, record)
    assert repr(held) == "<Job <demo>, Succeeded, attempt 1>"
    card = held._repr_html_()
    for piece in ("&lt;demo&gt;", "Succeeded", "40/40", "meanReward 1.5", "failed", "(faked)", "<svg"):
        assert piece in card
    assert "<demo>" not in card


def test_a_card_is_shown_when_the_platform_is_gone(api: Any, job_record: Make) -> None:
    api.close()
    assert "Running" in job(api, job_record())._repr_html_()
