from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlark.engine import Engine
from rlark.errors import SpecError, UsageError
from rlark.runtime import checkpoint
from rlark.runtime.assignment import Assignment
from rlark.runtime.checkpoint import Origin
from rlark.runtime.file_protocol import FOLDER, REQUEST, RESULT
from rlark.runtime.requested import earlier, reference, requested
from rlark.spec.train_request import ResumeFrom

ENGINE = Engine(id="toy", title="", module="toy_engine", program="", config="")
REFERENCE = "artifact://starter/m/1/{run}/checkpoints/iter-00002.npz"


def finished(runs: Path, name: str, *, reference: str | None = None, engine: str = "toy", kept: bool = True) -> Path:
    """A run that ended, with the checkpoint of iteration 2."""
    checkpoint = {
        "checkpointId": "iter-00002",
        "artifactRef": reference or REFERENCE.format(run=name),
        "iteration": 2,
    }
    (runs / name).mkdir(parents=True)
    (runs / name / "result.json").write_text(json.dumps({"checkpoint": checkpoint, "metrics": {"engine": engine}}))
    path = runs / name / "checkpoints" / "global_step_2"
    if kept:
        path.mkdir(parents=True)
    return path


def wanted(run: str, **other: Any) -> ResumeFrom:
    values = {"checkpointId": "iter-00002", "artifactRef": REFERENCE.format(run=run), **other}
    return ResumeFrom.model_validate(values)


def test_a_checkpoint_is_found_by_the_result_that_names_it(tmp_path: Path):
    path = finished(tmp_path, "one")
    finished(tmp_path, "two")
    (tmp_path / "three").mkdir()
    (tmp_path / "three" / "result.json").write_text("[]")
    (tmp_path / "four").mkdir()
    (tmp_path / "four" / "result.json").write_text('{"artifact": {"artifactRef": "artifact://a"}, "checkpoint": 1}')
    assert earlier(wanted("one"), tmp_path, "toy") == path
    assert earlier(wanted("one", iteration=2), tmp_path, "toy") == path


def test_what_no_run_names_is_not_guessed(tmp_path: Path):
    finished(tmp_path, "one")
    for unknown in (wanted("two"), wanted("one", checkpointId="iter-00003")):
        with pytest.raises(ValueError, match=r"is not known here: no run in .* names it in its result\.json"):
            earlier(unknown, tmp_path, "toy")


def interrupted(runs: Path, name: str, engine: str = "toy") -> Path:
    """A run that was stopped: a checkpoint, and no result."""
    state = {"actor": [{}], "rollout": [], "env": [], "observation": None}
    root = runs / name / "checkpoints"
    return checkpoint.save(root, 7, state, {"iteration": 7}, due=False, origin=Origin(engine))


def named(path: Path, engine: str = "toy", **other: Any) -> ResumeFrom:
    values = {"checkpointId": path.name, "artifactRef": reference(engine, path), **other}
    return ResumeFrom.model_validate(values)


@pytest.mark.parametrize("name", ["one", "_run of the.day"])
def test_a_run_that_was_stopped_names_its_checkpoint_too(tmp_path: Path, name: str):
    path = interrupted(tmp_path, name)
    interrupted(tmp_path, "two")
    assert earlier(named(path), tmp_path, "toy") == path
    assert earlier(named(path, iteration=7), tmp_path, "toy") == path
    with pytest.raises(ValueError, match=r"is of iteration 7, and resumeFrom\.iteration is 8"):
        earlier(named(path, iteration=8), tmp_path, "toy")
    with pytest.raises(ValueError, match="is of the engine toy, and other cannot go on from it"):
        earlier(named(path), tmp_path, "other")
    with pytest.raises(ValueError, match="is not known here"):
        earlier(named(path, engine="other"), tmp_path, "toy")


def test_two_stopped_runs_of_one_name_are_not_taken_for_each_other(tmp_path: Path):
    path = interrupted(tmp_path, "a b")
    interrupted(tmp_path, "a-b")
    with pytest.raises(ValueError, match="may be that of a b or a-b: delete one"):
        earlier(named(path), tmp_path, "toy")


@pytest.mark.parametrize(
    ("made", "asked", "said"),
    [
        ({"engine": "other"}, {}, "is of the engine other, and toy cannot go on from it"),
        ({}, {"iteration": 3}, "is of iteration 2, and resumeFrom.iteration is 3"),
        ({"kept": False}, {}, "global_step_2 is not there any more"),
    ],
)
def test_what_cannot_be_continued_is_told(tmp_path: Path, made, asked, said):
    finished(tmp_path, "one", **made)
    with pytest.raises(ValueError, match=said):
        earlier(wanted("one", **asked), tmp_path, "toy")


def test_two_runs_of_one_name_are_not_taken_for_each_other(tmp_path: Path):
    for name in ("one", "two"):
        finished(tmp_path, name, reference=REFERENCE.format(run="one"))
    with pytest.raises(ValueError, match="may be that of one or two: delete one"):
        earlier(wanted("one"), tmp_path, "toy")


def test_a_job_keeps_its_configuration(assign):
    assignment = assign(fused=True)
    assert requested(assignment, ENGINE) is assignment


def test_an_engine_that_takes_no_requests_says_so(tmp_path: Path, toys):
    engine = Engine(id="toy", title="", module="", program="", config="rlark.plan.plan:Plan")
    with pytest.raises(UsageError, match="The engine toy takes no training requests"):
        requested(Assignment.find(variables(tmp_path)), engine)


def variables(folder: Path) -> dict[str, str]:
    return {REQUEST: str(folder / "request.json"), RESULT: str(folder / "result.json"), FOLDER: str(folder)}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "request.json does not exist"),
        ("{", "request.json holds no JSON: Expecting property name"),
        ("[]", "does not hold a JSON object"),
        ('{"schemaVersion": 2}', "schemaVersion must be 1, and here is 2"),
    ],
)
def test_a_request_that_cannot_be_read_is_refused_and_an_old_result_goes(tmp_path: Path, text, said):
    if text is not None:
        (tmp_path / "request.json").write_text(text)
    (tmp_path / "result.json").write_text("{}")
    engine = Engine(id="starter-ppo", title="", module="", program="", config="engines.starter_ppo.config:Config")
    with pytest.raises(SpecError, match=f"The training request is refused: .*{said}"):
        requested(Assignment.find(variables(tmp_path)), engine)
    assert not (tmp_path / "result.json").exists()
