from __future__ import annotations

from typing import Any

import pytest

from rlark.engine import Engine
from rlark.plan.decide import chosen, make_plan
from rlark.plan.decide import decide as decide_all
from rlark.plan.facts import Facts
from rlark.plan.node import Inventory, Node, default_labels
from rlark.plan.plan import Ask, Output, Plan, Signal
from rlark.plan.review import Row, review
from rlark.spec.job import Job

GIB = 2**30
ENGINES = {
    "walk": Engine("walk", "t", "engines.walk", "p", "c"),
    "apart": Engine("apart", "t", "engines.apart", "p", "c", can_fuse=False),
}


def node(gpus: int = 8, **more: Any) -> Node:
    return Node(name="box", labels=default_labels("box"), cpus=16, memory=64 * GIB, shm=8 * GIB, gpus=gpus, **more)


def config(placement: dict[str, Any], engine: str = "walk", **runner: Any) -> dict[str, Any]:
    return {
        "cluster": {"num_nodes": 1, "component_placement": placement},
        "runner": {"engine": engine, **runner},
    }


def job(inline: dict[str, Any] | None = None, *, spec: dict[str, Any] | None = None, **worker: Any) -> Job:
    ray = dict(worker.pop("ray", {}))
    if inline is not None:
        ray["config"] = {"inline": inline}
    tasks = [{"name": "worker", "head": True, "ray": ray, **worker}]
    return Job.model_validate(
        {
            "apiVersion": "rlinf.io/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "demo"},
            "spec": {"tasks": tasks, **(spec or {})},
        }
    )


def decide(of: Job, *nodes: Node) -> tuple[Plan | None, list[str]]:
    plan, found = make_plan(of, Inventory(nodes=list(nodes or (node(),))), Facts(engines=ENGINES))
    return plan, [finding.code for finding in found]


def planned(of: Job, *nodes: Node) -> Plan:
    plan, found = decide(of, *nodes)
    assert plan is not None, found
    return plan


def test_an_engines_plan():
    of = job(
        config({"actor,rollout,env": 0}),
        spec={"activeDeadline": "2h", "terminationGrace": "5s", "restartPolicy": "OnFailure", "backoffLimit": 2},
        ray={
            "head": "platform",
            "resources": {"cpu": "1500m", "memory": "4Gi", "shm": "1Gi"},
            "env": [{"name": "A", "value": "1"}],
        },
        prepareScript="source x\n",
        tensorBoardDir="tb",
        expect={"outputs": [{"path": "policy.onnx", "minBytes": 1024}], "gate": True},
    )
    plan = planned(of)
    assert plan == Plan(
        job="demo",
        node="box",
        ask=Ask(gpus=1, cpus=1.5, memory=4 * GIB, shm=GIB),
        engine="walk",
        command=["{python}", "-m", "engines.walk"],
        config=config({"actor,rollout,env": 0}),
        placement=plan.placement,
        fused=True,
        prepare="source x\n",
        env={"A": "1"},
        head="platform",
        signal=Signal(pattern=r"iter \d+/\d+"),
        outputs=[Output(path="policy.onnx", min_bytes=1024)],
        evidence=True,
        gate=True,
        deadline_s=7200,
        grace_s=5,
        backoff_limit=2,
        tensorboard="tb",
    )
    assert {name: plan.world_size(name) for name in plan.placement} == {"actor": 1, "rollout": 1, "env": 1}


def test_a_run_scripts_plan():
    of = job(
        config({"actor": "0-3"}, engine="anything"),
        ray={"head": "platform"},
        runScript="python train.py\n",
        prepareScript="  \n",
        expect={"firstSignal": {"pattern": "iter 1/", "within": "5m"}},
    )
    plan = planned(of)
    assert (plan.engine, plan.command, plan.evidence, plan.fused) == ("", [], False, False)
    assert (plan.run, plan.prepare) == ("python train.py\n", "")
    assert plan.signal == Signal(pattern="iter 1/", within=300, expected=True)
    assert plan.ask.gpus == 4


