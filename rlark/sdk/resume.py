"""A Job that goes on from another one's checkpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rlark.errors import NotFound, UsageError
from rlark.sdk.draft import Draft
from rlark.spec.yaml import parse

if TYPE_CHECKING:
    from rlark.sdk.client import Client
    from rlark.sdk.transport import JsonObject

_CHOICE = re.compile(r"(?P<job>[^@]+)(?:@(?P<step>\d+))?")
_CONFIG = "spec.tasks[0].ray.config"
KEY = "runner.resume_dir"
UPDATES = "RLARK_REPLAY_UPDATES"
"""By this variable a run knows that it is a replay (`rlark.runtime.replay`)."""


def resumed(client: Client, draft: Draft, choice: str) -> Draft:
    """The same Job, going on from a checkpoint.

    Args:
        client: of the platform that has the checkpoint.
        draft: the Job.
        choice: `JOB` for its newest checkpoint, `JOB@40` for that of iteration 40.

    Raises:
        UsageError: the choice is written otherwise, or the Job trains by no engine's configuration.
        NotFound: there is no such Job, or no such checkpoint; says which there are.
    """
    return draft.changed(_goes_on(draft, checkpoint_of(client, choice)))


def checkpoint_of(client: Client, choice: str) -> str:
    """The folder of a checkpoint on the node.

    Raises:
        UsageError: the choice is not written as JOB or JOB@STEP.
        NotFound: there is no such Job or checkpoint.
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
        return str(there[-1]["path"])
    for one in there:
        if one["iteration"] == int(step):
            return str(one["path"])
    raise NotFound(f"{job.name} has no checkpoint of iteration {step}", hint=f"there are {_listed(there)}")


def replaying(client: Client, choice: str, updates: int) -> JsonObject:
    """The Job that replays iterations of another one: the same in all but its name, and what it is for.

    Args:
        client: of the platform that has the Job.
        choice: as in `resumed`; without a step the newest checkpoint after which enough was told.
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
    fits = [one for one in there if one["iteration"] + updates <= told and (not step or one["path"] == chosen)]
    if not fits:
        raise NotFound(
            f"{choice} has no checkpoint after which {updates} iterations were told; {told} were told in all",
            hint=f"replay fewer; its checkpoints are at {_listed(there)}",
        )
    path = str(fits[-1]["path"])
    record = job.record
    body = {key: record[key] for key in ("apiVersion", "kind", "metadata", "spec")}
    body["metadata"] = {"name": f"{name}-replay", "labels": {"rlark.io/replay-of": name}}
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
    kept = [one for one in ray.get("env") or () if one.get("name") != UPDATES]
    ray["env"] = [*kept, {"name": UPDATES, "value": str(updates)}]
    body["spec"]["tasks"] = [{**task, "ray": ray}]
    return body


def _listed(there: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(str(one["iteration"]) for one in there)


def _goes_on(draft: Draft, path: str) -> dict[str, object]:
    """The change that makes a Job go on from there."""
    config = parse(draft.text).data
    for part in ("spec", "tasks", 0, "ray", "config"):
        try:
            config = config[part]
        except (KeyError, IndexError, TypeError):
            raise UsageError(
                "only a Job with an engine's configuration can go on from a checkpoint, and this one has none",
                hint="a run script takes up its own checkpoints",
            ) from None
    if isinstance(config, Mapping) and "inline" in config:
        return {f"{_CONFIG}.inline.{KEY}": path}
    given = config.get("overrides") if isinstance(config, Mapping) else None
    return {f"{_CONFIG}.overrides": [*(given or []), f"++{KEY}={quoted(path)}"]}


def quoted(text: str) -> str:
    """A folder's name as the value of an override."""
    escaped = text.replace("'", "\\'")
    return f"'{escaped}'"
