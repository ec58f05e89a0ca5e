from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from rlark.folder import JobFolder, read_json
from rlark.runtime import checkpoint
from rlark.runtime.replay import Differs, Replay, difference
from rlark.runtime.trainer import FusedTrainer
from rlark.spec.checkpoint import REPLAY_UPDATES


@pytest.fixture
def whole(assign, run_toy) -> JobFolder:
    """A run of six iterations, with a checkpoint of each."""
    folder = assign(fused=True, runner={"max_epochs": 6}).folder
    assert run_toy(folder.root).returncode == 0
    return folder


@pytest.fixture
def trainer(whole, workload) -> FusedTrainer:
    return FusedTrainer(workload(fused=True, runner={"max_epochs": 6}), threads=1)


def replay(whole: JobFolder, updates: int, begun: int = 3) -> Replay:
    return Replay(whole.checkpoints / f"global_step_{begun}", updates)


def change(folder: JobFolder, name: str, number: int) -> None:
    rows = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
    rows[number - 1][name] += 1e-9
    folder.metrics.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_run_that_can_be_repeated_is_the_same(whole, trainer):
    found = replay(whole, 3).run(trainer)
    assert found == {"equal": True, "from": 4, "to": 6, "checkpointsCompared": [4, 5, 6]}


def test_a_number_that_differs_is_named_with_its_iteration(whole, trainer):
    change(whole, "meanReward", 5)
    with pytest.raises(Differs, match=r"iteration 5: meanReward was \S+ and is \S+"):
        replay(whole, 3).run(trainer)


@pytest.mark.parametrize(
    ("part", "said"),
    [("actor", r"global_step_4: actor\[0\]\.updates differs"), ("env", r"global_step_4: env\[0\]\.")],
)
def test_a_state_that_differs_is_named_though_no_number_told_of_it(whole, trainer, part, said):
    saved = whole.checkpoints / "global_step_4"
    state, progress = checkpoint.load(saved)
    name = "updates" if part == "actor" else next(iter(state[part][0]))
    state[part][0][name] = "another"
    newest = [path for path in checkpoint.saved(whole.checkpoints) if path != saved]
    aside = [path.rename(whole.root / path.name) for path in newest]  # saving drops those of later iterations
    checkpoint.save(whole.checkpoints, 4, state, progress)
    for path in aside:
        shutil.move(path, whole.checkpoints)
    with pytest.raises(Differs, match=said):
        replay(whole, 2).run(trainer)


def test_what_the_run_did_not_tell_cannot_be_compared(whole, trainer):
    with pytest.raises(ValueError, match="the run told nothing of iteration 7"):
        replay(whole, 4).run(trainer)
    whole.metrics.unlink()
    with pytest.raises(ValueError, match="the run told nothing of iteration 4"):
        replay(whole, 1).run(trainer)


@pytest.mark.parametrize(("wanted", "source"), [("0", "/x"), ("-1", "/x"), ("two", "/x"), ("2", "")])
def test_it_is_asked_for_with_a_number_and_a_checkpoint(wanted, source):
    with pytest.raises(ValueError, match="it is a number of iterations from 1, after runner"):
        Replay.asked(source, {REPLAY_UPDATES: wanted})


def test_a_run_that_is_asked_for_none_trains():
    assert Replay.asked("/x", {}) is None


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        ({"a": [1, 2.0]}, {"a": [1, 2.0]}, ""),
        (float("nan"), float("nan"), ""),
        ({"a": [1, {"b": 0.0}]}, {"a": [1, {"b": -0.0}]}, "a[1].b"),
        ({"a": np.zeros(2, np.float32)}, {"a": np.zeros(2)}, "a"),
        ({"a": np.zeros(2)}, {"a": np.zeros(2)}, ""),
        ({"a": 1}, {"b": 1}, "everything"),
        ({"a": (1,)}, {"a": (1, 2)}, "a"),
        ({"a": 1}, {"a": True}, "a"),
    ],
)
def test_the_first_difference_has_a_place(one, other, place):
    assert difference(one, other) == place


def test_a_job_replays_and_tells_what_was_compared(whole, assign, run_toy, tmp_path: Path):
    theirs = tmp_path / "theirs"
    whole.root.rename(theirs)
    again = assign(
        fused=True, runner={"max_epochs": 6, "resume_dir": str(theirs / "checkpoints" / "global_step_3")}
    ).folder
    done = run_toy(again.root, **{REPLAY_UPDATES: "2"})
    assert done.returncode == 0, done.stderr
    report = read_json(again.artifacts / "replay.json")
    assert report == {"equal": True, "from": 4, "to": 5, "checkpointsCompared": [4, 5]}
    assert not again.metrics.exists()
    change(JobFolder(theirs), "meanReward", 4)
    again.result.unlink()
    done = run_toy(again.root, **{REPLAY_UPDATES: "2"})
    assert done.returncode == 1
    assert "Differs: iteration 4: meanReward was" in done.stderr
    assert not again.result.exists()