def test_a_run_script_without_a_configuration_takes_no_gpu_unless_it_asks():
    assert planned(job(ray={"head": "platform"}, runScript="true")).ask == Ask(gpus=0, cpus=1)
    of = job(ray={"head": "platform", "resources": {"gpu": 2}}, runScript="true")
    plan = planned(of)
    assert (plan.ask.gpus, plan.signal, plan.placement) == (2, None, {})


@pytest.mark.parametrize(
    ("placement", "request_", "gpus"),
    [
        ({"actor,rollout,env": "all"}, None, 8),
        ({"actor,rollout,env": "all"}, 2, 2),
        ({"actor": 0, "rollout": "1-2", "env": 5}, None, 6),
        ({"actor,rollout,env": 0}, 0, 0),
        ({"actor,rollout": 0, "env": "0:0-3"}, None, 1),
    ],
)
def test_gpus_are_what_the_placement_needs_or_what_is_asked_for(placement, request_, gpus):
    resources = {} if request_ is None else {"resources": {"gpu": request_}}
    assert planned(job(config(placement), ray=resources)).ask.gpus == gpus


def test_a_rank_that_sees_every_gpu_sees_those_of_the_lease():
    everything = {"actor": 0, "rollout": 1, "env": {"node_group": "node", "placement": "0:0-1"}}
    plan = planned(job(config(everything)))
    assert plan.ask.gpus == 2
    assert [rank.gpus for rank in plan.placement["env"]] == [[0, 1], [0, 1]]
    asked = planned(job(config(everything), ray={"resources": {"gpu": 4}}))
    assert (asked.ask.gpus, asked.placement["env"][0].gpus) == (4, [0, 1, 2, 3])
    none = planned(job(config({"actor,rollout,env": {"node_group": "node", "placement": 0}})))
    assert (none.ask.gpus, none.placement["env"][0].gpus) == (0, [])


def test_what_other_errors_leave_undisturbed_is_decided():
    of = job(config({"actor,rollout": 0, "env": "0-1"}), ray={"replicas": 2})
    decided = decide_all(of, Inventory(nodes=[node()]), Facts(engines=ENGINES))
    assert decided.plan is None
    assert decided.placement is not None
    assert decided.placement.world_size("env") == 2
    assert decided.ask.gpus == 2
    beyond = job(config({"actor,rollout,env": "0-9"}))
    assert decide_all(beyond, Inventory(nodes=[node()]), Facts(engines=ENGINES)).placement is None


def test_on_a_node_without_gpus_nothing_is_leased():
    plan = planned(job(config({"actor,rollout,env": 0})), node(gpus=0))
    assert (plan.ask.gpus, plan.placement["env"][0].gpus) == (0, [])


@pytest.mark.parametrize(
    ("placement", "engine", "runner", "fused"),
    [
        ({"actor,rollout,env": 0}, "walk", {}, True),
        ({"actor,rollout,env": 0}, "walk", {"fuse": "auto"}, True),
        ({"actor,rollout,env": 0}, "walk", {"fuse": "never"}, False),
        ({"actor,rollout,env": 0}, "apart", {}, False),
        ({"actor,rollout": 0, "env": 1}, "walk", {}, False),
        ({"actor,rollout": 0, "env": "0:0-1"}, "walk", {}, False),
        ({"actor,rollout,env": "0-1:0"}, "walk", {}, True),
        ({"actor,rollout,env": "all"}, "walk", {}, False),
    ],
)
def test_fused_is_one_rank_each_on_one_resource(placement, engine, runner, fused):
    assert planned(job(config(placement, engine, **runner))).fused is fused


def test_an_engine_that_never_fuses_unless_told():
    of = job(config({"actor,rollout,env": 0}))
    facts = Facts(engines=ENGINES, config_settled={"runner": {"engine": "walk", "fuse": "never"}})
    plan, _ = make_plan(of, Inventory(nodes=[node()]), facts)
    assert plan is not None
    assert not plan.fused


