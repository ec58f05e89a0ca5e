from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rlark.evidence.manifest import write_manifest
from rlark.evidence.verify import verify
from rlark.host.view import Bind, View
from rlark.plan.plan import Output

RESULT = {
    "checkpoint": {"checkpointId": "cp-1", "artifactRef": "artifact://microduck/cp-1", "iteration": 4},
    "artifact": {"artifactId": "a1", "artifactRef": "artifact://microduck/policy.onnx"},
    "metrics": {"qualityGatePassed": True},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    artifacts = tmp_path / "artifacts"
    artifacts.mkdir()
    (artifacts / "policy.onnx").write_bytes(b"onnx-fixture")
    write_manifest(artifacts)
    write(tmp_path, RESULT)
    return tmp_path


def write(folder: Path, result: Any) -> None:
    (folder / "result.json").write_text(json.dumps(result))


def judged(folder: Path, **given: Any) -> Any:
    asked = {"started_at": None, "outputs": [], "evidence": True, "gate": False, **given}
    return verify(folder, **asked)


def codes(folder: Path, **given: Any) -> list[str]:
    return [check.code for check in judged(folder, **given).failed]


def test_everything_holds(folder):
    verdict = judged(folder, gate=True, signal_expected=True, signal_seen=True, outputs=[Output(path="policy.onnx")])
    assert verdict.verified is True
    assert verdict.quality_gate_passed is True
    names = [check.name for check in verdict.checks]
    assert names == ["result", "manifest", "output policy.onnx", "first signal", "quality gate"]


def test_nothing_expected_is_neither_verified_nor_not(folder):
    verdict = judged(folder, evidence=False)
    assert (verdict.verified, verdict.checks) == (None, [])
    assert verdict.quality_gate_passed is True


def test_a_result_is_asked_for(folder):
    (folder / "result.json").unlink()
    verdict = judged(folder)
    assert verdict.verified is False
    assert [check.code for check in verdict.failed] == ["training_result_missing"]


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        '"x"',
        "{}",
        json.dumps({**RESULT, "metrics": {"reward": float("nan")}}),
        json.dumps({**RESULT, "metrics": {"reward": float("-inf")}}),
        json.dumps({**RESULT, "metrics": {"reward": 0.5}}).replace("0.5", "1e999"),
        json.dumps({**RESULT, "padding": "x" * 1_100_000}),
        json.dumps({"checkpoint": {"artifactRef": "http://x"}, "artifact": "artifact://a"}),
        '{"a":' * 100_000,
    ],
    ids=["list", "broken", "text", "empty", "nan", "inf", "overflow", "large", "reference", "deep"],
)
def test_what_is_no_result(folder, text):
    (folder / "result.json").write_text(text)
    assert codes(folder) == ["training_result_missing"]


def test_a_linked_result_or_a_pipe_is_none(folder):
    (folder / "result.json").rename(folder / "real.json")
    (folder / "result.json").symlink_to(folder / "real.json")
    assert codes(folder) == ["training_result_missing"]
    (folder / "result.json").unlink()
    os.mkfifo(folder / "result.json")
    assert codes(folder) == ["training_result_missing"]


def test_one_valid_reference_is_enough(folder):
    write(folder, {"artifact": {"ref": "artifact://starter/m/1.0.0/policy.onnx"}})
    assert judged(folder).verified is True


def test_a_tampered_product_fails_with_the_manifests_code(folder):
    (folder / "artifacts" / "policy.onnx").write_bytes(b"x")
    assert codes(folder) == ["artifact_manifest_mismatch"]


def test_a_missing_manifest_fails(folder):
    (folder / "artifacts" / "SHA256SUMS").unlink()
    assert codes(folder) == ["artifact_manifest_missing"]


def test_the_result_must_not_contradict_the_report(folder):
    (folder / "artifacts" / "eval-report.json").write_text(json.dumps({"qualityGate": {"passed": False}}))
    write_manifest(folder / "artifacts")
    verdict = judged(folder, gate=True)
    assert [check.code for check in verdict.failed] == ["result_contradicts_report", "quality_gate_missing"]
    assert verdict.quality_gate_passed is None


def test_the_gate_counts_only_where_asked(folder):
    write(folder, {**RESULT, "metrics": {"qualityGatePassed": False}})
    assert judged(folder).verified is True
    assert judged(folder).quality_gate_passed is False
    assert codes(folder, gate=True) == ["quality_gate_failed"]
    write(folder, {**RESULT, "metrics": {}})
    assert codes(folder, gate=True) == ["quality_gate_missing"]


@pytest.mark.parametrize("seen", [False, None])
def test_a_stated_signal_must_come(folder, seen):
    assert codes(folder, signal_expected=True, signal_seen=seen) == ["signal_not_seen"]
    assert codes(folder, signal_expected=False, signal_seen=seen) == []


