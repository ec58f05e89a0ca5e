"""What an engine leaves to its defaults is checked before the start as well, with the engines there are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engines.starter_ppo import ENGINE as STARTER
from rlark.plan.facts import Facts
from rlark.plan.node import Inventory, Node, default_labels
from rlark.preflight import Preview, preflight
from rlark.spec import load

ROOT = Path(__file__).parents[3]
NODES = Inventory(nodes=[Node(name="box", labels=default_labels("box"), cpus=16)], source="nodes.yaml")


def check(engine, env, placement, **sections) -> Preview:
    inline = {
        "cluster": {"num_nodes": 1, "component_placement": placement},
        "runner": {"engine": engine.id},
        "env": {"train": env},
        **sections,
    }
    job = {
        "apiVersion": "rlinf.io/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "demo"},
        "spec": {"tasks": [{"name": "worker", "head": True, "ray": {"config": {"inline": inline}}}]},
    }
    source = load(json.dumps(job), folder=ROOT / "configs")
    return preflight(source, NODES, lambda _job, _node: Facts(engines={engine.id: engine}))


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "engine_for_tests"))
    from toy_engine import ENGINE

    return ENGINE


THREE = {"actor": 0, "rollout": 0, "env": "0:0-2"}


def test_the_toys_eight_environments_are_no_work_for_three(toy):
    preview = check(toy, {}, THREE)
    (finding,) = preview.findings
    assert (finding.code, finding.path) == ("RL171", "spec.tasks[0].ray.config.inline.env.train.total_num_envs")
    assert finding.message.endswith("env.train.total_num_envs 8 is the engine's default")
    assert "use 6 or 9" in str(finding.hint)
    assert (preview.exit_code, preview.plan) == (3, None)
    assert check(toy, {"total_num_envs": 9}, THREE).plan is not None
    assert check(toy, {}, THREE | {"env": "0:0-3"}).plan is not None


def test_the_toys_actors_share_its_environments(toy):
    (finding,) = check(toy, {}, THREE | {"actor": "0:0-2", "env": 0}).findings
    assert finding.code == "RL181"


def test_starter_ppos_default_is_no_work_for_three():
    task = {"task": "originbot-goal-navigation"}
    (finding,) = check(STARTER, task, THREE).findings
    assert (finding.code, finding.actual) == ("RL171", "64")
    assert "is the engine's default" in finding.message
    assert check(STARTER, task | {"total_num_envs": 66}, THREE).findings == []


@pytest.mark.parametrize(
    ("actor", "code"),
    [
        ({"global_batch_size": 100}, "RL178"),
        ({"global_batch_size": 64, "micro_batch_size": 48}, "RL177"),
        ({"micro_batch_size": 48}, "RL177"),
    ],
)
def test_what_rule_and_model_both_say_is_said_once(actor, code):
    preview = check(STARTER, {"task": "originbot-goal-navigation"}, {"actor,rollout,env": 0}, actor=actor)
    (finding,) = preview.findings
    assert finding.code == code
    assert finding.hint
