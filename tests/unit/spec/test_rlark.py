"""What a kubernetes section says of the container, and what may stand beside it."""

from __future__ import annotations

import pytest

from rlark.spec import load
from rlark.spec.finding import Finding
from tests.unit.spec.conftest import MAIN, POD, WORKLOAD, ray_of, read, told


def test_the_job_of_the_console_is_read_whole(shared):
    source = load((shared / "cases/rlark-single-node-worker.json").read_text())
    assert source.job is not None
    ray = source.job.worker.ray
    assert (ray.replicas, ray.image) == (1, "registry.example.com/rlinf:v0.3.0-cuda12.4")
    assert (ray.resources.gpu, ray.resources.cpu, ray.resources.memory, ray.resources.shm) == (8, 1, None, None)
    assert [(variable.name, variable.value) for variable in ray.env] == [("WANDB_MODE", "offline")]
    assert [(mount.mount_path, mount.host_path, mount.volume, mount.read_only) for mount in ray.mounts] == [
        ("/mnt/dataset", "/data/inputs", None, False),
        ("/mnt/checkpoints", None, "pvc-my-training-run-001-worker-mnt-checkpoints", False),
    ]
    assert source.job.worker.tensor_board_dir == "/mnt/checkpoints/tensorboard"
    assert source.job.worker.run == "cd /workspace/RLinf\npython -m rlinf.run config.yaml"


def test_an_empty_section_of_a_container_says_nothing():
    source = read()
    assert (told(source), ray_of(source).replicas, ray_of(source).resources.gpu) == ([], 1, None)


def test_nulls_say_nothing_as_in_kubernetes():
    source = read(
        {"image": None, "env": [None, {"name": "A", "value": None}], "resources": None},
        [{"name": "unread", "hostPath": None, "emptyDir": None}],
        pod={"affinity": None},
        kind=None,
        replicas=None,
        pvcStorageMap=None,
    )
    assert told(source) == [("warning", "RL056", f"{POD}.volumes[0]")]
    assert [(variable.name, variable.value) for variable in ray_of(source).env] == [("A", "")]


# resources


@pytest.mark.parametrize(
    ("requests", "limits", "gpu"),
    [
        ({"nvidia.com/gpu": "8"}, {"nvidia.com/gpu": "8"}, 8),
        ({"nvidia.com/gpu": 2}, {"nvidia.com/gpu": "2"}, 2),
        ({"nvidia.com/gpu": "1"}, None, 1),
        (None, {"nvidia.com/gpu": "0"}, 0),
        (None, None, None),
    ],
)
def test_gpus_are_requested_or_limited(requests, limits, gpu):
    source = read({"resources": {"requests": requests, "limits": limits}})
    assert (told(source), ray_of(source).resources.gpu) == ([], gpu)


def test_what_is_requested_of_cpu_and_memory_is_leased_and_limits_are_not_enforced():
    source = read(
        {"resources": {"requests": {"cpu": "500m", "memory": "2Gi"}, "limits": {"cpu": "2", "memory": "2048Mi"}}}
    )
    assert (ray_of(source).resources.cpus, ray_of(source).resources.memory_bytes) == (0.5, 2 * 2**30)
    assert told(source) == [("warning", "RL056", f"{MAIN}.resources.limits.cpu")]


def test_only_limits_are_requests_too():
    source = read({"resources": {"limits": {"cpu": 2, "memory": "4Gi"}}})
    assert (told(source), ray_of(source).resources.cpu, ray_of(source).resources.memory) == ([], 2, "4Gi")


@pytest.mark.parametrize(
    ("requests", "limits", "key"),
    [
        ({"nvidia.com/gpu": "2"}, {"nvidia.com/gpu": "1"}, '["nvidia.com/gpu"]'),
        ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "2"}, '["nvidia.com/gpu"]'),
        ({"cpu": "2"}, {"cpu": "500m"}, ".cpu"),
        ({"memory": "2G"}, {"memory": "1Gi"}, ".memory"),
    ],
)
def test_what_is_said_twice_agrees(requests, limits, key):
    source = read({"resources": {"requests": requests, "limits": limits}})
    assert told(source) == [("error", "RL052", f"{MAIN}.resources.limits{key}")]
    assert source.job is None
    assert source.spoils(["spec.tasks[0].ray.resources"])