class TestOutputs:
    def wanted(self, folder: Path, path: str, started_at: datetime | None = None, min_bytes: int = 1) -> list[str]:
        outputs = [Output(path=path, min_bytes=min_bytes)]
        return codes(folder, evidence=False, started_at=started_at, outputs=outputs)

    def test_missing(self, folder):
        assert self.wanted(folder, "nothing.bin") == ["output_missing"]
        assert self.wanted(folder, "*.pt") == ["output_missing"]

    def test_what_cannot_be_looked_at(self, folder):
        assert self.wanted(folder, "x" * 300) == ["output_unreadable"]

    def test_a_folder_is_no_output(self, folder):
        (folder / "artifacts" / "sub").mkdir()
        assert self.wanted(folder, "sub") == ["output_missing"]

    def test_too_small(self, folder):
        assert self.wanted(folder, "policy.onnx", min_bytes=13) == ["output_too_small"]
        assert self.wanted(folder, "policy.onnx", min_bytes=12) == []

    def test_must_be_newer_than_the_start(self, folder):
        written = datetime.fromtimestamp((folder / "artifacts" / "policy.onnx").stat().st_mtime, UTC)
        assert self.wanted(folder, "policy.onnx", written - timedelta(seconds=1)) == []
        assert self.wanted(folder, "policy.onnx", written + timedelta(seconds=1)) == ["output_stale"]

    def test_globs_and_absolute_paths(self, folder):
        assert self.wanted(folder, "*.onnx") == []
        assert self.wanted(folder, "**/*.onnx") == []
        assert self.wanted(folder, str(folder / "artifacts" / "pol*")) == []
        assert self.wanted(folder, str(folder / "result.json")) == []

    def test_a_name_with_glob_characters(self, folder):
        (folder / "artifacts" / "a[1].bin").write_bytes(b"x")
        assert self.wanted(folder, "a[1].bin") == []

    def test_the_proof_names_size_and_hash(self, folder):
        verdict = judged(folder, evidence=False, outputs=[Output(path="policy.onnx")])
        assert "12 bytes, SHA-256 " in verdict.checks[0].message


def test_stays_light():
    code = (
        "import sys, rlark.evidence.verify, rlark.evidence.manifest, rlark.evidence.gate, rlark.evidence.intervals;"
        "assert not {'onnx', 'onnxruntime', 'torch', 'numpy', 'ray'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.fixture
def mounted(tmp_path: Path) -> Path:
    """A folder that the run sees at /mnt/out."""
    real = tmp_path / "volumes" / "out"
    real.mkdir(parents=True)
    return real


def outputs(folder: Path, real: Path, path: str, **given: Any) -> Any:
    view = View([Bind(str(real), "/mnt/out")])
    return judged(folder, evidence=False, view=view, outputs=[Output(path=path)], **given).checks[0]


def test_an_absolute_output_is_looked_up_where_the_run_saw_it(folder, mounted):
    (mounted / "policy.pt").write_bytes(b"weights")
    check = outputs(folder, mounted, "/mnt/out/policy.pt", started_at=datetime.now(UTC))
    assert check.ok
    assert check.name == "output /mnt/out/policy.pt"
    assert check.message == f"policy.pt: 7 bytes, SHA-256 {hashlib.sha256(b'weights').hexdigest()}"


def test_a_missing_output_is_named_as_it_was_written_and_where_it_was_looked_for(folder, mounted):
    check = outputs(folder, mounted, "/mnt/out/run/policy.pt")
    assert (check.ok, check.code) == (False, "output_missing")
    assert check.message == f"no file /mnt/out/run/policy.pt (on this node: {mounted}/run/policy.pt)"


@pytest.mark.parametrize("pattern", ["/mnt/out/**/*.pt", "/mnt/*/step-?/p*.pt", "/mnt/out/step-[0-9]/policy.pt"])
def test_globs_are_taken_as_the_run_sees_them(folder, mounted, pattern):
    for step in "12":
        (mounted / f"step-{step}").mkdir()
        (mounted / f"step-{step}" / "policy.pt").write_bytes(b"weights")
    check = outputs(folder, mounted, pattern)
    assert check.ok
    assert check.message.count("policy.pt: 7 bytes") == 2


def test_links_of_the_run_lead_where_they_lead_the_run(folder, mounted):
    (mounted / "policy.pt").write_bytes(b"weights")
    (mounted / "latest.pt").symlink_to("/mnt/out/policy.pt")
    assert outputs(folder, mounted, "/mnt/out/latest.pt").ok


def test_a_file_of_the_node_under_the_mount_point_proves_nothing(folder, tmp_path):
    point, real = tmp_path / "point", tmp_path / "real"
    for place in (point, real):
        place.mkdir()
    (point / "policy.pt").write_bytes(b"somebody else's")
    view = View([Bind(str(real), str(point))])
    asked = Output(path=f"{point}/policy.pt")
    assert codes(folder, evidence=False, view=view, outputs=[asked]) == ["output_missing"]


def test_an_old_output_under_a_mount_is_stale(folder, mounted):
    (mounted / "policy.pt").write_bytes(b"weights")
    check = outputs(folder, mounted, "/mnt/out/policy.pt", started_at=datetime.now(UTC) + timedelta(hours=1))
    assert check.code == "output_stale"


def test_links_in_a_circle_are_told_and_are_no_output(folder, mounted):
    (mounted / "policy.pt").symlink_to("policy.pt")
    check = outputs(folder, mounted, "/mnt/out/policy.pt")
    assert check.code == "output_unreadable"
    assert "symbolic links" in check.message
