from __future__ import annotations

from pathlib import Path

import pytest

from rlark.folder import JobFolder
from rlark.plan.plan import Plan, PlannedMount
from rlark.worker.clear import clear, last_checkpoint


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    found = JobFolder(tmp_path / "demo")
    found.create()
    for path in (found.ranks, found.failure, found.result, found.metrics, found.environment, found.reports, found.plan):
        path.write_text("old")
    made = (
        found.artifacts,
        found.checkpoints / "global_step_3",
        found.tensorboard,
        found.logs(1),
        found.work,
        found.head,
    )
    for path in made:
        path.mkdir(parents=True, exist_ok=True)
        (path / "old").write_text("old")
    return found


def remains(folder: JobFolder) -> set[str]:
    return {str(path.relative_to(folder.root)) for path in folder.root.rglob("*") if path.is_file()}


def test_what_the_run_of_an_earlier_attempt_wrote_goes(folder: JobFolder):
    clear(folder, Plan(job="demo", node="box"))
    assert remains(folder) == {"worker.jsonl", "plan.json", "logs/attempt-1/old", "work/old"}
    assert folder.artifacts.is_dir()
    assert folder.checkpoints.is_dir()


@pytest.mark.parametrize("chosen", ["checkpoints", "checkpoints/global_step_3"])
def test_checkpoints_that_the_run_continues_from_stay(folder: JobFolder, chosen: str):
    plan = Plan(job="demo", node="box", config={"runner": {"resume_dir": chosen}}, config_base=str(folder.root))
    clear(folder, plan)
    assert "checkpoints/global_step_3/old" in remains(folder)
    assert "artifacts/old" not in remains(folder)


def test_an_attempt_after_a_failed_one_keeps_checkpoints_and_metrics_and_no_product(folder: JobFolder):
    clear(folder, Plan(job="demo", node="box", engine="toy"), goes_on=True)
    assert {"checkpoints/global_step_3/old", folder.metrics.name} <= remains(folder)
    assert not {"artifacts/old", "failure.json", "result.json"} & remains(folder)


@pytest.mark.parametrize(("engine", "found"), [("toy", "global_step_12"), ("", "")], ids=["engine", "script"])
def test_only_an_engine_has_a_newest_checkpoint(folder: JobFolder, engine, found):
    (folder.checkpoints / "global_step_12").mkdir()
    assert last_checkpoint(folder, Plan(job="demo", node="box", engine=engine)) == found


def test_before_the_first_checkpoint_there_is_none(tmp_path: Path):
    empty = JobFolder(tmp_path / "empty")
    empty.create()
    assert last_checkpoint(empty, Plan(job="demo", node="box", engine="toy")) == ""


def test_checkpoints_that_the_run_sees_by_a_mount_stay(folder: JobFolder):
    plan = Plan(
        job="demo",
        node="box",
        config={"runner": {"resume_dir": "/mnt/before/global_step_3"}},
        mounts=[PlannedMount(path="/mnt/before", host=str(folder.checkpoints))],
    )
    clear(folder, plan)
    assert "checkpoints/global_step_3/old" in remains(folder)


def test_whatever_a_run_put_there_goes_and_what_links_lead_to_stays(folder: JobFolder, tmp_path: Path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "own").write_text("mine")
    clear(folder, Plan(job="demo", node="box"))
    folder.result.mkdir()
    folder.artifacts.rmdir()
    folder.artifacts.symlink_to(elsewhere)
    folder.tensorboard.symlink_to(tmp_path / "nowhere")
    clear(folder, Plan(job="demo", node="box"))
    assert not folder.result.exists()
    assert not folder.artifacts.is_symlink()
    assert not folder.tensorboard.is_symlink()
    assert (elsewhere / "own").read_text() == "mine"


def test_an_empty_folder_is_no_trouble(tmp_path: Path):
    fresh = JobFolder(tmp_path / "fresh")
    clear(fresh, Plan(job="fresh", node="box"))
    assert fresh.artifacts.is_dir()
