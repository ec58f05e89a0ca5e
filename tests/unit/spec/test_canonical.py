from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rlark.spec import load
from rlark.spec.canonical import canonical_yaml, digest
from rlark.spec.emit import emit
from rlark.spec.job import Job
from rlark.spec.yaml import parse
from tests.unit.spec.texts import FINITE, LINES, TEXTS, VALUES, same

FINITE_VALUES = st.recursive(
    FINITE, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4), max_leaves=12
)
JOBS = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True),
        "runScript": TEXTS,
        "prepareScript": LINES,
        "labels": st.dictionaries(TEXTS, TEXTS, max_size=3),
        "env": st.lists(TEXTS, max_size=3),
        "inline": st.dictionaries(TEXTS, VALUES, max_size=3),
        "memory": st.sampled_from(["4Gi", 17, "2G"]),
        "gpu": st.none() | st.integers(0, 8),
        "priority": st.integers(-5, 5),
    }
)


@settings(max_examples=50, deadline=None)
@given(JOBS)
def test_a_job_is_read_back_identical(parts):
    job = Job.model_validate(
        {
            "apiVersion": "rlinf.io/v1alpha1",
            "kind": "Job",
            "metadata": {"name": parts["name"], "labels": parts["labels"]},
            "spec": {
                "priority": parts["priority"],
                "tasks": [
                    {
                        "name": "worker",
                        "head": True,
                        "runScript": parts["runScript"] if parts["runScript"].strip() else "",
                        "prepareScript": parts["prepareScript"] if parts["prepareScript"].strip() else "",
                        "ray": {
                            "resources": {"memory": parts["memory"], "gpu": parts["gpu"]},
                            "env": [{"name": f"V{i}", "value": text} for i, text in enumerate(parts["env"])],
                            "config": {"inline": parts["inline"]},
                        },
                    }
                ],
            },
        }
    )
    text = canonical_yaml(job)
    source = load(text)
    assert source.findings == []
    assert source.job is not None
    assert same(source.job.model_dump(), job.model_dump())
    assert canonical_yaml(source.job) == text


QUANTITIES = st.sampled_from(["4Gi", "2G", "128974848", 17])
NAMES = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?", fullmatch=True)
SOURCES = st.one_of(
    st.fixed_dictionaries({"hostPath": st.fixed_dictionaries({"path": TEXTS})}),
    st.fixed_dictionaries({"emptyDir": st.fixed_dictionaries({}, optional={"sizeLimit": QUANTITIES})}),
    st.just({"persistentVolumeClaim": {"claimName": "claim"}}),
    st.just({}),
)
AMOUNTS = st.fixed_dictionaries(
    {}, optional={"cpu": st.sampled_from(["500m", "2", 1, 0.5]), "memory": QUANTITIES, "nvidia.com/gpu": st.just("8")}
)
OF_KUBERNETES = st.fixed_dictionaries(
    {
        "image": st.none() | TEXTS,
        "env": st.lists(TEXTS, max_size=3),
        "volumes": st.lists(SOURCES, max_size=3),
        "requests": AMOUNTS,
        "extra": st.dictionaries(TEXTS, FINITE_VALUES, max_size=2),
        "annotations": st.dictionaries(TEXTS, TEXTS, max_size=2),
        "runScript": TEXTS,
        "prepareScript": LINES,
        "tensorBoardDir": TEXTS,
        "inline": st.none() | st.dictionaries(TEXTS, VALUES, max_size=2),
    }
)


@settings(max_examples=60, deadline=None)
@given(OF_KUBERNETES)
def test_a_job_in_rlarks_form_is_read_back_identical(parts):
    names = [f"v{index}" for index in range(len(parts["volumes"]))]
    container = {
        "name": "main",
        "image": parts["image"],
        "env": [{"name": f"V{index}", "value": text} for index, text in enumerate(parts["env"])],
        "volumeMounts": [{"name": name, "mountPath": f"/mnt/{name}"} for name in names],
        "resources": {"requests": parts["requests"]},
    }
    volumes = [{"name": name, **source} for name, source in zip(names, parts["volumes"], strict=True)]
    template = {
        "metadata": {"annotations": parts["annotations"], "more": parts["extra"]},
        "spec": {"containers": [container], "volumes": volumes},
    }
    worker = {
        "name": "worker",
        "head": True,
        "agentType": "Kubernetes",
        "prepareScript": parts["prepareScript"] if parts["prepareScript"].strip() else "",
        "runScript": parts["runScript"] if parts["runScript"].strip() else "",
        "tensorBoardDir": parts["tensorBoardDir"],
        "kubernetes": {"workload": {"replicas": 1, "pvcStorageMap": {"claim": "x"}, "template": template}},
    }
    if parts["inline"] is not None:
        worker["ray"] = {"config": {"inline": parts["inline"]}}
    data = {"apiVersion": "rlinf.io/v1alpha1", "kind": "Job", "metadata": {"name": "demo"}, "spec": {"tasks": [worker]}}
    job = load(emit(data)).job
    assert job is not None
    text = canonical_yaml(job)
    source = load(text)
    assert source.job is not None
    assert all(finding.severity == "warning" for finding in source.findings)
    assert same(source.job.model_dump(), job.model_dump())
    assert canonical_yaml(source.job) == text
    assert same(yaml.safe_load(text), parse(text).data)
    assert same(yaml.safe_load(text)["spec"]["tasks"][0]["kubernetes"], worker["kubernetes"])


