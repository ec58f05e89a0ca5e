from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from rlark.folder import read_json
from rlark.runtime import checkpoint
from rlark.runtime.checkpoint import Origin


def state(number: int):
    return {
        "actor": [{"w": np.full(2, number)}, {"w": np.full(2, -number)}],
        "rollout": [{"rng": number}],
        "env": [{"t": number}],
        "observation": np.zeros((4, 2), np.float32),
    }


def test_what_was_saved_is_loaded(tmp_path: Path):
    folder = checkpoint.save(tmp_path / "checkpoints", 3, state(3), {"iteration": 3, "seconds": 1.5})
    found, progress = checkpoint.load(folder)
    assert [actor["w"].tolist() for actor in found["actor"]] == [[3, 3], [-3, -3]]
    assert (found["rollout"], found["env"]) == ([{"rng": 3}], [{"t": 3}])
    assert found["observation"].shape == (4, 2)
    assert progress == {"iteration": 3, "seconds": 1.5}
    assert checkpoint.load_actor(folder)["w"].tolist() == [3, 3]


def test_a_checkpoints_folder_stands_for_its_newest(tmp_path: Path):
    for number in (2, 10):
        checkpoint.save(tmp_path, number, state(number), {"iteration": number})
    assert (tmp_path / "latest").read_text() == "global_step_10\n"
    assert checkpoint.load(tmp_path)[1] == {"iteration": 10}


def test_the_newest_four_are_kept_in_the_order_of_their_numbers(tmp_path: Path):
    for number in (8, 9, 10, 11, 12, 100):
        checkpoint.save(tmp_path, number, state(number), {})
    assert [path.name for path in checkpoint.saved(tmp_path)] == [f"global_step_{n}" for n in (10, 11, 12, 100)]
    assert {path.name for path in tmp_path.iterdir()} == {*(f"global_step_{n}" for n in (10, 11, 12, 100)), "latest"}


def test_those_of_a_course_that_was_given_up_go(tmp_path: Path):
    for number in (2, 4, 6, 8, 10):
        checkpoint.save(tmp_path, number, state(number), {"iteration": number})
    checkpoint.save(tmp_path, 5, state(5), {"iteration": 5})  # it went on from iteration 4
    assert [path.name for path in checkpoint.saved(tmp_path)] == ["global_step_4", "global_step_5"]
    assert checkpoint.load(tmp_path)[1] == {"iteration": 5}


def test_saving_an_iteration_again_replaces_it(tmp_path: Path):
    checkpoint.save(tmp_path, 1, state(1), {})
    folder = checkpoint.save(tmp_path, 1, state(5), {})
    assert checkpoint.load_actor(folder)["w"].tolist() == [5, 5]


def test_every_file_is_listed_with_its_hash_and_readable_by_its_owner_only(tmp_path: Path):
    folder = checkpoint.save(tmp_path, 1, state(1), {})
    manifest = read_json(folder / "checkpoint.json")
    assert manifest["iteration"] == 1
    assert {name: entry["sizeBytes"] for name, entry in manifest["files"].items()} == {
        name: (folder / name).stat().st_size for name in ("actor.pkl", "rest.pkl")
    }
    assert folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["actor.pkl", "rest.pkl"])
def test_a_changed_file_is_never_loaded(tmp_path: Path, name: str):
    folder = checkpoint.save(tmp_path, 1, state(1), {})
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)
    with pytest.raises(ValueError, match=f"{name} is not the file that checkpoint.json lists"):
        checkpoint.load(folder)


def test_what_is_no_checkpoint_says_so(tmp_path: Path):
    with pytest.raises(ValueError, match=r"is no checkpoint: it has no checkpoint\.json"):
        checkpoint.load_actor(tmp_path)
    folder = checkpoint.save(tmp_path, 1, state(1), {})
    (folder / "actor.pkl").unlink()
    with pytest.raises(ValueError, match=r"lacks actor\.pkl"):
        checkpoint.load_actor(folder)


