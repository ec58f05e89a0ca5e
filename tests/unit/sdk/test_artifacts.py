from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from rlark.errors import ClusterError, NotFound, UsageError
from rlark.sdk.artifacts import Artifacts, inside, verify_folder
from rlark.sdk.transport import JOBS, Transport

FILES = {"policy.onnx": b"weights", "sub/report.json": b"{}"}


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def offer(api: Any, files: dict[str, bytes], *, listed: dict[str, bytes] | None = None) -> Artifacts:
    items = [{"path": p, "sha256": digest(d), "sizeBytes": len(d)} for p, d in (listed or files).items()]
    api.says(f"GET {JOBS}/demo/artifacts", {"files": items, "verified": True})
    manifest = {"SHA256SUMS": sums(listed or files)}
    for path, data in (manifest | files).items():
        api.says(f"GET {JOBS}/demo/artifacts/{path}", data, kind="application/octet-stream")
    return Artifacts(Transport(api.address), "demo")


def sums(files: dict[str, bytes]) -> bytes:
    return "".join(f"{digest(data)}  {path}\n" for path, data in files.items()).encode()


def test_pull_copies_compares_and_does_not_pull_twice(api: Any, tmp_path: Path) -> None:
    artifacts = offer(api, FILES)
    places = artifacts.pull(tmp_path / "out")
    assert [place.read_bytes() for place in places] == [b"weights", b"{}", sums(FILES)]
    before = len(api.asked)
    artifacts.pull(tmp_path / "out")
    again = [asked["route"] for asked in api.asked[before:]]
    assert again == [f"GET {JOBS}/demo/artifacts", f"GET {JOBS}/demo/artifacts/SHA256SUMS"]
    found = sorted(path.name for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert found == ["SHA256SUMS", "policy.onnx", "report.json"]


def test_pull_takes_some_files_only(api: Any, tmp_path: Path) -> None:
    artifacts = offer(api, FILES)
    assert [place.name for place in artifacts.pull(tmp_path, ["policy.onnx"])] == ["policy.onnx"]
    with pytest.raises(NotFound, match="no artifact 'x'"):
        artifacts.pull(tmp_path, ["x"])


def test_a_file_that_arrives_changed_is_refused_and_the_old_one_kept(api: Any, tmp_path: Path) -> None:
    (tmp_path / "policy.onnx").write_bytes(b"mine")
    artifacts = offer(api, {"policy.onnx": b"tampered"}, listed={"policy.onnx": b"weights"})
    with pytest.raises(ClusterError, match="listed is"):
        artifacts.pull(tmp_path)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("policy.onnx", b"mine")]


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../x", "."])
def test_no_file_leaves_the_folder(tmp_path: Path, path: str) -> None:
    with pytest.raises(UsageError, match="outside"):
        inside(tmp_path / "out", path)


def test_verify_pulls_and_proves(api: Any) -> None:
    assert offer(api, FILES).verify().verified is True


def test_verify_finds_what_the_platform_does_not_say(api: Any) -> None:
    changed = FILES | {"policy.onnx": b"other"}
    report = offer(api, changed | {"SHA256SUMS": sums(FILES)}).verify()
    assert (report.verified, report.code) == (False, "artifact_manifest_mismatch")
    assert "policy.onnx" in report.detail


def test_a_pulled_folder_is_verified_offline(tmp_path: Path) -> None:
    for path, data in FILES.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(data)
    with pytest.raises(NotFound, match="holds no SHA256SUMS"):
        verify_folder(tmp_path)
    (tmp_path / "SHA256SUMS").write_bytes(sums(FILES))
    assert verify_folder(tmp_path).verified is True
    (tmp_path / "policy.onnx").write_bytes(b"Weights")
    assert verify_folder(tmp_path).verified is False
    with pytest.raises(NotFound, match="there is no folder"):
        verify_folder(tmp_path / "no")


def test_what_the_platform_itself_finds_changed_is_not_pulled(api: Any) -> None:
    broken = {"files": [], "verified": False, "code": "artifact_manifest_mismatch", "detail": "policy.onnx was changed"}
    api.says(f"GET {JOBS}/demo/artifacts", broken)
    report = Artifacts(Transport(api.address), "demo").verify()
    assert (report.verified, report.detail) == (False, "policy.onnx was changed")
    assert len(api.asked) == 1