AWKWARD = [
    "cd x\npython y",
    "cd x\npython y\n",
    "cd x\n\n\n",
    "  first line indented\nsecond\n",
    "\n\nleading blank lines\n",
    "\tleading tab\n\tx\n",
    "trailing blanks   \nand\ttabs\t\n",
    "carriage\r\nreturns\r\n",
    "lone\rreturn",
    "next\x85line",
    "line\u2028separator\u2029paragraph\n",
    "\ufeffbyte order mark\n",
    "emoji \U0001f916 训练\n",
    "cat <<'EOF'\n# no comment\n---\n...\nEOF\n",
    'echo "hi" \\ done',
    "",
    " ",
    "\n",
    *("true", "012", "1:30", "null", "~", "1e3", "0x1f", "on", "2024-01-01", ".inf"),
]


@pytest.mark.parametrize("text", AWKWARD)
@pytest.mark.parametrize("form", ["Ray", "Kubernetes"])
def test_every_text_comes_back_byte_for_byte(form, text):
    env = [{"name": "V", "value": text}]
    worker: dict[str, Any] = {"name": "worker", "head": True, "agentType": form, "runScript": f"{text}x{text}"}
    if form == "Ray":
        worker["ray"] = {"env": env}
    else:
        worker["kubernetes"] = {"workload": {"template": {"spec": {"containers": [{"name": "main", "env": env}]}}}}
    data = {"apiVersion": "rlinf.io/v1alpha1", "kind": "Job", "metadata": {"name": "demo"}, "spec": {"tasks": [worker]}}
    job = load(emit(data)).job
    assert job is not None
    written = canonical_yaml(job)
    again = load(written).job
    assert again is not None
    assert (again, canonical_yaml(again)) == (job, written)
    assert (again.worker.ray.env[0].value, again.worker.run) == (text, f"{text}x{text}")
    assert yaml.safe_load(written) == parse(written).data
    task = yaml.safe_load(written)["spec"]["tasks"][0]
    holder = task["ray"] if form == "Ray" else task["kubernetes"]["workload"]["template"]["spec"]["containers"][0]
    assert (task["runScript"], holder["env"][0]["value"]) == (f"{text}x{text}", text)


def read_by_pyyaml(text: str) -> Any:
    """What PyYAML reads; None where it is no YAML."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


@pytest.mark.parametrize("name", ["rlark-single-node-worker", "rlark-no-mounts"])
def test_our_preview_of_the_consoles_jobs_is_what_theirs_is_not(shared, name):
    """Theirs folds scripts to one line, or is no YAML; ours holds the same values for every reader."""
    data = json.loads((shared / "cases" / f"{name}.json").read_text())
    (broken,) = (shared / "cases").glob(f"{name}.preview-*.yaml")
    assert read_by_pyyaml(broken.read_text()) != data
    job = load(json.dumps(data)).job
    assert job is not None
    read_elsewhere = read_by_pyyaml(canonical_yaml(job))
    task = data["spec"]["tasks"][0]
    if not task["prepareScript"]:
        del task["prepareScript"]  # a blank script is an absent one
    assert read_elsewhere == data
    assert list(read_elsewhere["spec"]["tasks"][0]) == list(task)


def test_what_was_read_from_a_section_is_not_written_twice():
    text = """\
apiVersion: rlinf.io/v1alpha1
kind: Job
metadata:
  name: demo
spec:
  tasks:
    - name: worker
      head: true
      agentType: Kubernetes
      runScript: "true"
      kubernetes:
        workload:
          template:
            spec:
              containers:
                - name: main
                  image: a
                  command:
                    - bash
      ray:
        head: platform
      expect:
        gate: true
"""
    job = load(text).job
    assert job is not None
    assert canonical_yaml(job) == text
    assert job.worker.ray.image == "a"


FULL = """\
apiVersion: rlinf.io/v1alpha1
kind: Job
metadata:
  name: demo
  labels: {team: navigation}
spec:
  stopped: false
  activeDeadline: 2h
  tasks:
  - {name: worker, head: true, prepareScript: "", runScript: "  ", nodeSelector: {a: "true"},
     ray: {resources: {cpu: 2, memory: 4Gi}, env: [{name: A, value: "1"}], config: {path: c.yaml}}}
"""


def test_the_canonical_text():
    job = load(FULL).job
    assert job is not None
    assert canonical_yaml(job) == (
        "apiVersion: rlinf.io/v1alpha1\n"
        "kind: Job\n"
        "metadata:\n"
        "  name: demo\n"
        "  labels:\n"
        "    team: navigation\n"
        "spec:\n"
        "  tasks:\n"
        "    - name: worker\n"
        "      head: true\n"
        "      agentType: Ray\n"
        "      nodeSelector:\n"
        '        a: "true"\n'
        "      ray:\n"
        "        replicas: 1\n"
        "        resources:\n"
        "          cpu: 2\n"
        "          memory: 4Gi\n"
        "        env:\n"
        "          - name: A\n"
        '            value: "1"\n'
        "        config:\n"
        "          path: c.yaml\n"
        "  activeDeadline: 2h\n"
    )


def test_the_digest_is_that_of_the_bytes():
    assert digest("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert digest("ä") != digest("a")


@pytest.mark.parametrize(
    ("name", "script"),
    [
        (
            "rlark-single-node-worker",
            "      prepareScript: |-\n        source /opt/venv/bin/activate\n        cd /workspace/RLinf\n",
        ),
        ("rlark-no-mounts", "      runScript: 'echo \"hi\" \\ done'\n"),
    ],
)
def test_scripts_of_the_reference_jobs_keep_their_lines(shared, name, script):
    data = parse((shared / "cases" / f"{name}.json").read_text()).data
    text = emit(data)
    assert same(parse(text).data, data)
    assert script in text
