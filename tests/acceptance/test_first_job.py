"""What a newcomer does: submit the smoke Job, look at all of it, verify it, run it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.user import User

pytestmark = pytest.mark.acceptance
SMOKE = "job_specs/smoke.yaml"
PRODUCTS = {"policy.onnx", "training-summary.json", "eval-report.json", "telemetry.jsonl", "parity.json"}


@pytest.fixture(scope="module")
def smoke(machine: User) -> str:
    """What following the smoke Job printed."""
    return machine.rlark("submit", SMOKE)


def test_it_succeeds_verified_and_fails_its_gate(machine: User, smoke: str) -> None:
    status = machine.status("smoke")
    assert (status["phase"], status["verified"], status["qualityGatePassed"]) == ("Succeeded", True, False)
    assert "Succeeded" in smoke
    assert status["exitCode"] == 0
    machine.until("smoke", lambda now: now["lease"] is None)  # given back once its processes are seen to be gone


def test_its_story_is_told_in_order(machine: User, smoke: str) -> None:
    conditions = {c["type"]: c["status"] for c in machine.status("smoke")["conditions"]}
    steps = ("Validated", "Prepared", "RayReady", "Placed", "Started", "SignalSeen", "OutputsVerified")
    assert {step: conditions[step] for step in steps} == dict.fromkeys(steps, "True")
    assert conditions["Leased"] == "False"  # given back
    events = machine.json("events", "smoke")["items"]
    assert [e["seq"] for e in events] == sorted(e["seq"] for e in events)
    log = machine.rlark("logs", "smoke")
    marks = ["RLINF_NODE_RANK: 0", "Ray Head started", "Ray cluster is ready.", "Executing run script...", "iter 1/"]
    places = [log.index(mark) for mark in [*marks, "Stopping Ray cluster..."]]
    assert places == sorted(places)


def test_curves_are_there(machine: User, smoke: str) -> None:
    metrics: dict[str, list[Any]] = machine.json("metrics", "smoke")["metrics"]
    assert metrics["iteration"] == list(range(1, len(metrics["iteration"]) + 1))
    assert len(metrics["meanReward"]) == len(metrics["iteration"])
    assert list((machine.home / "jobs/smoke").glob("tensorboard/events.out.tfevents.*"))


def test_artifacts_verify_here_and_on_a_pulled_copy(machine: User, smoke: str, tmp_path: Path) -> None:
    machine.rlark("artifacts", "smoke", "verify")
    files = {item["path"] for item in machine.json("artifacts", "smoke", "list")["files"]}
    assert files >= PRODUCTS
    machine.rlark("artifacts", "smoke", "pull", "--to", tmp_path / "copy")
    report = json.loads((tmp_path / "copy/eval-report.json").read_text())
    assert report["qualityGate"]["passed"] is False


def test_a_changed_product_is_refused(machine: User, smoke: str) -> None:
    product = machine.home / "jobs/smoke/artifacts/training-summary.json"
    before = product.read_bytes()
    product.write_bytes(before + b" ")
    try:
        said = machine.rlark("artifacts", "smoke", "verify", code=None)
        assert "training-summary.json" in said
        machine.rlark("artifacts", "smoke", "pull", "--to", machine.home / "copy", code=7)
    finally:
        product.write_bytes(before)


def test_what_get_prints_can_be_submitted_again(machine: User, smoke: str, tmp_path: Path) -> None:
    saved = tmp_path / "saved.yaml"
    saved.write_text(machine.rlark("get", "smoke", "-o", "yaml"))
    before = machine.status("smoke")
    machine.rlark("submit", saved)
    after = machine.status("smoke")
    assert after["digest"] == before["digest"]
    assert after["attempt"] == before["attempt"] + 1


def test_it_stands_in_every_list(machine: User, smoke: str) -> None:
    assert "smoke" in machine.rlark("jobs", "-q")
    assert [job["metadata"]["name"] for job in machine.json("jobs", "--phase", "Succeeded")["items"]] == ["smoke"]
    node = machine.json("nodes", "list")["nodes"][0]
    assert (node["gpus"], node["cpus"]) == (0, 4)
    assert machine.json("queue")["items"] == []


def test_another_body_under_its_name_is_a_conflict(machine: User, smoke: str) -> None:
    said = machine.rlark("submit", SMOKE, "--set", "spec.priority=3", code=7)
    assert "smoke" in said


def test_the_wrong_token_is_refused(machine: User, smoke: str) -> None:
    assert "token" in machine.rlark("jobs", "--token", "wrong", code=6)
