from __future__ import annotations

import json

import pytest

from rlark.spec import load
from rlark.spec.finding import Finding
from tests.unit.spec.conftest import MAIN, POD, WORKLOAD, ray_of, read, told


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
