"""Products: listed, hashed again before they are served, and nothing else reachable."""

from __future__ import annotations

import os

import pytest

from rlark.evidence.manifest import write_manifest
from rlark.testing import job_text

from .conftest import JOBS, problem

URL = f"{JOBS}/demo/artifacts"


@pytest.fixture
def made(api):
    api.controller.submit(job_text())
    root = api.folder().artifacts
    (root / "checkpoints").mkdir()
    (root / "policy.onnx").write_bytes(b"\x00onnx" * 1000)
    (root / "checkpoints" / "a b.bin").write_bytes(b"weights")
    write_manifest(root)
    api.cluster.worker("demo").finish(verified=True)
    api.tick()
    return root


def test_the_list(api, made):
    body = api.get(URL).json()
    assert [file["path"] for file in body["files"]] == ["checkpoints/a b.bin", "policy.onnx"]
    assert body["files"][1]["sizeBytes"] == 5000
    assert len(body["files"][1]["sha256"]) == 64
    assert body["verified"] is True


def test_a_download(api, made):
    answer = api.get(f"{URL}/policy.onnx")
    assert answer.content == b"\x00onnx" * 1000
    assert answer.headers["content-length"] == "5000"
    assert answer.headers["etag"].strip('"') == api.get(URL).json()["files"][1]["sha256"]
    assert api.get(f"{URL}/checkpoints/a%20b.bin").content == b"weights"
    assert b"policy.onnx" in api.get(f"{URL}/SHA256SUMS").content


def test_a_changed_file_is_refused(api, made):
    (made / "policy.onnx").write_bytes(b"\x00onnx" * 999 + b"evil!")
    body = problem(api.get(f"{URL}/policy.onnx"), 409, "artifact_checksum_mismatch")
    assert body["details"]["path"] == "policy.onnx"
    assert body["exitCode"] == 7
    listing = api.get(URL).json()
    assert (listing["verified"], listing["code"]) == (False, "artifact_manifest_mismatch")
    assert len(listing["files"]) == 2


def test_a_missing_file_and_a_link_are_refused(api, made):
    (made / "policy.onnx").unlink()
    problem(api.get(f"{URL}/policy.onnx"), 404, "artifact_manifest_file_missing")
    (made / "policy.onnx").symlink_to("/etc/passwd")
    problem(api.get(f"{URL}/policy.onnx"), 409, "artifact_manifest_file_invalid")
    (made / "policy.onnx").unlink()
    os.mkfifo(made / "policy.onnx")
    problem(api.get(f"{URL}/policy.onnx"), 409, "artifact_manifest_file_invalid")


def test_a_folder_that_became_a_link_is_refused(api, made, tmp_path):
    (made / "checkpoints").rename(tmp_path / "moved")
    (made / "checkpoints").symlink_to(tmp_path / "moved")
    problem(api.get(f"{URL}/checkpoints/a%20b.bin"), 409, "artifact_manifest_file_invalid")


@pytest.mark.parametrize(
    "path",
    [
        "../job.yaml",
        "..%2fjob.yaml",
        "%2e%2e/job.yaml",
        "checkpoints%2f..%2fpolicy.onnx",
        "//etc/passwd",
        "%2fetc%2fpasswd",
        "policy.onnx%00",
        "",
        "checkpoints",
        "x" * 5000,
    ],
)
def test_nothing_else_can_be_reached(api, made, path):
    answer = api.get(f"{URL}/{path}")
    assert answer.status_code == 404, answer.text
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "artifact_manifest_empty"),
        ("x\n", "artifact_manifest_malformed"),
        (f"{'0' * 64}  ../job.yaml\n", "artifact_manifest_malformed"),
    ],
)
def test_a_manifest_that_breaks_the_rules_serves_nothing(api, made, text, code):
    (made / "SHA256SUMS").write_text(text)
    assert api.get(URL).json()["code"] == code
    for path in ("policy.onnx", "../job.yaml", "SHA256SUMS"):
        assert api.get(f"{URL}/{path}").status_code in (404, 409)


def test_before_anything_was_made(api):
    api.controller.submit(job_text())
    assert api.get(URL).json()["files"] == []
    problem(api.get(f"{URL}/policy.onnx"), 404, "artifact_manifest_missing")
    api.controller.submit(job_text("waits", stopped=True))
    body = api.get(f"{JOBS}/waits/artifacts").json()
    assert (body["files"], body["verified"]) == ([], False)
    problem(api.get(f"{JOBS}/nothing/artifacts"), 404, "not_found")
