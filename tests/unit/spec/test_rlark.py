from __future__ import annotations

import json
from typing import Any

import pytest

from rlark.spec import Source, load
from rlark.spec.finding import Finding
from rlark.spec.pod_mounts import volume_name

POD = "spec.tasks[0].kubernetes.workload.template.spec"
MAIN = f"{POD}.containers[0]"
WORKLOAD = "spec.tasks[0].kubernetes.workload"


def read(
    container: dict[str, Any] | None = None,
    volumes: list[Any] | None = None,
    *,
    pod: dict[str, Any] | None = None,
    ray: Any = None,
    **workload: Any,
) -> Source:
    """A Job in the Kubernetes form."""
    spec = {"containers": [{"name": "main", **(container or {})}], "volumes": volumes or [], **(pod or {})}
    task = {
        "name": "worker",
        "head": True,
        "agentType": "Kubernetes",
        "runScript": "true",
        "kubernetes": {"workload": {"template": {"spec": spec}, **workload}},
    }
    if ray is not None:
        task["ray"] = ray
    job = {"apiVersion": "rlinf.io/v1alpha1", "kind": "Job", "metadata": {"name": "demo"}, "spec": {"tasks": [task]}}
    return load(json.dumps(job), file="job.json")


def told(source: Source) -> list[tuple[str, str, str]]:
    return [(found.severity, found.code, found.path) for found in source.findings]


def ray_of(source: Source) -> Any:
    assert source.draft is not None
    return source.draft.worker.ray


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


# mounts


def mounts(source: Source) -> list[dict[str, Any]]:
    return [mount.model_dump(exclude_defaults=True, exclude={"name"}) for mount in ray_of(source).mounts]


def test_every_kind_of_volume():
    source = read(
        {
            "volumeMounts": [
                {"name": "in", "mountPath": "/in", "readOnly": True},
                {"name": "in", "mountPath": "/part", "subPath": "a/b"},
                {"name": "tmp", "mountPath": "/tmp/scratch"},
                {"name": "bare", "mountPath": "/bare"},
                {"name": "out", "mountPath": "/out"},
                {"name": "kept", "mountPath": "/kept"},
            ]
        },
        [
            {"name": "in", "hostPath": {"path": "/data/in", "type": "Directory"}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "bare"},
            {"name": "out", "persistentVolumeClaim": {"claimName": "out"}},
            {"name": "kept", "persistentVolumeClaim": {"claimName": "kept", "readOnly": True}},
        ],
        pvcStorageMap={"out": "ceph", "kept": "ceph"},
    )
    assert mounts(source) == [
        {"host_path": "/data/in", "mount_path": "/in", "read_only": True},
        {"host_path": "/data/in/a/b", "mount_path": "/part"},
        {"scratch": True, "mount_path": "/tmp/scratch"},
        {"scratch": True, "mount_path": "/bare"},
        {"volume": "out", "mount_path": "/out"},
        {"volume": "kept", "mount_path": "/kept", "read_only": True},
    ]
    assert told(source) == [("warning", "RL056", f"{WORKLOAD}.pvcStorageMap.{claim}") for claim in ("out", "kept")]


@pytest.mark.parametrize(
    ("empty", "shm", "scratch"),
    [
        ({"medium": "Memory", "sizeLimit": "2Gi"}, "2Gi", False),
        ({"medium": "Memory"}, None, False),
        ({}, None, True),
    ],
)
def test_memory_at_dev_shm_is_shared_memory_and_no_mount(empty, shm, scratch):
    source = read({"volumeMounts": [{"name": "shm", "mountPath": "/dev/shm/"}]}, [{"name": "shm", "emptyDir": empty}])
    assert (told(source), ray_of(source).resources.shm, bool(mounts(source))) == ([], shm, scratch)


