"""From a training request to a configuration, and to the checkpoint that it goes on from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from rlark.engine import Engine, load_attribute
from rlark.errors import SpecError, UsageError
from rlark.evidence.verify import Unproven, read_result
from rlark.reference import slug
from rlark.runtime.assignment import Assignment
from rlark.runtime.checkpoint import manifest_of
from rlark.runtime.file_protocol import Files, clear
from rlark.spec.checkpoint import checkpoint_name
from rlark.spec.train_request import ResumeFrom, sentences


def requested(assignment: Assignment, engine: Engine, environ: Mapping[str, str] = os.environ) -> Assignment:
    """The assignment with the configuration that its request means; one without a request as it is.

    Where no Job stands behind the run, what an earlier one left in its folder is removed.

    Raises:
        UsageError: the engine takes no requests.
        SpecError: the request is refused; the message names every fault.
        OSError: what an earlier run left cannot be removed.
    """
    files = assignment.files
    if files is None:
        return assignment
    try:
        values, resume = _values(files, engine, assignment.folder.root.parent, environ)
    finally:
        files.result.unlink(missing_ok=True)  # an earlier run's must not be taken for this one's
    if assignment.folder.flat:
        clear(assignment.folder, resume)
    plan = assignment.plan.model_copy(update={"engine": engine.id, "config": values})
    return replace(assignment, plan=plan)


def _values(files: Files, engine: Engine, runs: Path, environ: Mapping[str, str]) -> tuple[dict[str, Any], Path | None]:
    """The effective configuration, as a Job would hold it, and where it goes on from."""
    model: Any = load_attribute(engine.config)
    if not hasattr(model, "from_request"):
        raise UsageError(f"The engine {engine.id} takes no training requests.", hint="give it a Job with config")
    try:
        request = files.read()
        config = model.from_request(request, environ)
        resume = earlier(request.resume_from, runs, engine.id) if request.resume_from else None
    except ValidationError as error:
        _refuse(sentences(error, model, {}))
    except (ValueError, OSError) as error:
        _refuse(str(error))
    values: dict[str, Any] = config.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if resume is not None:
        values["runner"] = {**values.get("runner", {}), "resume_dir": str(resume)}
    return values, resume


def _refuse(why: str) -> NoReturn:
    raise SpecError(f"The training request is refused: {why}") from None


def earlier(wanted: ResumeFrom, runs: Path, engine: str) -> Path:
    """The checkpoint that a request wants to go on from, among the runs of this machine.

    Args:
        wanted: as the earlier run's result names it.
        runs: the folder in which every run has its own.
        engine: the engine's id; another's checkpoints mean nothing to it.

    Raises:
        ValueError: there is none, or it is not clear which.
    """
    named = f"resumeFrom: the checkpoint {wanted.checkpoint_id} of {wanted.artifact_ref}"
    found = list(_results(wanted, runs))
    if not found:
        return _interrupted(wanted, runs, engine, named)
    _require_one(named, [folder for folder, _ in found])
    folder, result = found[0]
    iteration, made_by = result["checkpoint"].get("iteration"), (result.get("metrics") or {}).get("engine")
    _require_same(named, wanted, engine, made_by=made_by, iteration=iteration)
    path = folder / "checkpoints" / checkpoint_name(iteration)
    if not path.is_dir():
        raise ValueError(f"{named} is gone: {path} is not there any more")
    return path


def reference(engine: str, path: Path) -> str:
    """How a checkpoint is named that stands in no result: that of a run that was stopped, say."""
    return f"artifact://{engine}/{slug(path.parent.parent.name, 119)}/checkpoints/{path.name}"


def _interrupted(wanted: ResumeFrom, runs: Path, engine: str, named: str) -> Path:
    """The checkpoint of a run that wrote no result, which is named by its folders."""
    there = [(path, manifest_of(path)) for path in sorted(runs.glob(f"*/checkpoints/{wanted.checkpoint_id}"))]
    found = [(path, told) for path, told in there if wanted.artifact_ref == reference(str(told.get("engine")), path)]
    if not found:
        raise ValueError(
            f"{named} is not known here: no run in {runs} names it in its result.json; "
            "give checkpoint.checkpointId and checkpoint.artifactRef of a run that completed on this machine, "
            "or those that a run told when it was stopped"
        )
    _require_one(named, [path.parent.parent for path, _ in found])
    path, told = found[0]
    _require_same(named, wanted, engine, made_by=told.get("engine"), iteration=told.get("iteration"))
    return path


def _require_one(named: str, folders: Sequence[Path]) -> None:
    if len(folders) > 1:
        raise ValueError(f"{named} may be that of {' or '.join(folder.name for folder in folders)}: delete one")


def _require_same(named: str, wanted: ResumeFrom, engine: str, *, made_by: object, iteration: object) -> None:
    if made_by != engine:
        raise ValueError(f"{named} is of the engine {made_by}, and {engine} cannot go on from it")
    if wanted.iteration is not None and wanted.iteration != iteration:
        raise ValueError(f"{named} is of iteration {iteration}, and resumeFrom.iteration is {wanted.iteration}")


def _results(wanted: ResumeFrom, runs: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(runs.glob("*/result.json")):
        try:
            result = read_result(path)
        except (Unproven, OSError):
            continue
        checkpoint = result.get("checkpoint")
        if not isinstance(checkpoint, dict):
            continue
        if (checkpoint.get("checkpointId"), checkpoint.get("artifactRef")) == (
            wanted.checkpoint_id,
            wanted.artifact_ref,
        ):
            yield path.parent, result
