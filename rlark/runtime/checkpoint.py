"""Checkpoints: `global_step_N/` folders that are there whole or not at all.

checkpoints/
  latest                       the newest folder's name
  global_step_40/
    actor.pkl                  Actor.state() of rank 0
    rest.pkl                   the other states, and what the runner needs to go on
    checkpoint.json            {iteration, due, engine, task, files: {name: {sha256, sizeBytes}}}

One that was due counts when the best is chosen at the end. One that was written because somebody
asked the run to stop only serves to go on from: a run that was interrupted must choose among the
same ones as a run that was not.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlark.folder import read_json, write_json, write_text
from rlark.runtime import plain
from rlark.spec.checkpoint import MANIFEST, checkpoint_name, iteration_of, saved

if TYPE_CHECKING:
    from rlark.runtime.component import State

ACTOR = "actor.pkl"
REST = "rest.pkl"
LATEST = "latest"
KEEP = 4


@dataclass(frozen=True)
class Origin:
    """What a checkpoint is of: a run of something else cannot go on from it, whatever sizes they share.

    Attributes:
        engine: the engine's id; empty where it is not known.
        task: the id of the training task; empty where it is not known.
    """

    engine: str = ""
    task: str = ""


UNKNOWN = Origin()


def save(
    root: Path,
    iteration: int,
    state: State,
    progress: Mapping[str, Any],
    *,
    due: bool = True,
    keep: int = KEEP,
    origin: Origin = UNKNOWN,
) -> Path:
    """Write one checkpoint, and drop what it makes superfluous.

    Of those that were due, the newest `keep` stay; of the others only this one; none of later iterations:
    they belong to a course that was given up, when training went on from an earlier checkpoint.

    Args:
        root: the checkpoints folder, made where needed.
        iteration: iterations done, from 1.
        state: what `Trainer.state` gave.
        progress: what the runner needs to go on; plain values.
        due: False for one that is written only because the run was asked to stop.
        keep: how many that were due may stay.
        origin: what it is of.

    Returns:
        The new folder.

    Raises:
        OSError: it could not be written; says which and where, and no half checkpoint stays behind.
        ValueError: a state holds more than plain values and arrays.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = root / checkpoint_name(iteration)
    with _drafted(target) as draft:
        draft.mkdir(mode=0o700)
        rest = {**state, "actor": list(state["actor"][1:]), "progress": dict(progress)}
        files = {ACTOR: _write(draft / ACTOR, state["actor"][0]), REST: _write(draft / REST, rest)}
        write_json(draft / MANIFEST, {"iteration": iteration, "due": due, **asdict(origin), "files": files})
    _drop_superfluous(root, target, keep)
    return target


@contextmanager
def _drafted(target: Path) -> Iterator[Path]:
    """Where a checkpoint is made whole before it gets its name; nothing stays of one that was not."""
    draft = target.with_name(f".{target.name}")
    for left in target.parent.glob(".global_step_*"):  # somebody was killed while writing or removing it
        shutil.rmtree(left, ignore_errors=True)
    try:
        yield draft
        _sync(draft)
        _put(draft, target)
    except OSError as error:
        shutil.rmtree(draft, ignore_errors=True)
        why = f"{error.strerror or error}: {target} cannot be written; the checkpoints before it stay"
        raise OSError(error.errno, why) from error
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _put(draft: Path, target: Path) -> None:
    """Give a whole checkpoint its name; `latest` never names one that is not there."""
    root = target.parent
    if target.exists():  # an iteration done again
        (root / LATEST).unlink(missing_ok=True)
        _remove(target)
    draft.rename(target)
    _sync(root)
    write_text(root / LATEST, target.name + "\n")


def _drop_superfluous(root: Path, newest: Path, keep: int) -> None:
    found = saved(root)
    until = found[: found.index(newest) + 1]
    kept = [path for path in due(root) if path in until][-keep:]
    for other in found:
        if other != newest and other not in kept:
            _remove(other)


def _remove(path: Path) -> None:
    """Take a checkpoint away: first its name, so that nobody who is killed meanwhile leaves half of one under it."""
    going = path.with_name(f".{path.name}.going")
    shutil.rmtree(going, ignore_errors=True)
    path.rename(going)
    shutil.rmtree(going, ignore_errors=True)


def due(root: Path) -> list[Path]:
    """Those that were due, oldest first: what a run may choose its best from."""
    return [path for path in saved(root) if (told := manifest_of(path)) and told.get("due", True)]


