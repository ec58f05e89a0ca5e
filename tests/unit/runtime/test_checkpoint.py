from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pytest

from rlark.folder import read_json
from rlark.runtime import checkpoint


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
    with pytest.raises(OSError, match="No space left"):
        checkpoint.save(tmp_path, 2, state(2), {})
    assert {path.name for path in tmp_path.iterdir()} == {"global_step_1", "latest"}
    assert checkpoint.load(tmp_path)[1] == {"iteration": 1}
