from __future__ import annotations

import json
from pathlib import Path

import pytest

from rlark.spec import Source, load
from rlark.spec.finding import Finding
from rlark.spec.job import Job

GOOD = """\
apiVersion: rlinf.io/v1alpha1
kind: Job
metadata:
  name: demo
spec:
  tasks:
    - name: worker
      head: true
      ray:
        env:
          - {name: A, value: "1"}
        config: {path: c.yaml}
"""


def found(text: str) -> list[str]:
    return [f"{f.line}:{f.column} {f.code} {f.path}" for f in load(text, file="job.yaml").findings]


def test_a_right_job():
    source = load(GOOD, file="job.yaml", folder=Path("/jobs"))
    assert isinstance(source, Source)
    assert isinstance(source.job, Job)
    assert source.job is source.draft
    assert (source.findings, source.spoiled) == ([], ())
    assert source.job.worker.ray.env[0].value == "1"


def test_json_is_the_same_job():
    data = {
        "apiVersion": "rlinf.io/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "demo"},
        "spec": {
            "tasks": [
                {
                    "name": "worker",
                    "head": True,
                    "ray": {"env": [{"name": "A", "value": "1"}], "config": {"path": "c.yaml"}},
                }
            ]
        },
    }
    assert load(json.dumps(data)).job == load(GOOD).job


def test_what_the_server_writes_can_be_submitted_again():
    answer = GOOD.replace(
        "  name: demo\n", "  name: demo\n  uid: 3f\n  generation: 2\n  creationTimestamp: 2026-01-01T00:00:00Z\n"
    )
    answer += "status:\n  phase: Succeeded\n  conditions: []\n"
    assert load(answer).job == load(GOOD).job


def test_all_mistakes_of_the_form_are_told_at_once_in_the_order_of_the_text():
    text = GOOD.replace("kind: Job", "kind: 7").replace("head: true", "head: 1").replace("path: c.yaml", "paht: c.yaml")
    assert found(text) == [
        "2:7 RL025 kind",
        "8:13 RL025 spec.tasks[0].head",
        "12:18 RL023 spec.tasks[0].ray.config.paht",
    ]


def test_the_rest_of_a_broken_job_is_kept_for_the_rules():
    source = load(GOOD.replace("head: true", "head: 1").replace("name: demo", "name: 12"))
    assert source.job is None
    assert source.draft is not None
    assert source.draft.worker.ray.config is not None
    assert source.spoils(["metadata.name"])
    assert source.spoils(["spec.tasks[0].head"])
    assert not source.spoils(["spec.tasks[0].ray.config"])


def test_a_misspelt_key_spoils_the_one_that_was_meant():
    source = load(GOOD.replace("config:", "cofnig:"))
    assert source.spoils(["spec.tasks[0].ray.config"])
    assert not source.spoils(["spec.tasks[0].ray.env"])


def test_of_a_list_only_the_broken_entries_are_left_out():
    text = GOOD.replace(
        '- {name: A, value: "1"}', '- {name: A, value: 1}\n          - {name: B, value: "2"}\n          - 3'
    )
    source = load(text)
    assert source.draft is not None
    assert [variable.name for variable in source.draft.worker.ray.env] == ["B"]


@pytest.mark.parametrize(
    "text",
    [
        "a: 1",
        "kind: Job\nspec: 3",
        "spec: {tasks: [1]}",
        "spec: {tasks: [{}]}",
        "spec: {tasks: {}}",
        "metadata: []\nspec: null",
    ],
)
def test_however_broken_a_mapping_there_is_a_draft(text):
    source = load(text)
    assert source.job is None
    assert isinstance(source.draft, Job)
    assert source.findings


@pytest.mark.parametrize("text", ["", "- a", "x", "a: [", "a: 1\n---\nb: 1\n"])
def test_without_a_mapping_there_is_none(text):
    source = load(text, file="job.yaml")
    assert (source.job, source.draft) == (None, None)
    assert [finding.file for finding in source.findings] == ["job.yaml"]


def test_a_double_key_is_an_error_though_the_rest_is_read():
    source = load(GOOD + "kind: Job\n")
    assert source.job is None
    assert source.draft is not None
    assert [finding.code for finding in source.findings] == ["RL004"]


def test_placing_a_finding():
    source = load(GOOD, file="job.yaml")
    placed = source.place(Finding(code="RL021", path="spec.tasks[0].ray.replicas", message="m", hint="h"))
    assert str(placed) == "job.yaml:9:7: error RL021 spec.tasks[0].ray.replicas: m (h)"
    assert source.place(placed) == placed
    elsewhere = Finding(code="RL021", file="c.yaml", line=3, column=4, message="m")
    assert source.place(elsewhere) == elsewhere


def test_a_value_that_may_be_a_secret_is_never_shown():
    (finding,) = load(GOOD.replace('value: "1"', "value: 90210")).findings
    assert finding.code == "RL025"
    assert "90210" not in finding.model_dump_json()


def test_the_form_rules_of_names(shared):
    cases = json.loads((shared / "cases/job-form.json").read_text())["job_name"]
    for name, verdict in cases:
        job = load(GOOD.replace("name: demo", f"name: {json.dumps(name)}")).job
        assert job is not None
        assert job.name == name, verdict


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("      ray: {resources: {gpu: 1000000000}}", "RL026"),
        (f"      ray: {{resources: {{cpu: {10**400}}}}}", "RL026"),
        (f"      ray: {{resources: {{memory: {10**30}}}}}", "RL026"),
        (f"  priority: {10**30}", "RL026"),
    ],
)
def test_amounts_that_no_machine_has(line, code):
    text = "apiVersion: rlinf.io/v1alpha1\nkind: Job\nmetadata: {name: demo}\nspec:\n  tasks:\n    - name: worker\n"
    assert [finding.code for finding in load(f"{text}      head: true\n{line}\n").findings] == [code]


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('  stopped: "on"', "write true or false, without quotes"),
        ('  stopped: "true"', "write true or false, without quotes"),
        ('  priority: "1"', "write it without quotes"),
        ('  priority: "010"', None),
        ('  priority: "high"', None),
    ],
)
def test_how_to_write_a_truth_value_and_a_number(line, hint):
    (finding,) = load(f"{GOOD}{line}\n").findings
    assert (finding.code, finding.hint) == ("RL025", hint)


def test_what_is_found_in_a_draft_is_told_where_it_was_written():
    source = load(GOOD.replace("          - {name: A", "          - {nam: A}\n          - {name: A"), file="job.yaml")
    assert source.draft is not None
    env, config = "spec.tasks[0].ray.env", "spec.tasks[0].ray.config.path"
    rules = [Finding(code="RL032", path=f"{env}[0].name", message="m"), Finding(code="RL001", path=config, message="m")]
    told = source.of_draft(rules)
    assert [one.path for one in told] == [f"{env}[1].name", config]
    assert [(one.line, one.column) for one in map(source.place, told)] == [(12, 20), (13, 24)]


def test_what_concerns_a_place_that_was_left_out_is_not_told():
    source = load(GOOD.replace("head: true", "head: yes please").replace("name: demo", "name: 7"))
    paths = ["metadata.name", "spec.tasks[0].head", "spec.tasks[0].ray", "spec.tasks[0]", ""]
    found = [Finding(code="RL027", path=path, message="m") for path in paths]
    assert [one.path for one in source.of_draft(found)] == ["spec.tasks[0].ray", "spec.tasks[0]", ""]
