from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

from rlark.engine import find_engines, load_attribute
from rlark.spec import workload
from rlark.spec.schema import config_schema, job_schema, schema_text
from rlark.spec.yaml import parse

ROOT = Path(__file__).resolve().parents[3]
BROKEN = ROOT / "tests/unit/preflight/broken"
SCHEMAS = ROOT / "schemas"
OLD_TO_DRAFT_07 = {"$defs", "prefixItems", "unevaluatedProperties", "unevaluatedItems", "dependentRequired", "$anchor"}
FORM = {
    *("RL020", "RL021", "RL022", "RL023", "RL024", "RL025", "RL026", "RL027", "RL028", "RL029", "RL030", "RL031"),
    *("RL032", "RL034", "RL035", "RL036", "RL038", "RL042", "RL043", "RL047", "RL055", "RL250"),
}
"""What a schema can say: names, kinds, amounts, what goes together."""
OF_RLARKS_FORM = {part.__name__ for part in workload.Part.__subclasses__()}
"""Whatever else stands there is kept, and told of: a pod has more keys than we read."""


def config(engine: str) -> dict[str, Any]:
    return config_schema(load_attribute(find_engines()[engine].config), f"A configuration of {engine}")


SCHEMA_OF = {"job": job_schema} | {
    f"config-{engine}": (lambda engine=engine: config(engine)) for engine in ("starter-ppo",)
}
every_schema = pytest.mark.parametrize("name", SCHEMA_OF)