def adopt(source: Path, root: Path, *, keep: int = KEEP) -> None:
    """Take over what a run that goes on elsewhere will choose its best from.

    Args:
        source: the checkpoint it goes on from, or a checkpoints folder; with those that were due before it.
        root: the run's own checkpoints folder.
        keep: how many that were due may stay.

    Raises:
        ValueError: one is no checkpoint, or was changed.
        OSError: one cannot be copied.
    """
    source = _resolve(source)
    if source.parent.resolve() == root.resolve():
        return
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    here = _iteration(source)
    beside = due(source.parent) if iteration_of(source) is not None else []
    earlier = [path for path in beside if (iteration_of(path) or 0) < here]
    for path in (*(earlier[1 - keep :] if keep > 1 else ()), source):
        for name in (ACTOR, REST):
            _checked(path, name)
        with _drafted(root / checkpoint_name(_iteration(path))) as draft:
            shutil.copytree(path, draft, copy_function=_link)


def _link(source: str, target: str) -> None:
    """Checkpoints are never written again, so that two folders may share their files."""
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copyfile(source, target)


def load_actor(path: Path) -> State:
    """`Actor.state()` of rank 0 from a checkpoint folder.

    Raises:
        ValueError: the folder is no checkpoint, or a file was changed.
    """
    state: State = _read(path, ACTOR)
    return state


def load(path: Path, origin: Origin = UNKNOWN) -> tuple[State, dict[str, Any]]:
    """What `save` was given: the trainer's state and the runner's progress.

    Args:
        path: a `global_step_N` folder, or a checkpoints folder: then its newest.
        origin: what it must be of, as far as both know.

    Raises:
        ValueError: the folder is no checkpoint, is one of something else, or a file was changed.
    """
    folder = _resolve(path)
    require_same(_manifest(folder), origin)
    actor, rest = _read(folder, ACTOR), _read(folder, REST)
    progress = rest.pop("progress")
    if progress.get("iteration", _iteration(folder)) != _iteration(folder):
        raise ValueError(f"{folder / MANIFEST} was changed: it names another iteration than {REST} does")
    return {**rest, "actor": [actor, *rest["actor"]]}, progress


def require_same(told: Mapping[str, Any], origin: Origin) -> None:
    """Refuse a checkpoint of something else.

    Args:
        told: `engine` and `task` of the checkpoint.
        origin: those of the run.

    Raises:
        ValueError: says which they are.
    """
    for name, ours in asdict(origin).items():
        theirs = told.get(name)
        if ours and theirs and theirs != ours:
            raise ValueError(f"the checkpoint is of the {name} {theirs}, and this run is of the {name} {ours}")


def manifest_of(path: Path) -> dict[str, Any]:
    """What a checkpoint says of itself; empty where it is none, or damaged."""
    try:
        return _manifest(path)
    except ValueError:
        return {}


def _resolve(path: Path) -> Path:
    """The one checkpoint that a folder stands for."""
    if (path / MANIFEST).is_file():
        return path
    pointer = path / LATEST
    name = pointer.read_text(encoding="utf-8").strip() if pointer.is_file() else ""
    if iteration_of(path / name) is not None and (path / name).is_dir():
        return path / name
    found = saved(path)  # a process was killed while it put a checkpoint in another's place
    return found[-1] if found else path


def _write(path: Path, value: object) -> dict[str, object]:
    data = plain.dumps(value)
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return {"sha256": hashlib.sha256(data).hexdigest(), "sizeBytes": len(data)}


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = read_json(folder / MANIFEST)
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder} is no checkpoint: {MANIFEST} cannot be read: {error}") from error
    if manifest is None:
        raise ValueError(f"{folder} is no checkpoint: it has no {MANIFEST}")
    return manifest


def _iteration(folder: Path) -> int:
    iteration = _manifest(folder).get("iteration")
    if isinstance(iteration, bool) or not isinstance(iteration, int) or iteration < 1:
        raise ValueError(f"{folder / MANIFEST} was changed: it names no iteration")
    return iteration


def _checked(folder: Path, name: str) -> bytes:
    """A file's bytes, when they are those that the manifest lists."""
    files = _manifest(folder).get("files")
    entry = files.get(name) if isinstance(files, dict) else None
    try:
        data = (folder / name).read_bytes()
    except OSError as error:
        raise ValueError(f"the checkpoint {folder} lacks {name}: {error.strerror}") from error
    listed = entry if isinstance(entry, dict) else {}
    if len(data) != listed.get("sizeBytes"):
        raise ValueError(
            f"{folder / name} is not the file that {MANIFEST} lists: it has {len(data)} bytes, "
            f"listed are {listed.get('sizeBytes')}; take an earlier checkpoint"
        )
    if hashlib.sha256(data).hexdigest() != listed.get("sha256"):
        raise ValueError(
            f"{folder / name} is not the file that {MANIFEST} lists: its SHA-256 differs; take an earlier checkpoint"
        )
    return data


def _read(folder: Path, name: str) -> Any:
    data = _checked(folder, name)
    try:
        return plain.loads(data)
    except ValueError as error:
        raise ValueError(f"{folder / name} is not read: {error}") from error


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
