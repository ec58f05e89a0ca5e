"""The OpenAPI document: every route with its answers, and the real answers held against it."""

from __future__ import annotations

import json

import pytest

from rlark.api import answers
from rlark.errors import ConflictError
from rlark.evidence import manifest
from rlark.testing import job_text, run_through

JOBS = "/api/v1/rlinf.io/v1alpha1/jobs"
NODES = "/api/v1/rlinf.io/v1alpha1/nodes"
PROBLEM = "application/problem+json"
OPEN = {"/livez", "/healthz", "/login", "/login/once/{code}"}


@pytest.fixture
def document(api):
    return api.get("/openapi.json").json()


def operations(document):
    return [(path, verb, one) for path, verbs in document["paths"].items() for verb, one in verbs.items()]


def references(value):
    if isinstance(value, dict):
        here = [value["$ref"]] if "$ref" in value else []
        return here + [found for part in value.values() for found in references(part)]
    return [found for part in value for found in references(part)] if isinstance(value, list) else []


def test_every_route_says_what_it_answers_and_how_it_refuses(document):
    for path, verb, one in operations(document):
        place, told = f"{verb} {path}", one["responses"]
        assert one["summary"], place
        assert one["description"], place
        good = [code for code in told if code.startswith(("2", "3"))]
        assert good, place
        for code in good:
            assert told[code]["description"] not in ("", "Successful Response"), place
            assert code == "204" or all(kind["schema"] for kind in told[code]["content"].values()), place
        refused = {code for code in told if code not in good}
        assert all(set(told[code]["content"]) == {PROBLEM} for code in refused), place
        assert refused >= ({"403"} if path in OPEN else {"400", "401", "403", "503"}), place
        assert ("security" in one) is (path not in OPEN), place
        assert ("404" in told) is ("{" in path), place
        assert ("requestBody" in one) is (verb in ("put", "patch") or (verb == "post" and "413" in told)), place


def test_every_reference_of_the_document_leads_somewhere(document):
    shapes = document["components"]["schemas"]
    assert {ref.rpartition("/")[2] for ref in references(document)} <= set(shapes)
    assert "HTTPValidationError" not in shapes
    assert shapes["Job"]["properties"]["status"] == {"$ref": "#/components/schemas/JobStatus"}


@pytest.fixture
def lived(api):
    """A platform with a Job that ran, one that runs and holds a GPU, and one that waits."""
    api.cluster.script = run_through
    api.controller.submit(job_text("done", gpu=1))
    api.tick()
    api.cluster.script = lambda worker: worker.begin()
    api.controller.submit(job_text("runs", gpu=2))
    worker = api.cluster.worker("runs")
    worker.log("hello")
    worker.iterate(1, 4, meanReward=0.5, loss=None)
    api.controller.submit(job_text("waits", gpu=1))
    (api.folder("done").artifacts / "policy.onnx").write_bytes(b"onnx")
    manifest.write_manifest(api.folder("done").artifacts)
    return api


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/livez", answers.Alive),
        ("/healthz", answers.Health),
        ("/", answers.Index),
        ("/readyz", answers.Ready),
        (JOBS, answers.JobList),
        (f"{JOBS}/done", answers.Job),
        (f"{JOBS}/runs", answers.Job),
        (f"{JOBS}/waits", answers.Job),
        (f"{JOBS}/runs/logs?format=records", answers.LogRecords),
        (f"{JOBS}/done/events", answers.EventList),
        (f"{JOBS}/runs/metrics", answers.Curves),
        (f"{JOBS}/done/artifacts", answers.ArtifactList),
        (f"{JOBS}/waits/artifacts", answers.ArtifactList),
        (NODES, answers.NodeList),
        (f"{NODES}/node-0", answers.NodeState),
        ("/api/v1/queue", answers.Queue),
        ("/api/v1/clusters", answers.ClusterList),
        ("/api/v1/engines", answers.EngineList),
        ("/api/v1/engines/starter-ppo", answers.EngineState),
    ],
)
def test_what_is_answered_has_the_shape_that_is_documented(lived, document, path, shape):
    answer = lived.get(path)
    assert answer.status_code == 200, answer.text
    read = shape.model_validate(answer.json())
    if isinstance(getattr(read, "items", None), list):
        assert read.items
    bare = path.partition("?")[0].replace("/done", "/{name}").replace("/runs", "/{name}").replace("/waits", "/{name}")
    bare = bare.replace("/node-0", "/{name}").replace("/starter-ppo", "/{engine}")
    content = document["paths"][bare]["get"]["responses"]["200"]["content"]
    assert content["application/json"]["schema"] == {"$ref": f"#/components/schemas/{shape.__name__}"}


def test_what_checks_answer_has_the_shape_that_is_documented(lived):
    for text in (job_text("new"), "kind: Job", "{"):
        answers.Validation.model_validate(lived.post("/api/v1/validate", text).json())
        answers.Preview.model_validate(lived.post("/api/v1/preview", text).json())
    refused = lived.post(JOBS, "kind: Job")
    answers.Problem.model_validate(refused.json())
    assert str(refused.status_code) in lived.get("/openapi.json").json()["paths"][JOBS]["post"]["responses"]


def test_every_refusal_has_the_shape_that_is_documented(lived):
    for path in ("/nothing", f"{JOBS}/nobody", f"{JOBS}?limit=x", f"{JOBS}/runs/artifacts/x"):
        answers.Problem.model_validate(lived.get(path).json())
    taken = lived.post(JOBS, job_text("runs", gpu=1))
    assert taken.status_code == ConflictError.http_status
    answers.Problem.model_validate(taken.json())


def test_gpus_that_do_not_exist_are_said_to_be_faked_wherever_they_are_told(lived):
    assert 'rlark_gpus{node="node-0",faked="true",state="leased"} 2' in lived.get("/metrics").text.splitlines()
    [node] = lived.get(NODES).json()["items"]
    assert node["gpusFaked"]
    for gpu in node["leases"][0]["gpus"] + lived.get(f"{JOBS}/runs").json()["status"]["lease"]["gpus"]:
        assert (gpu["faked"], gpu["uuid"]) == (True, None)
    [waiting] = lived.get("/api/v1/queue").json()["items"]
    assert waiting["reason"] == "GPU 0,1 (faked) leased by job runs"
    assert lived.get("/api/v1/clusters").json()["items"][0]["gpusFaked"]
    told = [json.dumps(event) for event in lived.get(f"{JOBS}/done/events").json()["items"]]
    assert any("GPU 0 (faked)" in event for event in told)
