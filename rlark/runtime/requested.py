"""From a training request to a configuration, and to the checkpoint that it goes on from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from rlark.engine import Engine, load_attribute
from rlark.errors import SpecError, UsageError
from rlark.evidence.verify import Unproven, read_result
from rlark.runtime.assignment import Assignment
from rlark.runtime.file_protocol import Files, clear
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
        raise ValueError(
            f"{named} is not known here: no run in {runs} names it in its result.json; "
            "give checkpoint.checkpointId and checkpoint.artifactRef of a run that completed on this machine"
        )
    if len(found) > 1:
        raise ValueError(f"{named} may be that of {' or '.join(folder.name for folder, _ in found)}: delete one")
    folder, result = found[0]
    iteration, made_by = result["checkpoint"].get("iteration"), (result.get("metrics") or {}).get("engine")
    if made_by != engine:
        raise ValueError(f"{named} is of the engine {made_by}, and {engine} cannot go on from it")
    if wanted.iteration is not None and wanted.iteration != iteration:
        raise ValueError(f"{named} is of iteration {iteration}, and resumeFrom.iteration is {wanted.iteration}")
    path = folder / "checkpoints" / f"global_step_{iteration}"
    if not path.is_dir():
        raise ValueError(f"{named} is gone: {path} is not there any more")
    return path


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
