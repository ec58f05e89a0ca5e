from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import rlark
from rlark.errors import NotFound
from rlark.folder import Home, write_json
from rlark.sdk import local
from rlark.sdk.client import Client
from rlark.sdk.transport import JOBS, NODES
from rlark.testing import FakeClock, a_node, job_text

Make = Callable[..., dict[str, Any]]


@pytest.fixture
def client(api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A client of one's own platform, which runs and has one node with two GPUs."""
    home = Home(tmp_path / "home")
    home.create()
    home.token.write_text("secret", encoding="utf-8")
    write_json(home.platform, {"address": api.address})
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("RLARK_HOME", "RLARK_ADDRESS", "RLARK_TOKEN", "RLARK_PORT"):
        monkeypatch.delenv(name, raising=False)
    api.says(f"GET {NODES}", {"items": [a_node("box", gpus=2).to_json()]})
    return rlark.connect(home=home.root)


def routes(api: Any) -> list[str]:
    return [asked["route"] for asked in api.asked]


def test_connect_asks_nothing(api: Any, client: Client) -> None:
    assert repr(client) == f"<Client of {api.address}>"
    assert (client.settings.address, client.transport.token) == (api.address, "secret")
    assert api.asked == []


def test_connect_elsewhere(client: Client) -> None:
    far = rlark.connect("http://far:1", "their-token")
    assert (far.transport.address, far.transport.token) == ("http://far:1", "their-token")
    assert not far.settings.local


def test_submit_checks_here_and_sends_the_canonical_text(api: Any, client: Client, job_record: Make) -> None:
    api.says(f"POST {JOBS}", job_record(), status=201)
    Path("job.yaml").write_text(job_text(), encoding="utf-8")
    job = client.submit("job.yaml", set={"spec.priority": 3}, name="other", labels={"a": "b"}, replace=True)
    assert isinstance(job, rlark.Job)
    assert routes(api) == [f"GET {NODES}", f"POST {JOBS}"]
    sent = api.asked[-1]
    assert sent["query"] == "replace=true"
    assert sent["body"].startswith("apiVersion: rlinf.io/v1alpha1\nkind: Job\nmetadata:\n  name: other\n")
    assert "priority: 3" in sent["body"]


@pytest.mark.parametrize("source", [job_text(), json.loads(job_text()), Path("job.yaml")])
def test_a_job_may_be_text_object_or_path(api: Any, client: Client, job_record: Make, source: Any) -> None:
    api.says(f"POST {JOBS}", job_record(), status=200)
    Path("job.yaml").write_text(job_text(), encoding="utf-8")
    assert client.submit(source).name == "demo"


def test_what_is_wrong_is_raised_with_findings_and_nothing_is_sent(api: Any, client: Client) -> None:
    with pytest.raises(rlark.SpecError) as caught:
        client.submit(job_text().replace('"kind": "Job"', '"kind": "Jop"'))
    assert any(finding.path == "kind" for finding in caught.value.findings)
    with pytest.raises(rlark.PlacementError):
        client.submit(job_text(gpu=3))
    assert routes(api) == [f"GET {NODES}"] * 2


def test_validate_and_preview(client: Client) -> None:
    assert client.validate(job_text()).ok
    wrong = client.validate(job_text(gpu=3))
    assert isinstance(wrong, rlark.Findings)
    assert wrong.exit_code == 4
    preview = client.preview(job_text(gpu=2), name="other")
    assert (preview.name, preview.exit_code) == ("other", 0)


def test_a_described_inventory_needs_no_platform(api: Any, client: Client) -> None:
    Path("nodes.yaml").write_text("nodes: [{name: box, gpus: 4, cpus: 4}]", encoding="utf-8")
    assert client.preview(job_text(gpu=4), inventory="nodes.yaml").exit_code == 0
    assert api.asked == []


def test_jobs_are_read_page_by_page(api: Any, client: Client, job_record: Make) -> None:
    api.says(f"GET {JOBS}", {"items": [job_record("a"), job_record("b")], "continue": "7"})
    api.says(f"GET {JOBS}", {"items": [job_record("c")], "continue": None})
    found = client.jobs(labels={"team": "nav"}, phase="Running")
    assert [job.name for job in found] == ["a", "b", "c"]
    assert [asked["query"] for asked in api.asked] == [
        "limit=200&labelSelector=team%3Dnav&phase=Running",
        "limit=200&labelSelector=team%3Dnav&phase=Running&continue=7",
    ]


def test_one_job_by_name(api: Any, client: Client, job_record: Make) -> None:
    api.says(f"GET {JOBS}/demo", job_record())
    assert client.job("demo").name == "demo"
    with pytest.raises(rlark.ClusterError):
        client.job("no-such")
    assert routes(api)[-1] == f"GET {JOBS}/no-such"


def follow_text(phase: str) -> bytes:
    events = [
        ("status", {"phase": "Pending", "queue": {"position": 1, "reason": "GPU 0 leased by job x"}}),
        ("status", {"phase": "Running"}),
        ("log", {"line": "hello", "component": None}),
        ("metrics", {"iteration": 1, "iterations": 2, "meanReward": 0.5}),
        ("end", {"phase": phase}),
    ]
    return "".join(f"event: {kind}\ndata: {json.dumps(data)}\n\n" for kind, data in events).encode()


@pytest.fixture
def run_api(api: Any, client: Client, job_record: Make) -> Any:
    """Submitting gives a Job that fails."""
    api.says(f"POST {JOBS}", job_record(phase="Pending"), status=201)
    api.says(f"GET {JOBS}/demo/follow", follow_text("Failed"), kind="text/event-stream")
    api.says(f"GET {JOBS}/demo", job_record(phase="Failed", reason="RunFailed"))
    return api


def test_run_follows_to_the_end_and_raises_only_when_asked(
    run_api: Any, client: Client, capsys: pytest.CaptureFixture[str]
) -> None:
    job = rlark.run(job_text(), client=client)
    out, err = capsys.readouterr()
    assert job.phase == "Failed"
    assert out == "hello\n"
    assert err.splitlines() == ["Pending: number 1 in the queue (GPU 0 leased by job x)", "Running"]
    with pytest.raises(rlark.JobFailed, match="RunFailed"):
        job.check()


def test_a_quiet_run_says_nothing(run_api: Any, client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    assert rlark.run(job_text(), client=client, quiet=True).phase == "Failed"
    assert capsys.readouterr() == ("", "")


def test_in_a_notebook_one_line_follows_the_job(
    run_api: Any, client: Client, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []

    class ZMQInteractiveShell:
        pass

    def display(line: Any, *, display_id: bool) -> Any:
        assert display_id
        shown.append(line.data)
        return SimpleNamespace(update=lambda line: shown.append(line.data))

    page = ModuleType("IPython.display")
    page.HTML = lambda data: SimpleNamespace(data=data)  # type: ignore[attr-defined]
    page.display = display  # type: ignore[attr-defined]
    ipython = ModuleType("IPython")
    ipython.get_ipython = ZMQInteractiveShell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", page)
    rlark.run(job_text(), client=client)
    assert "Pending" in shown[0]
    assert "GPU 0 leased by job x" in shown[1]
    assert "1/2 meanReward 0.5" in shown[-1]
    assert len(shown) == len(set(shown))
    assert capsys.readouterr() == ("", "")


def test_submit_starts_ones_own_platform(
    api: Any, client: Client, job_record: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.settings.home.platform.unlink()
    fresh = Client({"home": str(client.settings.home.root)})
    started: list[str] = []

    def boot(home: Home, verb: str, *_: object, **__: object) -> dict[str, Any]:
        started.append(verb)
        write_json(home.platform, {"address": api.address})
        return {}

    monkeypatch.setattr(local, "boot", boot)
    api.says(f"POST {JOBS}", job_record(), status=201)
    assert fresh.submit(job_text()).name == "demo"
    assert started == ["up"]


def test_a_lost_answer_is_asked_for_again_under_the_same_key(api: Any, client: Client, job_record: Make) -> None:
    clock = FakeClock()
    patient = Client({"home": str(client.settings.home.root)}, clock=clock)
    api.says(f"POST {JOBS}", {"detail": "the replica was killed"}, status=503)
    api.says(f"POST {JOBS}", {"detail": "the replica was killed"}, status=503)
    api.says(f"POST {JOBS}", job_record(), status=200)
    job, created = patient.send("kind: Job\n")
    assert (job.name, created) == ("demo", False)
    keys = {asked["headers"]["Idempotency-Key"] for asked in api.asked}
    assert (len(api.asked), len(keys), clock.monotonic()) == (3, 1, 2.0)


def test_a_platform_that_stays_away_is_told(api: Any, client: Client) -> None:
    clock = FakeClock()
    patient = Client({"home": str(client.settings.home.root)}, clock=clock)
    api.says(f"POST {JOBS}", {"detail": "no node"}, status=503)
    with pytest.raises(rlark.ClusterError, match="no node"):
        patient.send("kind: Job\n")
    assert clock.monotonic() == 6.0


def test_a_refusal_is_not_repeated(api: Any, client: Client) -> None:
    api.says(f"POST {JOBS}", {"detail": "taken", "code": "conflict"}, status=409)
    with pytest.raises(rlark.ConflictError):
        client.send("kind: Job\n")
    assert len(api.asked) == 1


@pytest.mark.parametrize("name", ["", ".", "..", "../nodes", "a/b", "a b", "a?x=1", "Demo", "demo\n"])
def test_what_cannot_be_a_jobs_name_is_no_job(client: Client, api: Any, name: str) -> None:
    with pytest.raises(NotFound, match="there is no job"):
        client.job(name)
    assert routes(api) == []