def test_a_full_disk_leaves_no_half_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    checkpoint.save(tmp_path, 1, state(1), {"iteration": 1})

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    said = r"No space left on device: .*global_step_2 cannot be written; the checkpoints before it stay"
    with pytest.raises(OSError, match=said) as raised:
        checkpoint.save(tmp_path, 2, state(2), {})
    assert raised.value.errno == errno.ENOSPC
    assert {path.name for path in tmp_path.iterdir()} == {"global_step_1", "latest"}
    assert checkpoint.load(tmp_path)[1] == {"iteration": 1}


def test_a_disk_that_fills_up_while_one_is_taken_over_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    checkpoint.save(tmp_path / "theirs", 4, state(4), {"iteration": 4})

    def refused(_source: str, _target: str) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    def full(_source: str, target: str) -> None:
        Path(target).write_bytes(b"half of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "link", refused)
    monkeypatch.setattr(shutil, "copyfile", full)
    with pytest.raises(OSError, match="No space left"):
        checkpoint.adopt(tmp_path / "theirs", tmp_path / "ours")
    assert list((tmp_path / "ours").iterdir()) == []


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        (Origin("other", "walk"), "is of the engine toy, and this run is of the engine other"),
        (Origin("toy", "run"), "is of the task walk, and this run is of the task run"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path, ours: Origin, said: str):
    folder = checkpoint.save(tmp_path, 1, state(1), {"iteration": 1}, origin=Origin("toy", "walk"))
    with pytest.raises(ValueError, match=said):
        checkpoint.load(folder, ours)
    for same in (Origin("toy", "walk"), Origin("toy"), Origin()):
        assert checkpoint.load(folder, same)[1] == {"iteration": 1}
    of_old = checkpoint.save(tmp_path, 2, state(2), {"iteration": 2})
    assert checkpoint.load(of_old, ours)[1] == {"iteration": 2}


def test_one_whose_list_is_damaged_is_none_and_hinders_nobody(tmp_path: Path):
    for number in (2, 4):
        checkpoint.save(tmp_path, number, state(number), {"iteration": number})
    (tmp_path / "global_step_2" / "checkpoint.json").write_text("{")
    checkpoint.save(tmp_path, 6, state(6), {"iteration": 6})
    assert [path.name for path in checkpoint.saved(tmp_path)] == ["global_step_4", "global_step_6"]


def test_what_a_killed_process_left_half_written_or_half_removed_goes(tmp_path: Path):
    for name in (".global_step_1", ".global_step_3.going"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "actor.pkl").write_bytes(b"half of it")
    checkpoint.save(tmp_path, 4, state(4), {"iteration": 4})
    assert {path.name for path in tmp_path.iterdir()} == {"global_step_4", "latest"}


def test_a_truncated_file_is_told_as_that(tmp_path: Path):
    folder = checkpoint.save(tmp_path, 1, state(1), {"iteration": 1})
    data = (folder / "rest.pkl").read_bytes()
    (folder / "rest.pkl").write_bytes(data[:-1])
    with pytest.raises(ValueError, match=f"it has {len(data) - 1} bytes, listed are {len(data)}; take an earlier"):
        checkpoint.load(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"iteration": "3"}'])
def test_a_changed_list_of_files_is_refused(tmp_path: Path, text: str):
    folder = checkpoint.save(tmp_path, 1, state(1), {"iteration": 1})
    (folder / "checkpoint.json").write_text(text)
    with pytest.raises(ValueError, match=r"checkpoint\.json"):
        checkpoint.load(folder)


def test_another_iteration_in_the_list_is_noticed(tmp_path: Path):
    folder = checkpoint.save(tmp_path, 1, state(1), {"iteration": 1})
    manifest = folder / "checkpoint.json"
    manifest.write_text(manifest.read_text().replace('"iteration": 1', '"iteration": 2'))
    with pytest.raises(ValueError, match="names another iteration"):
        checkpoint.load(folder)


class TestOnesThatWereNotDue:
    """They are there to go on from, and nothing is chosen from them."""

    def test_they_do_not_count_and_go_with_the_next(self, tmp_path: Path):
        for number in (2, 4, 6, 8):
            checkpoint.save(tmp_path, number, state(number), {})
        checkpoint.save(tmp_path, 9, state(9), {"iteration": 9}, due=False)
        assert checkpoint.load(tmp_path)[1] == {"iteration": 9}
        assert [path.name for path in checkpoint.due(tmp_path)] == [f"global_step_{n}" for n in (2, 4, 6, 8)]
        checkpoint.save(tmp_path, 10, state(10), {})
        assert [path.name for path in checkpoint.saved(tmp_path)] == [f"global_step_{n}" for n in (4, 6, 8, 10)]


class TestTakingOver:
    """A run that goes on in another folder chooses from the same ones."""

    def test_the_one_and_those_that_were_due_before_it(self, tmp_path: Path):
        theirs, ours = tmp_path / "theirs", tmp_path / "ours"
        for number in (2, 4, 6, 8):
            checkpoint.save(theirs, number, state(number), {"iteration": number})
        checkpoint.save(theirs, 9, state(9), {"iteration": 9}, due=False)
        checkpoint.adopt(theirs, ours)
        assert [path.name for path in checkpoint.saved(ours)] == [f"global_step_{n}" for n in (4, 6, 8, 9)]
        assert checkpoint.load(ours)[1] == {"iteration": 9}
        checkpoint.save(ours, 10, state(10), {})
        assert [path.name for path in checkpoint.due(ours)] == [f"global_step_{n}" for n in (4, 6, 8, 10)]
        assert len(checkpoint.saved(theirs)) == 5

    def test_none_that_came_later(self, tmp_path: Path):
        for number in (2, 4, 6):
            checkpoint.save(tmp_path / "theirs", number, state(number), {"iteration": number})
        checkpoint.adopt(tmp_path / "theirs/global_step_4", tmp_path / "ours")
        assert [path.name for path in checkpoint.saved(tmp_path / "ours")] == ["global_step_2", "global_step_4"]

    def test_in_the_same_folder_there_is_nothing_to_take(self, tmp_path: Path):
        checkpoint.save(tmp_path, 2, state(2), {"iteration": 2})
        checkpoint.adopt(tmp_path, tmp_path)
        assert [path.name for path in checkpoint.saved(tmp_path)] == ["global_step_2"]

    def test_one_that_was_copied_away_comes_alone(self, tmp_path: Path):
        folder = checkpoint.save(tmp_path / "theirs", 4, state(4), {"iteration": 4})
        folder.rename(tmp_path / "mine")
        checkpoint.adopt(tmp_path / "mine", tmp_path / "ours")
        assert checkpoint.load(tmp_path / "ours")[1] == {"iteration": 4}

    def test_across_file_systems_it_is_copied(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
        def refused(_source: str, _target: str) -> None:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

        checkpoint.save(tmp_path / "theirs", 4, state(4), {"iteration": 4})
        monkeypatch.setattr(os, "link", refused)
        checkpoint.adopt(tmp_path / "theirs", tmp_path / "ours")
        assert checkpoint.load(tmp_path / "ours")[1] == {"iteration": 4}

    def test_a_changed_one_is_not_taken(self, tmp_path: Path):
        folder = checkpoint.save(tmp_path / "theirs", 2, state(2), {"iteration": 2})
        checkpoint.save(tmp_path / "theirs", 4, state(4), {"iteration": 4})
        (folder / "actor.pkl").write_bytes(b"x")
        with pytest.raises(ValueError, match=r"actor\.pkl is not the file"):
            checkpoint.adopt(tmp_path / "theirs", tmp_path / "ours")


def test_a_process_killed_while_it_replaced_one_leaves_the_one_before(tmp_path: Path):
    for number in (2, 4):
        checkpoint.save(tmp_path, number, state(number), {"iteration": number})
    (tmp_path / "latest").unlink()
    assert checkpoint.load(tmp_path)[1] == {"iteration": 4}
    (tmp_path / "latest").write_text("global_step_6\n")
    assert checkpoint.load(tmp_path)[1] == {"iteration": 4}
    (tmp_path / "latest").write_text("../elsewhere\n")
    assert checkpoint.load(tmp_path)[1] == {"iteration": 4}
