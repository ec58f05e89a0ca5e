from __future__ import annotations

import pytest

from rlark.errors import NotFound, UsageError
from rlark.sdk.draft import Draft
from rlark.sdk.resume import checkpoint_of, quoted, replaying, require_same, resumed

INLINE = "spec: {tasks: [{name: worker, ray: {config: {inline: {runner: {engine: toy}}}}}]}\n"
BY_PATH = "spec: {tasks: [{name: worker, ray: {config: {path: c.yaml, overrides: [a.b=1]}}}]}\n"


class OfJob:
    """A Job of the platform, as far as it is asked."""

    name, phase = "demo", "Stopped"

    def __init__(self, iterations):
        self._iterations = iterations

    @property
    def record(self):
        ray = {"config": {"inline": {"runner": {"engine": "toy"}}}, "env": [{"name": "A", "value": "1"}]}
        task = {"name": "worker", "ray": ray, "expect": {"gate": True}}
        spec = {"tasks": [task], "stopped": True, "restartPolicy": "OnFailure", "backoffLimit": 2}
        return {"apiVersion": "v", "kind": "Job", "metadata": {"name": "demo", "uid": "u"}, "spec": spec, "status": {}}

    def refresh(self):
        return self

    def checkpoints(self):
        of = {"engine": "toy", "task": ""}
        return [{"iteration": number, "path": f"/h/{number}", **of} for number in self._iterations]

    def metrics(self):
        return {"iteration": list(range(1, 11))}


class Client:
    """A platform that has one Job."""

    def __init__(self, *iterations):
        self._job = OfJob(iterations)

    def job(self, name):
        if name != "demo":
            raise NotFound(f"there is no job {name!r}")
        return self._job


@pytest.mark.parametrize(("choice", "path"), [("demo", "/h/12"), ("demo@4", "/h/4")])
def test_the_newest_or_the_one_that_is_chosen(choice, path):
    assert checkpoint_of(Client(4, 12), choice)["path"] == path


@pytest.mark.parametrize(
    ("choice", "error", "said"),
    [
        ("demo@5", NotFound, "no checkpoint of iteration 5"),
        ("demo@", UsageError, "names no checkpoint"),
        ("@4", UsageError, "names no checkpoint"),
        ("demo@last", UsageError, "names no checkpoint"),
        ("other", NotFound, "there is no job 'other'"),
    ],
)
def test_what_is_not_there_is_said(choice, error, said):
    with pytest.raises(error, match=said):
        checkpoint_of(Client(4, 12), choice)


def test_a_job_without_a_checkpoint_says_how_it_stands():
    with pytest.raises(NotFound, match="demo has no checkpoint to go on from; it is Stopped"):
        checkpoint_of(Client(), "demo")


def test_the_configuration_says_where_to_go_on_however_it_is_written():
    written = resumed(Draft(INLINE), {"path": "/h/4"}).changes
    assert written == {"spec.tasks[0].ray.config.inline.runner.resume_dir": "/h/4"}
    written = resumed(Draft(BY_PATH), {"path": "/h/4"}).changes
    assert written == {"spec.tasks[0].ray.config.overrides": ["a.b=1", "++runner.resume_dir='/h/4'"]}


@pytest.mark.parametrize("text", ["spec: {tasks: [{name: worker, runScript: x}]}\n", "[]\n", "spec: 3\n"])
def test_only_an_engine_goes_on(text):
    with pytest.raises(UsageError, match="only a Job with an engine's configuration can go on"):
        resumed(Draft(text), {"path": "/h/4"})


TRAINS = "spec: {tasks: [{ray: {config: {inline: {runner: {engine: toy}, env: {train: {task: %s}}}}}}]}\n"


@pytest.mark.parametrize("task", ["walk", "{id: walk, seed: 3}"], ids=["by name", "whole"])
def test_a_checkpoint_of_something_else_is_refused_before_anything_starts(task):
    text, here = TRAINS % task, {"path": "/h/4"}
    require_same(text, {**here, "engine": "toy", "task": "walk"})
    require_same(text, {**here, "engine": "", "task": ""})  # written before checkpoints said it
    with pytest.raises(UsageError, match="/h/4 is of the engine other, and this Job trains the engine toy"):
        require_same(text, {**here, "engine": "other", "task": "walk"})
    with pytest.raises(UsageError, match="is of the task run, and this Job trains the task walk"):
        require_same(text, {**here, "engine": "toy", "task": "run"})
    require_same("", {**here, "engine": "toy", "task": "walk"})


@pytest.mark.parametrize("path", ["/a b/c", "/it's", "/a,b={c}[1]"])
def test_whatever_a_folder_is_called_it_is_one_value_of_an_override(path):
    from hydra.core.override_parser.overrides_parser import OverridesParser

    (override,) = OverridesParser.create().parse_overrides([f"++runner.resume_dir={quoted(path)}"])
    assert str(override.value()) == path


def test_a_replay_is_the_same_job_without_what_it_expects():
    job = replaying(Client(2, 4, 8, 10), "demo", 3)
    assert job["metadata"] == {"name": "demo-replay", "labels": {"rlark.io/replay-of": "demo"}}
    (task,) = job["spec"]["tasks"]
    assert task["ray"]["config"]["inline"] == {"runner": {"engine": "toy", "resume_dir": "/h/4"}}
    assert task["ray"]["env"][-1] == {"name": "RLARK_REPLAY_UPDATES", "value": "3"}
    assert "expect" not in task
    assert job["spec"]["restartPolicy"] == "Never"
    assert not {"stopped", "backoffLimit"} & set(job["spec"])


def test_a_replay_takes_no_other_jobs_place(monkeypatch):
    client = Client(4)
    monkeypatch.setattr(client, "job", lambda name: OfJob([4]))
    with pytest.raises(UsageError, match="a replay would take the place of the Job demo-replay, which is none"):
        replaying(client, "demo", 3)


def test_a_replay_of_more_than_was_told_is_refused():
    with pytest.raises(
        NotFound, match="demo has no checkpoint after which 7 iterations were told; 10 were told in all"
    ):
        replaying(Client(4, 8), "demo", 7)
    with pytest.raises(NotFound, match="demo@8 has no checkpoint after which 3 iterations were told"):
        replaying(Client(4, 8), "demo@8", 3)
