"""Checkpoints: `global_step_N/` folders that are there whole or not at all.

checkpoints/
  latest                       the newest folder's name
  global_step_40/
    actor.pkl                  Actor.state() of rank 0
    rest.pkl                   the other states, and what the runner needs to go on
    checkpoint.json            {iteration, files: {name: {sha256, sizeBytes}}}
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rlark.folder import read_json, write_json, write_text
from rlark.runtime.component import State

ACTOR = "actor.pkl"
REST = "rest.pkl"
MANIFEST = "checkpoint.json"
LATEST = "latest"
KEEP = 4
_NAME = re.compile(r"global_step_(\d+)")


def save(root: Path, iteration: int, state: State, progress: Mapping[str, Any], keep: int = KEEP) -> Path:
    """Write one checkpoint, drop the oldest beyond `keep`, and those of later iterations.

    The later ones belong to a course that was given up, when training went on from an earlier checkpoint.

    Args:
        root: the checkpoints folder, made where needed.
        iteration: iterations done, from 1.
        state: what `Trainer.state` gave.
        progress: what the runner needs to go on; pickles.
        keep: how many folders may stay.

    Returns:
        The new folder.

    Raises:
        OSError: it could not be written; no half checkpoint stays behind.
    """
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    target = root / f"global_step_{iteration}"
    draft = root / f".{target.name}"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    try:
        rest = {**state, "actor": list(state["actor"][1:]), "progress": dict(progress)}
        files = {ACTOR: _write(draft / ACTOR, state["actor"][0]), REST: _write(draft / REST, rest)}
        write_json(draft / MANIFEST, {"iteration": iteration, "files": files})
        shutil.rmtree(target, ignore_errors=True)
        draft.rename(target)
        _sync(root)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    write_text(root / LATEST, target.name + "\n")
    found = saved(root)
    here = found.index(target) + 1
    for other in (*found[: max(0, here - keep)], *found[here:]):
        shutil.rmtree(other)
    return target


def saved(root: Path) -> list[Path]:
    """Every checkpoint folder, oldest first."""
    found = [
        (int(match.group(1)), path) for path in root.glob("global_step_*") if (match := _NAME.fullmatch(path.name))
    ]
    return [path for _, path in sorted(found)]


def load_actor(path: Path) -> State:
    """`Actor.state()` of rank 0 from a checkpoint folder.

    Raises:
        ValueError: the folder is no checkpoint, or a file was changed.
    """
    state: State = _read(path, ACTOR)
    return state


def load(path: Path) -> tuple[State, dict[str, Any]]:
    """What `save` was given: the trainer's state and the runner's progress.

    Args:
        path: a `global_step_N` folder, or a checkpoints folder: then the one `latest` names.

    Raises:
        ValueError: the folder is no checkpoint, or a file was changed.
    """
    folder = _resolve(path)
    rest = _read(folder, REST)
    progress = rest.pop("progress")
    return {**rest, "actor": [_read(folder, ACTOR), *rest["actor"]]}, progress


def _resolve(path: Path) -> Path:
    pointer = path / LATEST
    return path / pointer.read_text(encoding="utf-8").strip() if pointer.is_file() else path


def _write(path: Path, value: object) -> dict[str, object]:
    data = pickle.dumps(value, protocol=5)
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return {"sha256": hashlib.sha256(data).hexdigest(), "sizeBytes": len(data)}


def _read(folder: Path, name: str) -> Any:
    manifest = read_json(folder / MANIFEST)
    if manifest is None:
        raise ValueError(f"{folder} is no checkpoint: it has no {MANIFEST}")
    files = manifest.get("files")
    entry = files.get(name) if isinstance(files, dict) else None
    try:
        data = (folder / name).read_bytes()
    except OSError as error:
        raise ValueError(f"the checkpoint {folder} lacks {name}: {error.strerror}") from error
    if not isinstance(entry, dict) or hashlib.sha256(data).hexdigest() != entry.get("sha256"):
        raise ValueError(f"{folder / name} is not the file that {MANIFEST} lists: its SHA-256 differs")
    return pickle.loads(data)  # noqa: S301  its hash is that of the file this run's own kind wrote


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
