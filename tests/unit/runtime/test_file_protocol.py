from __future__ import annotations

from pathlib import Path

import pytest

from rlark.errors import UsageError
from rlark.evidence.manifest import read_manifest, write_manifest
from rlark.folder import JobFolder
from rlark.runtime.assignment import Assignment
from rlark.runtime.file_protocol import FOLDER, REQUEST, RESULT, Files, bystanders, clear

BOTH = {REQUEST: "/run/request.json", RESULT: "/run/result.json", FOLDER: "/run/my run"}


def test_the_variables_name_the_files():
    assert Files.find(BOTH) == Files(Path("/run/request.json"), Path("/run/result.json"), Path("/run/my run"))
    assert Files.find({}) is None
    assert Files.find({REQUEST: "", RESULT: ""}) is None


def test_without_a_folder_it_is_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    files = Files.find({REQUEST: "request.json", RESULT: "result.json"})
    assert files == Files(tmp_path / "request.json", tmp_path / "result.json", tmp_path)


@pytest.mark.parametrize(("given", "missing"), [(REQUEST, RESULT), (RESULT, REQUEST)])
def test_one_without_the_other_says_how_an_engine_is_started(given, missing):
    with pytest.raises(UsageError) as refused:
        Files.find({given: "/x"})
    assert str(refused.value).startswith(f"{missing} is not set, so it is unknown ")
    assert "by a training worker, which sets RDK_SIM2REAL_REQUEST_FILE and RDK_SIM2REAL_RESULT_FILE" in str(
        refused.value
    )


def test_a_request_alone_is_a_job_in_one_process():
    assignment = Assignment.find({**BOTH, "OMP_NUM_THREADS": "3"})
    assert (assignment.plan.job, assignment.plan.fused) == ("my-run", True)
    assert assignment.plan.env == {"OMP_NUM_THREADS": "3"}
    assert assignment.folder.artifacts == assignment.folder.root == Path("/run/my run")
    assert assignment.result == Path("/run/result.json")
    assert assignment.lease.cpus >= 1
    assert Assignment.find(BOTH).plan.env == {}


def test_a_request_within_a_job_has_the_jobs_plan_lease_and_folder(assign):
    job = assign(fused=True)
    found = Assignment.find({**BOTH, "RLARK_JOB_DIR": str(job.folder.root)})
    assert (found.folder, found.plan, found.lease) == (job.folder, job.plan, job.lease)
    assert found.result == Path("/run/result.json")
    assert Assignment.find({"RLARK_JOB_DIR": str(job.folder.root)}).result == job.folder.result


def write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    return JobFolder(tmp_path, flat=True)


def test_what_an_earlier_run_left_goes_and_what_is_somebody_elses_stays(folder, tmp_path: Path):
    others = {"request.json", "notes.txt", "data/episodes.jsonl", "checkpoints/mine.pt"}
    ours = {
        *("SHA256SUMS", "policy.onnx", "policy.onnx.rejected", "telemetry.jsonl", "metrics.jsonl", "failure.json"),
        *("checkpoints/global_step_2/actor.pkl", "checkpoints/iter-00002.npz"),
    }
    write(tmp_path, *others, *ours)
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  notes.txt\n")  # it may be a list of their own files
    clear(folder, None)
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == others


def test_a_checkpoint_that_is_continued_from_stays(folder, tmp_path: Path):
    write(tmp_path, "checkpoints/global_step_2/actor.pkl", "policy.onnx")
    clear(folder, tmp_path / "checkpoints" / "global_step_2")
    assert (tmp_path / "checkpoints" / "global_step_2" / "actor.pkl").exists()
    assert not (tmp_path / "policy.onnx").exists()


def test_what_lay_there_before_is_no_product(folder, tmp_path: Path):
    write(tmp_path, "request.json", "job.json", "data/large.bin", "checkpoints/global_step_1/actor.pkl")
    besides = bystanders(folder)
    write(tmp_path, "policy.onnx", "result.json", ".hidden", "checkpoints/global_step_2/actor.pkl")
    write_manifest(tmp_path, besides)
    assert [entry.path for entry in read_manifest(tmp_path)] == [
        "checkpoints/global_step_1/actor.pkl",
        "checkpoints/global_step_2/actor.pkl",
        "policy.onnx",
    ]