@pytest.mark.parametrize("amount", ["eight", "1.5", "-1", "", "1k", True, 1.0, [], "9999999"])
def test_gpus_that_are_no_whole_number(amount):
    (finding,) = read({"resources": {"limits": {"nvidia.com/gpu": amount}}}).findings
    assert (finding.code, finding.path) == ("RL057", f'{MAIN}.resources.limits["nvidia.com/gpu"]')


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("gpu", ("error", "RL023")),
        ("nvidia.com/gpus", ("error", "RL023")),
        ("cpus", ("error", "RL023")),
        ("memroy", ("error", "RL023")),
        ("amd.com/gpu", ("warning", "RL056")),
        ("ephemeral-storage", ("warning", "RL056")),
        ("hugepages-2Mi", ("warning", "RL056")),
        ("rdma/hca", ("warning", "RL056")),
    ],
)
def test_resources_that_are_not_leased_are_named_once(name, found):
    source = read({"resources": {"requests": {name: "1"}, "limits": {name: "1"}}})
    place = "requests" + (f'["{name}"]' if "/" in name else f".{name}")
    assert told(source) == [(*found, f"{MAIN}.resources.{place}")]


# variables


def test_a_variable_of_a_secret():
    source = read({"env": [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "huggingface", "key": "token"}}}]})
    (variable,) = ray_of(source).env
    assert (told(source), variable.value_from.secret_ref.name, variable.value_from.secret_ref.key) == (
        [],
        "huggingface",
        "token",
    )


@pytest.mark.parametrize(
    ("value", "expanded"),
    [
        ("$(A)/x", "one/x"),
        ("$(B)", "$(B)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$one"),
        ("$A ${A} $", "$A ${A} $"),
        ("$$", "$"),
        ("$(A", "$(A"),
        ("$()", "$()"),
    ],
)
def test_references_to_variables_before_are_expanded_as_kubernetes_does(value, expanded):
    source = read(
        {"env": [{"name": "A", "value": "one"}, {"name": "V", "value": value}, {"name": "B", "value": "two"}]}
    )
    assert ray_of(source).env[1].value == expanded


def test_what_the_console_generates_is_no_noise_and_other_values_are_told():
    generated = [{"name": "RLARK_TASK_ROLE", "value": "worker"}]
    assert ray_of(read({"env": generated})).env == []
    (variable,) = ray_of(read({"env": [{"name": "RLARK_TASK_ROLE", "value": "Actor"}]})).env
    assert variable.value == "Actor"
    secret = [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}]
    assert [one.name for one in ray_of(read({"env": [*generated, *secret]})).env] == ["T"]


