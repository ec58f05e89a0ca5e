from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from rlark.evidence.manifest import NAME, verify_manifest, write_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "policy.onnx").write_bytes(b"onnx-fixture")
    (tmp_path / "eval-report.json").write_text("{}")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "iter-00001.npz").write_bytes(b"weights")
    return tmp_path


def lines(folder: Path, *texts: str) -> None:
    (folder / NAME).write_bytes("".join(f"{text}\n" for text in texts).encode())


def line(path: str, data: bytes = b"onnx-fixture") -> str:
    return f"{hashlib.sha256(data).hexdigest()}  {path}"


def test_lists_every_product_sorted_and_verifies(folder):
    (folder / "result.json").write_text("{}")
    (folder / ".hidden").write_text("")
    entries = write_manifest(folder)
    assert [entry.path for entry in entries] == ["checkpoints/iter-00001.npz", "eval-report.json", "policy.onnx"]
    assert (folder / NAME).read_text().splitlines()[-1] == line("policy.onnx")
    report = verify_manifest(folder)
    assert (report.verified, report.code) == (True, "artifact_manifest_verified")
    assert report.files == [entry.path for entry in entries]


def test_is_what_sha256sum_reads(folder):
    write_manifest(folder)
    assert os.system(f"cd {folder} && sha256sum --quiet --check {NAME}") == 0


def test_a_changed_file_is_found(folder):
    write_manifest(folder)
    (folder / "policy.onnx").write_bytes(b"onnx-fixturf")
    report = verify_manifest(folder)
    assert (report.verified, report.code) == (False, "artifact_manifest_mismatch")
    assert "policy.onnx" in report.detail


def test_a_missing_file_is_found(folder):
    write_manifest(folder)
    (folder / "checkpoints" / "iter-00001.npz").unlink()
    assert verify_manifest(folder).code == "artifact_manifest_file_missing"


def test_an_added_file_is_found_unless_foreign(folder):
    write_manifest(folder)
    (folder / "later.bin").write_bytes(b"x")
    assert verify_manifest(folder).code == "artifact_manifest_incomplete"
    assert verify_manifest(folder, complete=False).verified


def test_no_manifest(folder):
    assert verify_manifest(folder).code == "artifact_manifest_missing"


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_an_empty_manifest(folder, text):
    (folder / NAME).write_text(text)
    assert verify_manifest(folder).code == "artifact_manifest_empty"


@pytest.mark.parametrize(
    "bad",
    [
        "zz  x",
        line("../policy.onnx"),
        line("checkpoints/../policy.onnx"),
        line("/etc/passwd"),
        line("a\\b"),
        line("./policy.onnx"),
        line("checkpoints//iter-00001.npz"),
        line("x" * 121),
        line("policy.onnx").replace("  ", " *"),
        line("policy.onnx").replace("  ", " "),
        line("policy.onnx").upper(),
        line("policy.onnx") + "\r",
        line("poli\tcy.onnx"),
    ],
)
def test_malformed_lines(folder, bad):
    lines(folder, line("policy.onnx"), bad)
    assert verify_manifest(folder, complete=False).code == "artifact_manifest_malformed"


def test_the_same_file_twice_is_malformed(folder):
    lines(folder, line("policy.onnx"), line("policy.onnx"))
    assert verify_manifest(folder, complete=False).code == "artifact_manifest_malformed"


def test_a_name_of_120_characters_is_allowed(folder):
    (folder / ("x" * 120)).write_bytes(b"")
    write_manifest(folder)
    assert verify_manifest(folder).verified


def test_a_name_of_121_characters_cannot_be_listed(folder):
    (folder / ("x" * 121)).write_bytes(b"")
    with pytest.raises(ValueError, match="1-120"):
        write_manifest(folder)


def test_links_and_pipes_are_no_products(folder):
    outside = folder.parent / "outside.bin"
    outside.write_bytes(b"onnx-fixture")
    (folder / "policy.onnx").unlink()
    (folder / "policy.onnx").symlink_to(outside)
    lines(folder, line("policy.onnx"))
    assert verify_manifest(folder, complete=False).code == "artifact_manifest_file_invalid"
    with pytest.raises(ValueError, match="no regular file"):
        write_manifest(folder)
    (folder / "policy.onnx").unlink()
    os.mkfifo(folder / "policy.onnx")
    assert verify_manifest(folder, complete=False).code == "artifact_manifest_file_invalid"


def test_a_linked_folder_does_not_lead_out(folder):
    outside = folder.parent / "elsewhere"
    outside.mkdir()
    (outside / "a.bin").write_bytes(b"onnx-fixture")
    (folder / "linked").symlink_to(outside)
    lines(folder, line("linked/a.bin"))
    assert verify_manifest(folder, complete=False).code == "artifact_manifest_file_invalid"


def test_a_linked_manifest_is_malformed(folder):
    write_manifest(folder)
    (folder / NAME).rename(folder / "other")
    (folder / NAME).symlink_to(folder / "other")
    assert verify_manifest(folder, complete=False).code == "artifact_manifest_malformed"


def test_a_folder_without_products_proves_nothing(tmp_path):
    with pytest.raises(ValueError, match="no product"):
        write_manifest(tmp_path)