def test_what_a_scratch_folder_does_not_honour():
    empty = {"medium": "Memory", "sizeLimit": "1Gi"}
    source = read({"volumeMounts": [{"name": "m", "mountPath": "/ram"}]}, [{"name": "m", "emptyDir": empty}])
    assert told(source) == [("warning", "RL056", f"{POD}.volumes[0].emptyDir.{key}") for key in ("medium", "sizeLimit")]


@pytest.mark.parametrize(
    ("mount", "volume", "found"),
    [
        ({"name": "x"}, {"name": "y"}, ("RL053", f"{MAIN}.volumeMounts[0].name")),
        (
            {},
            {"persistentVolumeClaim": {"claimName": "c"}},
            ("RL053", f"{POD}.volumes[0].persistentVolumeClaim.claimName"),
        ),
        ({}, {"nfs": {"server": "s", "path": "/"}}, ("RL054", f"{POD}.volumes[0].nfs")),
        ({}, {"secret": {"secretName": "s"}}, ("RL054", f"{POD}.volumes[0].secret")),
        ({}, {"emptyDir": {}, "hostPath": {"path": "/a"}}, ("RL054", f"{POD}.volumes[0]")),
        ({"subPath": "a"}, {"emptyDir": {}}, ("RL054", f"{MAIN}.volumeMounts[0].subPath")),
        ({"subPath": "/a"}, {"hostPath": {"path": "/a"}}, ("RL057", f"{MAIN}.volumeMounts[0].subPath")),
        ({"subPath": "a/../../b"}, {"hostPath": {"path": "/a"}}, ("RL057", f"{MAIN}.volumeMounts[0].subPath")),
        ({"subPathExpr": "$(A)"}, {"hostPath": {"path": "/a"}}, ("RL057", f"{MAIN}.volumeMounts[0].subPathExpr")),
    ],
)
def test_mounts_that_cannot_be_made(mount, volume, found):
    source = read(
        {"volumeMounts": [{"name": "v", "mountPath": "/mnt", **mount}]},
        [{"name": mount.get("name", "v"), **volume}] if found[0] != "RL053" or "name" not in mount else [],
    )
    assert told(source) == [("error", *found)]
    assert source.spoils(["spec.tasks[0].ray.mounts"])
    assert mounts(source) == []


def test_a_mount_of_a_volume_that_could_not_be_read_is_not_told_again():
    source = read({"volumeMounts": [{"name": "v", "mountPath": "/mnt"}]}, [{"hostPath": {"path": "/a"}}])
    assert told(source) == [("error", "RL057", f"{POD}.volumes[0].name")]


@pytest.mark.parametrize(
    ("claim", "volume"),
    [
        ("pvc-a", "pvc-a"),
        ("A.b", "a-b-4ff54a77"),
        ("x" * 64, "x" * 50 + "-7ce10097"),
        ("...", "claim-ab5df625"),
    ],
)
def test_a_claim_is_kept_under_a_name_that_a_volume_can_have(claim, volume):
    assert volume_name(claim) == volume
    assert len(volume_name(claim)) <= 63
    assert volume_name(claim + ".") != volume_name(claim)


def test_claims_that_nothing_mounts_and_volumes_too():
    source = read({}, [{"name": "v", "configMap": {"name": "c"}}], pvcStorageMap={"c": "ceph"})
    assert told(source) == [
        ("warning", "RL056", f"{POD}.volumes[0]"),
        ("warning", "RL056", f"{WORKLOAD}.pvcStorageMap.c"),
    ]


# what has no meaning here


