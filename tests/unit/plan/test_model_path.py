"""Where models are said to be, and where they lie."""

from __future__ import annotations

from rlark.plan.model_path import is_unfilled, model_paths, real_models
from rlark.spec.job import Worker

CONFIG = {
    "actor": {"model": {"model_path": "/models/a"}},
    "rollout": {"model": {"model_path": "/models/a"}},
    "reward": {"model": {"model_path": "/elsewhere/b"}},
}


def worker(config, **more):
    mount = {"name": "models", "hostPath": "/data", "mountPath": "/models"}
    ray = {"config": {"inline": config}, "mounts": [mount]}
    return Worker.model_validate({"name": "worker", "head": True, "ray": ray, "runScript": "true"} | more)


def test_each_path_is_told_once_and_what_is_no_path_not_at_all():
    assert model_paths(CONFIG) == {"actor.model.model_path": "/models/a", "reward.model.model_path": "/elsewhere/b"}
    assert model_paths({"actor": {"model": {"model_path": ""}}, "rollout": None, "reward": {"model": 3}}) == {}


def test_a_path_that_nobody_has_filled_in():
    assert is_unfilled("/path/to/model")
    assert is_unfilled("MODEL_PATH")
    assert not is_unfilled("/models/a")
    assert not is_unfilled("Qwen/Qwen2.5")


def test_paths_lie_where_the_mounts_lead():
    assert real_models(worker(CONFIG), "/volumes") == {"/models/a": "/data/a", "/elsewhere/b": "/elsewhere/b"}
    hub = {"actor": {"model": {"model_path": "Qwen/Qwen2.5"}}, "rollout": {"model": {"model_path": "/path/to/it"}}}
    assert real_models(worker(hub), "/volumes") == {}
    assert real_models(worker(CONFIG, runScript=""), "/volumes") == {}