@pytest.mark.parametrize("placement", [{"actor,rollout,env": 0}, {"actor": 0, "rollout": 0, "env": 0}])
def test_stages_take_turns_in_processes_of_their_own(placement):
    train = {"total_num_envs": 8, "rollout_steps": 16}
    plan = planned(job({**config(placement), "rollout": {"pipeline_stage_num": 2}, "env": {"train": train}}))
    assert (plan.fused, plan.stages) == (False, 2)


def test_restarts_need_the_policy():
    of = job(config({"actor,rollout,env": 0}), spec={"backoffLimit": 3})
    assert planned(of).backoff_limit == 0


def test_several_errors_come_together_and_no_plan():
    of = job(config({"actor,rollout,env": "0-9"}), ray={"replicas": 2, "resources": {"cpu": 99}})
    plan, found = decide(of)
    assert plan is None
    assert set(found) == {"RL021", "RL119", "RL212"}


def test_a_busy_node_is_no_error():
    plan, found = decide(
        job(config({"actor,rollout,env": 0}), ray={"resources": {"cpu": 8, "memory": "32Gi"}}),
        node(free_gpus=0, free_cpus=2, free_memory=GIB, holders={"x": 8}),
    )
    assert plan is not None
    assert found == ["RL220"] * 3


def test_what_nobody_knows_is_not_checked():
    unknown = Node(name="box", labels=default_labels("box"), cpus=16, gpus=1)
    of = job(config({"actor,rollout,env": 0}), ray={"resources": {"memory": "900Ti", "shm": "900Ti"}})
    assert decide(of, unknown)[1] == []


def test_a_real_robot_needs_a_confirmation():
    inline = config({"actor,rollout,env": 0}) | {"env": {"train": {"env_type": "realworld"}}}
    assert "RL160" in decide(job(inline))[1]
    confirmed = job(inline).model_copy()
    annotations = {"rlark.io/device-safety-confirmed": "true"}
    metadata = confirmed.metadata.model_copy(update={"annotations": annotations})
    assert "RL160" not in decide(confirmed.model_copy(update={"metadata": metadata}))[1]


def test_the_chosen_node():
    of = job(config({"actor,rollout,env": 0}), nodeSelector={"kubernetes.io/hostname": "box"})
    other = node().model_copy(update={"name": "other", "labels": default_labels("other")})
    found = chosen(of, Inventory(nodes=[node(), other]))
    assert found is not None
    assert found.name == "box"
    assert chosen(job(), Inventory(nodes=[node(), other])) is None


def reviewed(of: Job) -> list[Row]:
    decided = decide_all(of, Inventory(nodes=[node()]), Facts(engines=ENGINES))
    return review(of, decided, node(), decided.findings)


def test_the_review_says_what_is_wrong():
    of = job(config({"actor,rollout,env": 0}), ray={"replicas": 2}, name="trainer")
    rows = {row.check: row for row in reviewed(of)}
    assert list(rows) == [
        "RLark roles",
        "Workers",
        "Ray nodes",
        "Header",
        "GPU",
        "Image, command and mounts",
        "Node",
    ]
    assert {check for check, row in rows.items() if not row.ok} == {
        "RLark roles",
        "Workers",
        "Ray nodes",
        "Header",
    }
    assert (rows["GPU"].expected, rows["GPU"].actual) == ("1, of 8 on box", "1")
    assert rows["Image, command and mounts"].actual == "no image; engine walk; no mounts"
    assert rows["RLark roles"].actual == "1, named trainer"
    assert rows["Ray nodes"].actual == "2; cluster.num_nodes 1"


def test_the_review_of_a_right_job():
    of = job(ray={"head": "platform", "image": "r/i:v1"}, runScript="cd /x && python train.py\n")
    rows = reviewed(of)
    assert all(row.ok for row in rows)
    assert rows[5].actual == "r/i:v1; run script: cd /x && python train.py; no mounts"
    assert rows[4].actual == "0"
