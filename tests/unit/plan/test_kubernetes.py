"""Jobs as RLark's console posts them, checked against the node they name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlark.plan.decide import decide
from rlark.plan.facts import Facts
from rlark.plan.node import Inventory, Node, default_labels
from rlark.preflight import Preview, preflight
from rlark.sdk.draft import Draft
from rlark.spec import load
from rlark.spec.job import Job, Metadata

GIB = 2**30
NODES = Inventory(
    nodes=[
        Node(name="gpu-node-01", labels=default_labels("gpu-node-01"), cpus=64, memory=256 * GIB, shm=64 * GIB, gpus=8)
    ],
    source="nodes.yaml",
)
WORKLOAD = "spec.tasks[0].kubernetes.workload"
POD = f"{WORKLOAD}.template.spec"
MAIN = f"{POD}.containers[0]"
CLAIM = "pvc-my-training-run-001-worker-mnt-checkpoints"
KIND = f"22:21 warning RL056 {WORKLOAD}.kind"
IMAGE = f"32:30 warning RL254 {MAIN}.image"
STORAGE = f"25:65 warning RL056 {WORKLOAD}.pvcStorageMap.{CLAIM}"
SOURCE = f"67:31 error RL402 {POD}.volumes[0].hostPath.path"


def nobody_looked(_job: Job, _node: Node) -> Facts:
    return Facts()


def without_the_data(_job: Job, _node: Node) -> Facts:
    return Facts(missing_mounts=frozenset({"/data/inputs"}), no_bubblewrap="", missing_secrets=frozenset())


def found(preview: Preview) -> list[str]:
    return [f"{one.line}:{one.column} {one.severity} {one.code} {one.path}" for one in preview.findings]


def read(shared: Path, name: str) -> str:
    return (shared / "cases" / f"{name}.json").read_text()


def test_the_job_with_mounts(shared):
    source = load(read(shared, "rlark-single-node-worker"), file="job.json")
    preview = preflight(source, NODES, nobody_looked)
    assert found(preview) == [KIND, STORAGE, IMAGE]
    assert preview.exit_code == 0
    assert preview.plan is not None
    assert preview.plan.ask.gpus == 8
    assert preview.plan.env == {"WANDB_MODE": "offline"}
    assert [(mount.path, mount.host, mount.volume) for mount in preview.plan.mounts] == [
        ("/mnt/dataset", "/data/inputs", ""),
        ("/mnt/checkpoints", "", CLAIM),
    ]
    assert all(row.ok for row in preview.review)


def test_the_job_with_mounts_where_somebody_looked(shared):
    source = load(read(shared, "rlark-single-node-worker"), file="job.json")
    preview = preflight(source, NODES, without_the_data)
    assert found(preview) == [KIND, STORAGE, IMAGE, SOURCE]
    assert preview.exit_code == 4
    assert [row.check for row in preview.review if not row.ok] == ["Image, command and mounts"]


@pytest.mark.parametrize("look", [nobody_looked, without_the_data])
def test_the_job_without_mounts(shared, look):
    preview = preflight(load(read(shared, "rlark-no-mounts"), file="job.json"), NODES, look)
    assert found(preview) == [f"1:308 warning RL056 {WORKLOAD}.kind", f"1:392 warning RL254 {MAIN}.image"]
    assert preview.plan is not None
    assert (preview.plan.ask.gpus, preview.plan.env, preview.plan.mounts) == (8, {"DEBUG": "true", "N": "12"}, [])


@pytest.mark.parametrize("name", ["rlark-single-node-worker", "rlark-no-mounts"])
def test_what_is_previewed_is_the_identical_job_with_the_same_digest(shared, name):
    first = preflight(load(read(shared, name)), NODES, nobody_looked)
    second = preflight(load(first.yaml), NODES, nobody_looked)
    assert first.job is not None
    assert (second.job, second.yaml, second.digest, second.plan) == (first.job, first.yaml, first.digest, first.plan)


GPUS = f'{MAIN}.resources.{{}}["nvidia.com/gpu"]'


def test_the_same_file_on_another_machine(shared):
    changes = {
        'spec.tasks[0].nodeSelector["kubernetes.io/hostname"]': "box",
        GPUS.format("requests"): 0,
        GPUS.format("limits"): "0",
        f"{POD}.volumes[0].hostPath.path": "/srv",
        "spec.tasks[0].runScript": "cd /srv\ntrue\n",
    }
    box = Inventory(nodes=[Node(name="box", labels=default_labels("box"), cpus=4, memory=GIB)], source="nodes.yaml")
    draft = Draft(read(shared, "rlark-single-node-worker"), file="job.json").changed(changes)
    preview = preflight(draft.load(), box, nobody_looked)
    assert found(preview) == [KIND, STORAGE, IMAGE]
    assert preview.plan is not None
    assert (preview.plan.node, preview.plan.ask.gpus, preview.plan.run) == ("box", 0, "cd /srv\ntrue\n")
    assert preview.plan.mounts[0].host == "/srv"


def test_gpus_set_in_one_place_only_disagree(shared):
    draft = Draft(read(shared, "rlark-no-mounts"), file="job.json").changed({GPUS.format("requests"): 1})
    preview = preflight(draft.load(), NODES, nobody_looked)
    assert [(one.code, one.path) for one in preview.findings if one.severity == "error"] == [
        ("RL052", GPUS.format("limits"))
    ]
    assert [row.check for row in preview.review if not row.ok] == ["GPU"]


def test_idle_gpus_are_told_in_the_words_of_the_form(shared):
    data = json.loads(read(shared, "rlark-no-mounts"))
    data["spec"]["tasks"][0]["ray"] = {
        "config": {"inline": {"cluster": {"num_nodes": 1, "component_placement": {"actor": "0-3"}}}}
    }
    preview = preflight(load(json.dumps(data)), NODES, nobody_looked)
    (idle,) = [one for one in preview.findings if one.code == "RL211"]
    assert idle.path == GPUS.format("requests")
    assert (
        idle.hint
        == 'write nvidia.com/gpu: "4" in requests and limits, or remove it: then it is what the placement needs'
    )


def test_gpus_that_are_not_requested_are_to_be_requested_in_the_words_of_the_form(shared):
    data = json.loads(read(shared, "rlark-no-mounts"))
    data["spec"]["tasks"][0]["ray"] = {
        "config": {"inline": {"cluster": {"num_nodes": 1, "component_placement": {"actor": "0-8"}}}}
    }
    (beyond,) = [one for one in preflight(load(json.dumps(data)), NODES, nobody_looked).findings if one.code == "RL119"]
    assert beyond.hint == 'request nvidia.com/gpu: "9" in requests and limits or place on 0-7'
    assert 'asks for nvidia.com/gpu: "8" in requests and limits, which gives GPUs 0-7' in beyond.message


def test_a_configuration_beside_the_section_is_composed_and_kept(shared):
    data = json.loads(read(shared, "rlark-no-mounts"))
    data["spec"]["tasks"][0]["ray"] = {
        "config": {"inline": {"cluster": {"num_nodes": 1, "component_placement": {"actor": "0-7"}}}}
    }
    preview = preflight(load(json.dumps(data)), NODES, nobody_looked)
    assert preview.exit_code == 0
    assert preview.plan is not None
    assert len(preview.plan.placement["actor"]) == 8
    again = load(preview.yaml).job
    assert again == preview.job
    assert "ray:\n        config:\n          inline:" in preview.yaml
    assert "replicas" not in preview.yaml.split("ray:\n")[1]


def job(**resources: str) -> Job:
    pod = {"containers": [{"name": "logger"}, {"name": "main", "resources": {"requests": resources}}]}
    task = {
        "name": "worker",
        "head": True,
        "agentType": "Kubernetes",
        "runScript": "true",
        "kubernetes": {"workload": {"template": {"spec": pod}}},
    }
    data = {"apiVersion": "rlinf.io/v1alpha1", "kind": "Job", "metadata": {"name": "demo"}, "spec": {"tasks": [task]}}
    draft = load(json.dumps(data)).draft
    assert draft is not None
    return draft


def decided(one: Job) -> list[tuple[str, str, str]]:
    return [
        (found.severity, found.code, found.path)
        for found in decide(one, NODES, Facts()).findings
        if found.code in {"RL050", "RL056", "RL160"}
    ]


@pytest.mark.parametrize("device", ["rlinf.io/device", "rlinf.io/device-franka"])
def test_a_robot_is_asked_for_only_when_its_safety_is_confirmed(device):
    path = f'{POD}.containers[1].resources.requests["{device}"]'
    asks = job(**{device: "1"})
    assert decided(asks) == [("error", "RL160", path)]
    metadata = Metadata(name="demo", annotations={"rlark.io/device-safety-confirmed": "true"})
    assert decided(asks.model_copy(update={"metadata": metadata})) == [("warning", "RL056", path)]
    assert decided(job(**{device: "0"})) == []


def test_the_section_and_the_agent_type_go_together():
    right = job()
    worker = right.worker

    def with_worker(**changes: object) -> Job:
        tasks = [worker.model_copy(update=changes)]
        return right.model_copy(update={"spec": right.spec.model_copy(update={"tasks": tasks})})

    assert decided(right) == []
    assert decided(with_worker(agent_type="Ray")) == [("error", "RL050", "spec.tasks[0].kubernetes")]
    assert decided(with_worker(kubernetes=None)) == [("error", "RL050", "spec.tasks[0].agentType")]
    assert decided(with_worker(kubernetes={})) == [("error", "RL050", "spec.tasks[0].kubernetes")]
    assert decided(with_worker(agent_type="Docker")) == []
