from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlark.evidence.manifest import write_manifest
from rlark.testing import FakeWorker


def makes_products(worker: FakeWorker) -> None:
    worker.begin()
    (worker.folder.artifacts / "policy.onnx").write_bytes(b"weights")
    (worker.folder.artifacts / "reports").mkdir()
    (worker.folder.artifacts / "reports" / "eval.json").write_text("{}", encoding="utf-8")
    write_manifest(worker.folder.artifacts)
    worker.finish(verified=True)


@pytest.fixture
def made(rlark: Any, platform: Any) -> Path:
    """A Job that made something; gives its artifacts on the platform."""
    platform.cluster.script = makes_products
    assert rlark("submit", "-d", platform.write_job()).code == 0
    platform.tick()
    return platform.home.job("demo").artifacts


def test_list(rlark: Any, made: Path) -> None:
    rows = rlark("artifacts", "demo").rows
    assert rows[0] == ["PATH", "BYTES", "SHA256"]
    assert [row[:2] for row in rows[1:]] == [["policy.onnx", "7"], ["reports/eval.json", "2"]]
    listing = rlark("artifacts", "demo", "list", "-o", "json").json
    assert listing["verified"] is True
    assert rlark("artifacts", "demo", "-q").out == "policy.onnx\nreports/eval.json\n"


def test_pull_and_verify_offline(rlark: Any, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = rlark("artifacts", "demo", "pull")
    assert result.code == 0
    assert "3 files in demo" in result.err
    assert Path("demo/reports/eval.json").read_text() == "{}"
    monkeypatch.setenv("RLARK_ADDRESS", "http://127.0.0.1:9")
    offline = rlark("artifacts", "./demo", "verify")
    assert (offline.code, offline.rows[0]) == (0, ["verified", "yes"])
    Path("demo/policy.onnx").write_bytes(b"Weights")
    changed = rlark("artifacts", "./demo", "verify", "-o", "json")
    assert changed.code == 100
    assert changed.json["code"] == "artifact_manifest_mismatch"
    assert "NOT verified" in changed.err
    assert rlark("artifacts", "demo", "verify").code == 5


def test_pull_some_into_a_folder(rlark: Any, made: Path) -> None:
    assert rlark("artifacts", "demo", "pull", "policy.onnx", "--to", "out/deep", "-q").out == "out/deep/policy.onnx\n"
    assert [path.name for path in Path("out/deep").iterdir()] == ["policy.onnx"]
    assert rlark("artifacts", "demo", "pull", "nothing").code == 102


def test_verify_on_the_platform(rlark: Any, made: Path) -> None:
    assert rlark("artifacts", "demo", "verify").code == 0
    (made / "policy.onnx").write_bytes(b"Weights")
    result = rlark("artifacts", "demo", "verify")
    assert result.code == 100
    assert "policy.onnx was changed" in result.out
    assert rlark("artifacts", "demo", "pull", "--to", "out").code == 7


def test_a_job_that_made_nothing(rlark: Any, platform: Any) -> None:
    rlark("submit", "-d", platform.write_job())
    listing = rlark("artifacts", "demo")
    assert (listing.code, listing.out) == (0, "PATH\tBYTES\tSHA256\n")
    assert "has made nothing yet" in listing.err
    assert rlark("artifacts", "demo", "verify").code == 100
    assert "0 files" in rlark("artifacts", "demo", "pull").err


def test_a_folder_is_only_verified(rlark: Any) -> None:
    assert rlark("artifacts", "./demo", "pull").code == 102
    assert "there is no folder" in rlark("artifacts", "./demo", "verify").err
