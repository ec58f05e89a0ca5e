"""A Job that goes on from another one's checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlark.errors import NotFound, UsageError
from rlark.sdk.draft import Draft
from rlark.spec.checkpoint import REPLAY_UPDATES
from rlark.spec.yaml import parse

if TYPE_CHECKING:
    from rlark.sdk.client import Client
    from rlark.sdk.transport import JsonObject

_CHOICE = re.compile(r"(?P<job>[^@]+)(?:@(?P<step>\d+))?")
_CONFIG = "spec.tasks[0].ray.config"
_CONFIG_PATH = ("spec", "tasks", 0, "ray", "config")
_LONGEST = 56
"""Characters of a Job's name that its replay takes over: with what follows them a name has 63 at most."""
KEY = "runner.resume_dir"
REPLAY_OF = "rlark.io/replay-of"
"""The label of a Job that is a replay: whose."""


def resumed(draft: Draft, checkpoint: Mapping[str, Any]) -> Draft:
    """The same Job, going on from a checkpoint.

    Args:
        draft: the Job.
        checkpoint: what `checkpoint_of` found.

    Raises:
        UsageError: the Job trains by no engine's configuration.
    """
    return draft.changed(_goes_on(draft, str(checkpoint["path"])))


def require_same(text: str, checkpoint: Mapping[str, Any]) -> None:
    """Refuse a Job that trains something else than its checkpoint is of; sizes are compared when it runs.

    Args:
        text: the Job's canonical YAML, with its configuration inside; empty where it has errors.
        checkpoint: what `checkpoint_of` found.

    Raises:
        UsageError: engine or task differ; says which they are.
    """
    config = _at(parse(text).data, *_CONFIG_PATH, "inline")
    task = _at(config, "env", "train", "task")
    ours = {"engine": _at(config, "runner", "engine"), "task": _at(task, "id") or task}
    for name, value in ours.items():
        theirs = checkpoint.get(name)
        if isinstance(value, str) and theirs and theirs != value:
            raise UsageError(
                f"the checkpoint {checkpoint['path']} is of the {name} {theirs}, and this Job trains the {name} {value}"
            )


def checkpoint_of(client: Client, choice: str) -> JsonObject:
    """A checkpoint: `iteration`, its folder `path` on the node, its `engine` and its `task`.

    Args:
        client: of the platform that has it.
        choice: `JOB` for its newest checkpoint, `JOB@40` for that of iteration 40.

    Raises:
        UsageError: the choice is written otherwise.
        NotFound: there is no such Job, or no such checkpoint; says which there are.
    """
    written = _CHOICE.fullmatch(choice)
    if written is None:
        raise UsageError(f"{choice!r} names no checkpoint", hint="write JOB for its newest, or JOB@40 for one of them")
    job, step = client.job(written["job"]), written["step"]
    there = job.checkpoints()
    if not there:
        phase = job.refresh().phase
        raise NotFound(f"{job.name} has no checkpoint to go on from; it is {phase}", hint=f"rlark get {job.name}")
    if step is None:
        return there[-1]
    for one in there:
        if one["iteration"] == int(step):
            return one
    raise NotFound(f"{job.name} has no checkpoint of iteration {step}", hint=f"there are {_listed(there)}")


def replaying(client: Client, choice: str, updates: int) -> JsonObject:
    """The Job that replays iterations of another one: the same in all but its name, and what it is for.

    Args:
        client: of the platform that has the Job.
        choice: as in `checkpoint_of`; without a step the newest checkpoint after which enough was told.
        updates: how many iterations.

    Raises:
        NotFound: there is no such Job or checkpoint, or too little was told after each.
        UsageError: the Job trains by no engine's configuration.
    """
    name, _, step = choice.partition("@")
    chosen = checkpoint_of(client, choice)
    job = client.job(name)
    told = max(job.metrics().get("iteration", [0]), default=0)
    there = job.checkpoints()
    fits = [one for one in there if one["iteration"] + updates <= told and (not step or one == chosen)]
    if not fits:
        raise NotFound(
            f"{choice} has no checkpoint after which {updates} iterations were told; {told} were told in all",
            hint=f"replay fewer; its checkpoints are at {_listed(there)}",
        )
    path = str(fits[-1]["path"])
    _require_replay(client, f"{name[:_LONGEST]}-replay")
    record = job.record
    body = {key: record[key] for key in ("apiVersion", "kind", "metadata", "spec")}
    body["metadata"] = {"name": f"{name[:_LONGEST]}-replay", "labels": {REPLAY_OF: name}}
    body["spec"] = {key: value for key, value in record["spec"].items() if key not in {"stopped", "backoffLimit"}}
    body["spec"] |= {"restartPolicy": "Never"}
    task = dict(record["spec"]["tasks"][0])
    task.pop("expect", None)
    ray = dict(task.get("ray") or {})
    config = ray.get("config")
    if not isinstance(config, Mapping) or not isinstance(config.get("inline"), Mapping):
        raise UsageError(f"{name} trains by no engine's configuration, so nothing of it can be replayed")
    inline = config["inline"]
    ray["config"] = {**config, "inline": {**inline, "runner": {**inline.get("runner", {}), "resume_dir": path}}}
    kept = [one for one in ray.get("env") or () if one.get("name") != REPLAY_UPDATES]
    ray["env"] = [*kept, {"name": REPLAY_UPDATES, "value": str(updates)}]
    body["spec"]["tasks"] = [{**task, "ray": ray}]
    return body


def _require_replay(client: Client, name: str) -> None:
    """Refuse to take the place of a Job that is no replay.

    Raises:
        UsageError: there is one.
    """
    try:
        there = client.job(name)
    except NotFound:
        return
    if REPLAY_OF not in (there.record.get("metadata", {}).get("labels") or {}):
        raise UsageError(f"a replay would take the place of the Job {name}, which is none", hint=f"rlark delete {name}")


def _listed(there: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(str(one["iteration"]) for one in there)


def _goes_on(draft: Draft, path: str) -> dict[str, object]:
    """The change that makes a Job go on from there."""
    config = _at(parse(draft.text).data, *_CONFIG_PATH)
    if config is None:
        raise UsageError(
            "only a Job with an engine's configuration can go on from a checkpoint, and this one has none",
            hint="a run script takes up its own checkpoints",
        )
    if isinstance(config, Mapping) and "inline" in config:
        return {f"{_CONFIG}.inline.{KEY}": path}
    given = config.get("overrides") if isinstance(config, Mapping) else None
    return {f"{_CONFIG}.overrides": [*(given or []), f"++{KEY}={quoted(path)}"]}


def _at(data: Any, *parts: str | int) -> Any:
    """What stands at a path; None where nothing does."""
    for part in parts:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return None
    return data


def quoted(text: str) -> str:
    """A folder's name as the value of an override."""
    escaped = text.replace("'", "\\'")
    return f"'{escaped}'"