@pytest.mark.parametrize(
    ("where", "key", "value"),
    [
        ("container", "command", ["bash"]),
        ("container", "args", ["-c"]),
        ("container", "ports", [{"containerPort": 6379}]),
        ("container", "livenessProbe", {"exec": {}}),
        ("container", "lifecycle", {}),
        ("container", "securityContext", {"privileged": True}),
        ("container", "workingDir", "/workspace"),
        ("container", "colour", "blue"),
        ("pod", "initContainers", [{"name": "i"}]),
        ("pod", "serviceAccountName", "me"),
        ("pod", "tolerations", []),
        ("pod", "affinity", {}),
        ("pod", "hostNetwork", True),
        ("pod", "imagePullSecrets", []),
        ("pod", "restartPolicy", "Always"),
        ("pod", "nodeSelector", {"a": "b"}),
        ("workload", "kind", "Deployment"),
        ("workload", "updateStrategy", {}),
    ],
)
def test_what_has_no_meaning_is_named_where_it_stands(where, key, value):
    sources = {
        "container": lambda: read({key: value}),
        "pod": lambda: read(pod={key: value}),
        "workload": lambda: read(**{key: value}),
    }
    source = sources[where]()
    path = {"container": MAIN, "pod": POD, "workload": WORKLOAD}[where]
    assert told(source) == [("warning", "RL056", f"{path}.{key}")]
    assert source.job is not None


def test_other_containers_and_the_templates_metadata_are_named():
    source = read()
    data = json.loads(source.text)
    template = data["spec"]["tasks"][0]["kubernetes"]["workload"]["template"]
    template["metadata"] = {"labels": {"app": "x"}, "creationTimestamp": None}
    template["spec"]["containers"].insert(0, {"name": "logger", "image": "fluentd:1"})
    assert sorted(told(load(json.dumps(data)))) == [
        ("warning", "RL056", f"{WORKLOAD}.template.metadata"),
        ("warning", "RL056", f"{POD}.containers[0]"),
    ]


def test_the_right_container_is_read_wherever_it_stands():
    containers = [{"name": "logger"}, {"name": "main", "image": "a:1", "env": [{"name": "A", "value": "b"}]}]
    source = read(pod={"containers": containers})
    assert ray_of(source).image == "a:1"
    placed = source.place(Finding(code="RL032", path="spec.tasks[0].ray.env[0].name", message="m"))
    assert placed.path == f"{POD}.containers[1].env[0].name"


# slips


@pytest.mark.parametrize(
    ("wrong", "path", "meant"),
    [
        ({"volumeMount": []}, f"{MAIN}.volumeMount", "volumeMounts"),
        ({"volume_mounts": []}, f"{MAIN}.volume_mounts", "volumeMounts"),
        ({"resource": {}}, f"{MAIN}.resource", "resources"),
        ({"env": [{"name": "A", "valeu": "x"}]}, f"{MAIN}.env[0].valeu", "value"),
    ],
)
def test_a_slip_of_a_key_that_is_read_is_an_error(wrong, path, meant):
    (finding,) = read(wrong).findings
    assert (finding.code, finding.severity, finding.path) == ("RL023", "error", path)
    assert finding.hint == f"did you mean {meant}?"


def test_of_a_broken_list_the_others_keep_their_places():
    source = read(
        {"env": [{"value": "no name"}, {"name": "B", "valueFrom": {"fieldRef": {}}}], "image": "a b:1"},
        kind="Deployment",
    )
    assert sorted(told(source)) == [
        ("error", "RL057", f"{MAIN}.env[0].name"),
        ("warning", "RL056", f"{WORKLOAD}.kind"),
        ("warning", "RL056", f"{MAIN}.env[1].valueFrom.fieldRef"),
    ]
    assert source.spoils(["spec.tasks[0].ray.env"])
    assert not source.spoils(["spec.tasks[0].ray.image"])
    assert ray_of(source).image == "a b:1"


@pytest.mark.parametrize(
    "section",
    [{}, {"workload": None}, {"workload": 3}, {"workload": {"template": []}}, {"workload": {"template": {"spec": 1}}}],
)
def test_however_broken_the_section_there_is_a_draft(section):
    data = json.loads(read().text)
    data["spec"]["tasks"][0]["kubernetes"] = section
    source = load(json.dumps(data))
    assert source.draft is not None
    assert source.draft.worker.kubernetes == section


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