def test_variables_that_nothing_here_can_fill():
    source = read(
        {
            "env": [
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "MODE", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
                {"name": "T", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b", "optional": True}}},
            ],
            "envFrom": [{"secretRef": {"name": "all"}}],
        }
    )
    assert sorted(told(source)) == [
        ("error", "RL057", f"{MAIN}.envFrom"),
        ("error", "RL057", f"{MAIN}.env[1].valueFrom.configMapKeyRef"),
        ("warning", "RL056", f"{MAIN}.env[0].valueFrom.fieldRef"),
        ("warning", "RL056", f"{MAIN}.env[2].valueFrom.secretKeyRef.optional"),
    ]
    assert [variable.name for variable in ray_of(source).env] == ["T"]


def test_a_value_that_may_be_a_secret_is_never_shown():
    (finding,) = read({"env": [{"name": "TOKEN", "value": 90210}]}).findings
    assert (finding.code, finding.path) == ("RL057", f"{MAIN}.env[0].value")
    assert "90210" not in finding.model_dump_json()


# what stands beside the section


def test_head_sandbox_and_configuration_stand_beside():
    config = {"inline": {"cluster": {"num_nodes": 1}}}
    source = read({"image": "a:1"}, ray={"head": "platform", "sandbox": "none", "config": config})
    assert told(source) == []
    ray = ray_of(source)
    assert (ray.head, ray.sandbox, ray.config.inline, ray.image) == ("platform", "none", config["inline"], "a:1")


def test_what_says_the_same_as_the_section_is_no_fault():
    same = {"replicas": 1, "image": "a:1", "resources": {"gpu": 1}, "env": [{"name": "A", "value": "b"}], "mounts": []}
    source = read(
        {"image": "a:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}, "env": [{"name": "A", "value": "b"}]},
        ray=same,
    )
    assert told(source) == []


@pytest.mark.parametrize(
    "beside", [{"image": "b:1"}, {"resources": {"gpu": 1}}, {"replicas": 2}, {"env": [{"name": "A", "value": "c"}]}]
)
def test_what_says_otherwise_is_refused_where_it_stands(beside):
    (key,) = beside
    (finding,) = read({"image": "a:1"}, ray=beside).findings
    assert (finding.code, finding.path) == ("RL052", f"spec.tasks[0].ray.{key}")
    assert WORKLOAD in str(finding.hint)


def test_the_form_of_what_stands_beside_is_checked_as_ever():
    assert told(read(ray={"heda": "job", "imag": "x"})) == [
        ("error", "RL023", "spec.tasks[0].ray.heda"),
        ("error", "RL023", "spec.tasks[0].ray.imag"),
    ]
    assert told(read(ray=[])) == [("error", "RL025", "spec.tasks[0].ray")]


# places


@pytest.mark.parametrize(
    ("rule", "written"),
    [
        ("ray.replicas", f"{WORKLOAD}.replicas"),
        ("ray.image", f"{MAIN}.image"),
        ("ray.env[0].value", f"{MAIN}.env[1].value"),
        ("ray.env[1].valueFrom.secretRef.key", f"{MAIN}.env[2].valueFrom.secretKeyRef.key"),
        ("ray.resources.gpu", f'{MAIN}.resources.limits["nvidia.com/gpu"]'),
        ("ray.resources.cpu", f"{MAIN}.resources.requests.cpu"),
        ("ray.resources.shm", f"{POD}.volumes[0].emptyDir.sizeLimit"),
        ("ray.mounts[0].hostPath", f"{POD}.volumes[1].hostPath.path"),
        ("ray.mounts[0].mountPath", f"{MAIN}.volumeMounts[1].mountPath"),
        ("ray.mounts[0]", f"{MAIN}.volumeMounts[1]"),
        ("ray.mounts[1].volume", f"{POD}.volumes[2].persistentVolumeClaim.claimName"),
        ("ray.config.inline", "spec.tasks[0].ray.config.inline"),
        ("ray.head", "spec.tasks[0].ray.head"),
        ("runScript", "spec.tasks[0].runScript"),
    ],
)
def test_findings_about_derived_values_show_the_written_place(rule, written):
    source = read(
        {
            "env": [
                {"name": "RLARK_TASK_ROLE", "value": "worker"},
                {"name": "A", "value": "a"},
                {"name": "T", "valueFrom": {"secretKeyRef": {"name": "n", "key": "k"}}},
            ],
            "resources": {"limits": {"nvidia.com/gpu": "1"}},
            "volumeMounts": [
                {"name": "shm", "mountPath": "/dev/shm"},
                {"name": "in", "mountPath": "/in"},
                {"name": "out", "mountPath": "/out"},
            ],
        },
        [
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
            {"name": "in", "hostPath": {"path": "/in"}},
            {"name": "out", "persistentVolumeClaim": {"claimName": "c"}},
        ],
        pvcStorageMap={"c": "ceph"},
    )
    assert source.place(Finding(code="RL999", path=f"spec.tasks[0].{rule}", message="m")).path == written


YAML = """\
apiVersion: rlinf.io/v1alpha1
kind: Job
metadata: {name: demo}
spec:
  tasks:
    - name: worker
      head: true
      agentType: Kubernetes
      kubernetes:
        workload:
          template:
            spec:
              containers:
                - name: main
                  image: a:latest
                  imagePullPolicy: Always
                  resources:
                    limits:
                      nvidia.com/gpu: 2
"""


def test_line_and_column_are_those_of_the_written_value():
    source = load(YAML, file="job.yaml")
    assert [str(found).split(" spec")[0] for found in source.findings] == ["job.yaml:16:36: warning RL056"]
    image = source.place(Finding(code="RL252", path="spec.tasks[0].ray.image", message="m"))
    assert (image.line, image.column) == (15, 26)
    gpus = source.place(Finding(code="RL210", path="spec.tasks[0].ray.resources.gpu", message="m"))
    assert (gpus.line, gpus.column) == (19, 39)