def within(node: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every mapping of a schema; what stands in examples and defaults is no schema."""
    if isinstance(node, dict):
        yield path, node
        for word, value in node.items():
            if word not in ("examples", "default", "const", "enum"):
                yield from within(value, f"{path}/{word}")
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from within(value, f"{path}/{index}")


def fields(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field of every section; the branches of a oneOf only say which of them go together."""
    for path, node in within(schema):
        if "/oneOf/" not in path and not path.endswith("/properties"):
            for name, entry in node.get("properties", {}).items():
                yield f"{path}/{name}", entry


@every_schema
def test_it_is_draft_07_and_nothing_newer(name):
    schema = SCHEMA_OF[name]()
    Draft7Validator.check_schema(schema)
    assert schema["$schema"] == "http://json-schema.org/draft-07/schema#"
    for path, node in within(schema):
        assert not OLD_TO_DRAFT_07 & set(node), path
        assert "$ref" not in node or len(node) == 1, f"{path}: what stands beside $ref is ignored"


@every_schema
def test_every_field_has_a_description_and_an_example_that_is_right(name):
    schema = SCHEMA_OF[name]()
    found = dict(fields(schema))
    assert len(found) > 50
    for path, entry in found.items():
        assert entry.get("description", "").strip(), path
        assert entry.get("examples"), path
        for example in entry["examples"]:
            Draft7Validator(entry | {"definitions": schema["definitions"]}).validate(example)


@every_schema
def test_unknown_keys_are_refused_wherever_we_refuse_them(name):
    schema = SCHEMA_OF[name]()
    for part, properties in [("", schema), *schema["definitions"].items()]:
        if "properties" in properties:
            assert properties["additionalProperties"] is (part in OF_RLARKS_FORM), part


@every_schema
def test_the_committed_file_is_what_rlark_says(name):
    file = SCHEMAS / f"{name}.schema.json"
    command = f"rlark schema {name.replace('config-', 'config --engine ')} > schemas/{file.name}"
    assert file.read_text(encoding="utf-8") == schema_text(SCHEMA_OF[name]()), f"run: {command}"


def test_every_engine_of_ours_has_its_schema_committed():
    ours = {engine.id for engine in find_engines().values() if engine.module.startswith("engines.")}
    assert {f"config-{engine}.schema.json" for engine in ours} | {"job.schema.json"} == {
        file.name for file in SCHEMAS.iterdir()
    }


def main(**container: Any) -> dict[str, Any]:
    """A kubernetes section with one container."""
    return {"workload": {"template": {"spec": {"containers": [{"name": "main", **container}]}}}}


@pytest.mark.parametrize("file", sorted([*ROOT.glob("job_specs/*.yaml"), *ROOT.glob("configs/*.yaml")]), ids=str)
def test_what_we_ship_is_right_and_names_its_schema(file):
    text = file.read_text(encoding="utf-8")
    modeline = text.splitlines()[0]
    assert modeline.startswith("# yaml-language-server: $schema=")
    schema = json.loads((file.parent / modeline.partition("=")[2]).read_text(encoding="utf-8"))
    Draft7Validator(schema).validate(parse(text).data)


@pytest.mark.parametrize("name", ["rlark-single-node-worker.json", "rlark-no-mounts.json"])
def test_jobs_as_rlarks_console_posts_them_are_right(name, shared):
    Draft7Validator(job_schema()).validate(json.loads((shared / "cases" / name).read_text(encoding="utf-8")))


def codes_of(file: Path) -> set[str]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return {line.split()[4] for line in lines if line.startswith("# expect ") and " error " in line}


def a_job(file: Path) -> bool:
    data = parse(file.read_text(encoding="utf-8")).data
    return isinstance(data, dict) and "spec" in data and "kubernetes:" not in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("file", sorted(filter(a_job, BROKEN.glob("*.yaml"))), ids=lambda file: file.stem)
def test_a_job_whose_form_is_wrong_is_refused_and_no_other(file):
    right = Draft7Validator(job_schema()).is_valid(parse(file.read_text(encoding="utf-8")).data)
    assert right == (not codes_of(file) & FORM and file.stem != "image_empty")


@pytest.mark.parametrize(
    ("where", "wrong"),
    [
        ("algorithm", {"gama": 0.9}),
        ("algorithm", {"gamma": 1.5}),
        ("algorithm", {"gamma": "high"}),
        ("runner", {"engine": "other"}),
        ("env", {"train": {"task": 7}}),
        ("env", {"train": {"task": {"id": "Not A Name"}}}),
        ("cluster", {"num_nodes": 2}),
    ],
)
def test_a_configuration_that_is_wrong_is_refused(where, wrong):
    assert not Draft7Validator(config("starter-ppo")).is_valid({where: wrong})


@pytest.mark.parametrize(
    "part",
    [
        {"defaults": ["base", "_self_"], "hydra": {"searchpath": ["file:///data"]}},
        {"algorithm": {"seed": "${oc.env:SEED}", "gamma": "???"}},
        {"env": "${other.env}"},
        {"env": {"train": {"task": "tasks/mine.yaml"}}},
    ],
)
def test_a_part_of_a_configuration_and_what_is_filled_in_later_are_right(part):
    Draft7Validator(config("starter-ppo")).validate(part)


@pytest.mark.parametrize(
    ("section", "right"),
    [
        ({"workload": {"template": {"spec": {"containers": [{"name": "main", "tty": True}]}}}}, True),
        ({"workload": {"template": {"spec": {"containers": []}}}}, False),
        ({"workload": {"replicas": "one"}}, False),
        ({"workload": {"template": {"spec": {"containers": [{"name": "main", "image": 7}]}}}}, False),
        (main(resources={"requests": {"nvidia.com/gpu": "8", "rdma/hca": 1, "cpu": "500m"}}), True),
        (main(resources={"requests": {"memory": "4 GB"}}), False),
        (main(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]), True),
        (main(env=[{"value": "a"}]), False),
        (main(volumeMounts=[{"name": "data", "mountPath": "/data"}], livenessProbe={"exec": {}}), True),
        (main(volumeMounts=[{"name": "data"}]), False),
    ],
)
def test_the_kubernetes_section_is_checked_loosely(section, right, shared):
    job = json.loads((shared / "cases/rlark-no-mounts.json").read_text(encoding="utf-8"))
    job["spec"]["tasks"][0]["kubernetes"] = section
    assert Draft7Validator(job_schema()).is_valid(job) == right


def test_what_a_server_answers_is_right(shared):
    job = json.loads((shared / "cases/rlark-no-mounts.json").read_text(encoding="utf-8"))
    job["metadata"] |= {"uid": "7f", "resourceVersion": "12", "creationTimestamp": "2026-01-31T12:00:00Z"}
    Draft7Validator(job_schema()).validate(job | {"status": {"phase": "Succeeded"}})


def test_it_is_printed_without_anything_heavy():
    code = "from rlark.cli.main import run; run(['schema', 'config']); import sys; print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.split(".")[0] for name in ran.stderr.split()}
    assert loaded & {"ray", "torch", "jax", "numpy", "onnx", "hydra"} == set()
