from __future__ import annotations

import contextlib
import io
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from engines.ppo.policy import NetShape
from engines.ppo.trained import Trained
from engines.starter_ppo import exporting
from engines.starter_ppo.components import PROGRAM
from engines.starter_ppo.selection import Candidate, best
from rlark.evidence import manifest, onnx_file
from rlark.evidence.export_gate import ExportGate
from rlark.evidence.onnx_policy import OnnxPolicy
from rlark.evidence.verify import verify
from rlark.folder import write_json

PRODUCTS = {
    "policy.onnx",
    "training-summary.json",
    "eval-report.json",
    "parity.json",
    "telemetry.jsonl",
    "baseline-telemetry.jsonl",
}


def read(run, name: str) -> dict:
    return json.loads((run.folder.artifacts / name).read_text())


def products(run) -> set[str]:
    return set(manifest.products(run.folder.artifacts))


@pytest.fixture
def run(make_config, trained):
    return trained(make_config())


@pytest.fixture(scope="module")
def exported(make_config, trained):
    """One short run with its result and what it told; only looked at."""
    run, told = trained(make_config()), io.StringIO()
    with contextlib.redirect_stdout(told):
        result = PROGRAM.export(make_config(), run)
    return run, result, told.getvalue()


def test_a_short_run_gives_every_product_and_fails_the_gate_honestly(exported):
    run, result, told = exported
    chosen = f"checkpoints/{result.checkpoint.checkpoint_id}.npz"
    assert products(run) == PRODUCTS | {chosen}
    assert result.metrics["qualityGatePassed"] is False
    assert result.metrics["evalEpisodes"] == 30
    assert (result.cuda, result.deployable, result.seed) == (False, False, 7)
    assert result.artifact.artifact_ref.startswith("artifact://starter/goalnav/")
    manifest.write_manifest(run.folder.artifacts)
    write_json(run.folder.result, result.to_json())
    verdict = verify(run.folder.root, started_at=None, outputs=[], evidence=True, gate=False)
    assert (verdict.verified, verdict.quality_gate_passed) == (True, False)
    assert "heading controller:" in told
    assert "quality gate: failed" in told


def test_the_summary_says_how_it_was_trained(exported):
    run, _, _ = exported
    summary = read(run, "training-summary.json")
    assert len(summary["rewardCurve"]) == len(summary["successCurve"]) == summary["iterations"] == 2
    assert (summary["engine"], summary["task"], summary["seed"]) == ("starter-ppo", "navigation-for-tests", 7)
    assert (summary["device"], summary["cudaRequested"]) == ("cpu", False)
    assert summary["deviceName"]
    assert summary["deviceReason"].startswith("auto: cpu, since ")
    assert summary["numerics"] == {"tf32": False, "deterministic": True}
    assert (summary["measurementStage"], summary["onnxExported"], summary["threads"]) == ("host-onnx", True, 1)
    assert summary["controlLatencyMs"] > 0
    assert summary["onnxExportGate"]["verdict"] == "passed"
    assert summary["curriculum"]["initial"] == [0.8, 1.2]
    assert [found["iteration"] for found in summary["checkpoints"]] == [1, 2]
    assert sum(found["selected"] for found in summary["checkpoints"]) == 1
    assert "profile" in summary


def test_the_report_compares_three_policies_on_the_same_episodes(exported):
    run, _, _ = exported
    report = read(run, "eval-report.json")
    for who in ("trained", "baseline", "headingController"):
        assert set(report[who]) == {"nominal", "hard"}
        assert report[who]["nominal"]["episodes"] == 30
    assert report["headingController"]["nominal"]["successRate"] > 0.8
    assert report["baseline"]["nominal"]["successRate"] == 0.0
    assert report["qualityGate"]["passed"] is False


def test_the_exported_policy_is_the_checkpoint(exported):
    run, _, _ = exported
    parity = read(run, "parity.json")
    assert parity["verdict"] == "pass"
    assert parity["parityMaxAbsError"] < parity["atol"] == 1e-6
    assert parity["roundingMaxAbsError"] < 1e-6
    policy = OnnxPolicy(run.folder.artifacts / "policy.onnx")
    assert np.abs(policy(np.full((3, 8), 1e4, np.float32))).max() <= 1.0


def test_telemetry_has_a_row_a_step(exported):
    run, result, _ = exported
    rows = [json.loads(line) for line in (run.folder.artifacts / "telemetry.jsonl").read_text().splitlines()]
    assert len(rows) == result.metrics["telemetrySamples"]
    assert set(rows[0]) == {"t", "observation", "action", "reward", "done", "fall"}
    assert (len(rows[0]["observation"]), len(rows[0]["action"])) == (8, 2)
    assert rows[-1]["done"] is True


def test_the_same_seed_gives_the_same_bytes_and_metrics(make_config, trained):
    config = make_config()
    found = []
    for _ in range(2):
        run = trained(config, "twice")
        result = PROGRAM.export(config, run)
        metrics = {name: value for name, value in result.metrics.items() if name != "controlLatencyMs"}
        same = ("policy.onnx", "telemetry.jsonl", "parity.json", f"checkpoints/{result.checkpoint.checkpoint_id}.npz")
        found.append((metrics, result.config_digest, [(run.folder.artifacts / name).read_bytes() for name in same]))
    assert found[0] == found[1]
    other = make_config(algorithm={"seed": 8})
    again = trained(other, "other")
    PROGRAM.export(other, again)
    assert (again.folder.artifacts / "policy.onnx").read_bytes() != found[0][2][0]


def test_the_best_of_the_last_checkpoints_is_exported(make_config, trained, monkeypatch):
    config = make_config(runner={"max_epochs": 6})
    run = trained(config)
    seen = []

    def scripted(iteration, policy, pack, episodes, seed):
        seen.append((iteration, episodes, seed))
        return Candidate(iteration, policy, episodes, int(iteration == 4), 0, 0)

    monkeypatch.setattr("engines.starter_ppo.selection._probe", scripted)
    result = PROGRAM.export(config, run)
    assert seen == [(iteration, 4, 2007) for iteration in (3, 4, 5, 6)]
    assert (result.checkpoint.iteration, result.checkpoint.checkpoint_id) == (4, "iter-00004")
    assert (result.checkpoint.saved_checkpoints, result.checkpoint.selected_iteration) == (6, 4)
    assert result.checkpoint.selected_by_probe is True


@pytest.mark.parametrize(
    ("found", "chosen"),
    [
        ([(990, 800, 5), (985, 850, 9)], 1),  # successes of both envelopes count first
        ([(990, 800, 5), (985, 805, 6)], 0),  # then fewer collisions
        ([(990, 800, 5), (990, 800, 4)], 1),  # then fewer collisions
        ([(990, 800, 5), (990, 800, 5)], 1),  # then the later one
        ([(0, 0, 0)], 0),
    ],
)
def test_what_is_best(found, chosen):
    tried = [Candidate(index, None, 1000, *counts) for index, counts in enumerate(found)]
    assert best(tried).iteration == chosen


def test_a_file_that_fails_the_probes_is_withheld(make_config, run, monkeypatch, caplog):
    failed = ExportGate(verdict="failed", checks={"sensitivity": False}, reasons=["constant"])
    monkeypatch.setattr("engines.starter_ppo.exporting.examine", lambda *_: failed)
    result = PROGRAM.export(make_config(), run)
    assert "policy.onnx.rejected" in products(run)
    assert "policy.onnx" not in products(run)
    assert (result.artifact.format, result.metrics["onnxExported"]) == ("unknown", False)
    assert result.metrics["measurementStage"] == "host-torch"
    assert "policy.onnx is withheld" in caplog.text


def test_without_onnx_the_run_still_ends_well(make_config, run, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "rlark.evidence.onnx_file", raising=False)
    monkeypatch.delattr("rlark.evidence.onnx_file", raising=False)
    result = PROGRAM.export(make_config(), run)
    assert "policy.onnx" not in products(run)
    assert (result.artifact.format, result.metrics["onnxExported"]) == ("unknown", False)
    assert result.metrics["measurementStage"] == "host-torch"
    assert result.metrics["controlLatencyMs"] > 0
    assert read(run, "parity.json")["verdict"] == "skipped"
    assert "onnx is missing" in caplog.text


def test_where_torch_is_timed_it_has_one_thread(monkeypatch):
    threads = []
    monkeypatch.setattr(exporting, "control_latency_ms", lambda *_: threads.append(torch.get_num_threads()) or 0.5)
    torch.set_num_threads(2)  # as a run with large minibatches
    try:
        exporting._torch_latency_ms(Trained.untrained(NetShape(8, 2, (4,), shared=True), 0, -0.7))
        assert (threads, torch.get_num_threads()) == ([1], 2)
    finally:
        torch.set_num_threads(1)


def test_a_file_that_differs_from_its_checkpoint_is_withheld(make_config, run, monkeypatch):
    write = onnx_file.write_onnx

    def wrong(path, network, *, producer):
        weight, bias = network.layers[-1]
        layers = [*network.layers[:-1], (weight + np.float32(1e-4), bias)]
        write(path, replace(network, layers=layers), producer=producer)

    monkeypatch.setattr(onnx_file, "write_onnx", wrong)
    result = PROGRAM.export(make_config(), run)
    assert "policy.onnx.rejected" in products(run)
    assert "policy.onnx" not in products(run)
    assert (read(run, "parity.json")["verdict"], result.metrics["onnxExported"]) == ("failed", False)


def test_without_a_runtime_the_file_is_kept_and_called_unproven(make_config, run, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.delitem(sys.modules, "rlark.evidence.onnx_policy")
    result = PROGRAM.export(make_config(), run)
    assert "policy.onnx" in products(run)
    assert (result.artifact.format, result.metrics["onnxExported"]) == ("onnx", True)
    assert (result.metrics["onnxGate"], read(run, "parity.json")["verdict"]) == ("skipped", "skipped")
    assert result.metrics["measurementStage"] == "host-torch"
    assert "not proven" in caplog.text


def test_wider_layouts_and_history_are_exported_too(make_config, trained):
    config = make_config(pack={"layout": "imu-gravity-v1", "frames": 2})
    run = trained(config)
    result = PROGRAM.export(config, run)
    assert result.metrics["observationSize"] == 84
    assert read(run, "parity.json")["obsDim"] == 84
