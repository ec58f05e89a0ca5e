"""Jobs over HTTP."""

from __future__ import annotations

import json

import pytest

from rlark.spec.status import Phase
from rlark.testing import job_text, run_through

from .conftest import JOBS, NODES, events_of, problem


def submit(api, name: str = "demo", **more):
    answer = api.post(JOBS, job_text(name, **more))
    assert answer.status_code == 201, answer.text
    return answer.json()


def test_submit_look_and_end(api):
    answer = api.post(JOBS, job_text(gpu=1), headers={"Content-Type": "application/yaml"})
    assert answer.status_code == 201
    assert answer.headers["location"] == f"{JOBS}/demo"
    job = answer.json()
    assert set(job) == {"apiVersion", "kind", "metadata", "spec", "status"}
    assert job["status"]["lease"]["gpus"] == [{"logical": 0, "id": "0", "uuid": None, "faked": True}]
    api.cluster.worker("demo").iterate(3, 8, meanReward=1.5, odd=None)
    assert api.get(f"{JOBS}/demo").json()["status"]["progress"] == {
        "iteration": 3,
        "iterations": 8,
        "metrics": {"meanReward": 1.5, "odd": None},
    }
    api.cluster.worker("demo").finish(verified=True, gate=False)
    api.tick()
    status = api.get(f"{JOBS}/demo").json()["status"]
    assert (status["phase"], status["verified"], status["qualityGatePassed"]) == ("Succeeded", True, False)
    reasons = [event["reason"] for event in api.get(f"{JOBS}/demo/events").json()["items"]]
    assert reasons[:3] == ["Accepted", "Leased", "Launched"]
    problem(api.get(f"{JOBS}/nothing"), 404, "not_found")


def test_the_same_again_is_200_and_a_new_attempt_201(api):
    submit(api)
    assert api.post(JOBS, job_text()).status_code == 200
    api.cluster.worker("demo").finish()
    api.tick()
    again = api.post(JOBS, job_text())
    assert (again.status_code, again.json()["status"]["attempt"]) == (201, 2)


def test_an_idempotency_key(api):
    first = api.post(JOBS, job_text(), headers={"Idempotency-Key": "k"})
    second = api.post(JOBS, job_text(), headers={"Idempotency-Key": "k"})
    assert (first.status_code, second.status_code) == (201, 200)
    assert problem(api.post(JOBS, job_text("x"), headers={"Idempotency-Key": "k"}), 409, "conflict")["exitCode"] == 7


def test_a_wrong_job_is_a_422_with_findings(api):
    body = problem(api.post(JOBS, job_text().replace('"replicas": 1', '"replicas": 2')), 422, "invalid_spec")
    assert body["exitCode"] == 3
    assert "RL021" in {finding["code"] for finding in body["findings"]}
    never = problem(api.post(JOBS, job_text(gpu=9)), 422, "cannot_place")
    assert never["exitCode"] == 4
    assert api.get(JOBS).json() == {"items": [], "continue": None}


def test_a_relative_configuration_is_refused_over_the_bare_api(api):
    job = json.loads(job_text())
    job["spec"]["tasks"][0]["ray"]["config"] = {"path": "../configs/x.yaml"}
    assert problem(api.post(JOBS, json.dumps(job)), 422, "invalid_spec")["findings"]


def test_dry_run_and_replace(api):
    answer = api.post(f"{JOBS}?dryRun=All", job_text())
    assert (answer.status_code, answer.json()["status"]["phase"]) == (200, "Pending")
    assert api.get(JOBS).json()["items"] == []
    problem(api.post(f"{JOBS}?dryRun=Some", job_text()), 400, "usage")
    submit(api)
    problem(api.post(f"{JOBS}?replace=true", job_text(run="echo 2\n")), 409, "conflict")
    api.cluster.worker("demo").finish()
    api.tick()
    problem(api.post(JOBS, job_text(run="echo 2\n")), 409, "conflict")
    assert api.post(f"{JOBS}?replace=true", job_text(run="echo 2\n")).status_code == 201


def test_list_by_label_and_phase_in_pages(api):
    for number in range(5):
        labels = {"metadata": {"labels": {"parity": str(number % 2), "n": str(number)}}}
        submit(api, f"job-{number}", cpu=0.5)
        assert api.ask("PATCH", f"{JOBS}/job-{number}", json=labels).status_code == 200
    api.cluster.worker("job-3").finish()
    api.tick()

    def names(query: str) -> list[str]:
        return [job["metadata"]["name"] for job in api.get(f"{JOBS}?{query}").json()["items"]]

    assert names("labelSelector=parity%3D1") == ["job-3", "job-1"]
    assert names("labelSelector=parity!%3D1,n+in+(0,2)") == ["job-2", "job-0"]
    assert names("phase=succeeded") == ["job-3"]
    assert names("phase=Running,Pending&labelSelector=!nothing") == ["job-4", "job-2", "job-1", "job-0"]
    page = api.get(f"{JOBS}?limit=3").json()
    rest = api.get(f"{JOBS}?limit=3&continue={page['continue']}").json()
    assert [job["metadata"]["name"] for job in page["items"] + rest["items"]] == [f"job-{n}" for n in (4, 3, 2, 1, 0)]
    assert rest["continue"] is None
    for query in ("labelSelector==", "labelSelector=a+in+()x", "phase=Dreaming", "continue=x"):
        problem(api.get(f"{JOBS}?{query}"), 400, "usage")


def test_patch_stops_and_starts(api):
    submit(api)
    stopped = api.ask("PATCH", f"{JOBS}/demo", json={"spec": {"stopped": True}}).json()
    assert (stopped["status"]["phase"], stopped["spec"]["stopped"]) == ("Stopped", True)
    started = api.ask("PATCH", f"{JOBS}/demo", json={"spec": {"stopped": False}}).json()
    assert (started["status"]["phase"], started["status"]["attempt"]) == ("Running", 2)
    restarted = api.post(f"{JOBS}/demo/restart").json()
    assert restarted["status"]["attempt"] == 3
    problem(api.ask("PATCH", f"{JOBS}/nothing", json={"spec": {"stopped": True}}), 404, "not_found")
    problem(api.post(f"{JOBS}/nothing/restart"), 404, "not_found")


def test_put(api):
    submit(api)
    put = api.ask("PUT", f"{JOBS}/demo", content=job_text(stopped=True))
    assert put.json()["status"]["phase"] == "Stopped"
    problem(api.ask("PUT", f"{JOBS}/other", content=job_text("other")), 404, "not_found")
    problem(api.ask("PUT", f"{JOBS}/demo", content=job_text("other")), 400, "usage")


def test_delete_says_whether_it_is_gone(api):
    submit(api)
    api.cluster.worker("demo").obeys = False
    assert api.ask("DELETE", f"{JOBS}/demo").status_code == 202
    api.cluster.worker("demo").finish(143, reason="Stopped")
    api.tick()
    problem(api.get(f"{JOBS}/demo"), 404, "not_found")
    submit(api)
    api.cluster.worker("demo").finish()
    api.tick()
    assert api.ask("DELETE", f"{JOBS}/demo").status_code == 204
    problem(api.ask("DELETE", f"{JOBS}/demo"), 404, "not_found")


def test_validate_and_preview(api):
    good = api.post("/api/v1/validate", job_text()).json()
    assert (good["ok"], good["exitCode"]) == (True, 0)
    bad = api.post("/api/v1/validate", job_text(gpu=9)).json()
    assert (bad["ok"], bad["exitCode"]) == (False, 4)
    assert "curable" not in bad["findings"][0]
    preview = api.post("/api/v1/preview", job_text(gpu=1)).json()
    assert api.post("/api/v1/preview", job_text(gpu=9)).json()["exitCode"] == 4
    assert {"name", "ok", "yaml", "digest", "findings", "review", "node", "placement"} <= set(preview)
    canonical = api.post("/api/v1/preview?format=yaml", job_text())
    assert canonical.headers["content-type"].startswith("application/yaml")
    assert api.post("/api/v1/preview?format=yaml", canonical.text).text == canonical.text
    problem(api.post("/api/v1/preview?format=yaml", job_text(gpu=9)), 422, "cannot_place")
    problem(api.post("/api/v1/preview?format=svg", job_text()), 422, "invalid_spec")
    problem(api.post("/api/v1/preview?format=gif", job_text()), 400, "usage")
    assert api.post("/api/v1/validate", "").json()["ok"] is False


def test_nodes_queue_clusters_engines(api):
    submit(api, "holder", gpu=2)
    submit(api, "next", gpu=1)
    (node,) = api.get(NODES).json()["items"]
    assert (node["name"], node["phase"], node["gpus"], node["freeGpus"]) == ("node-0", "Online", 2, 0)
    assert node["leases"][0]["job"] == "holder"
    assert node["leases"][0]["gpus"][1]["id"] == "1"
    assert node["used"] == {"cpus": 1.0, "memory": 0, "gpus": 2}
    assert api.get(f"{NODES}/node-0").json() == node
    problem(api.get(f"{NODES}/nowhere"), 404, "not_found")
    assert api.get("/api/v1/queue").json()["items"][0]["reason"].startswith("GPU 0,1 (faked) leased by job holder")
    (cluster,) = api.get("/api/v1/clusters").json()["items"]
    assert (cluster["gpus"], cluster["gpuUsage"], cluster["runningJobs"]) == (2, 1.0, 1)
    engines = api.get("/api/v1/engines").json()["items"]
    for engine in engines:
        assert api.get(f"/api/v1/engines/{engine['id']}").json() == engine
        assert {"id", "title", "components", "requirements", "available"} <= set(engine)
    problem(api.get("/api/v1/engines/nothing"), 404, "not_found")


def test_patch_node(api):
    answer = api.ask("PATCH", f"{NODES}/node-0", json={"spec": {"unschedulable": True}})
    assert answer.json()["phase"] == "Cordoned"
    problem(api.ask("PATCH", f"{NODES}/node-0", json={"spec": {"gpus": 8}}), 400, "usage")
    problem(api.ask("PATCH", f"{NODES}/nowhere", json={}), 404, "not_found")


def test_metrics_for_prometheus(api):
    submit(api, gpu=1)
    answer = api.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    assert 'rlark_jobs{phase="Running"} 1' in lines
    assert "rlark_queue_depth 0" in lines
    assert 'rlark_gpus{node="node-0",faked="true",state="leased"} 1' in lines
    assert 'rlark_gpus{node="node-0",faked="true",state="free"} 1' in lines
    assert {f'rlark_jobs{{phase="{phase}"}}' for phase in Phase} <= {line.rpartition(" ")[0] for line in lines}


def test_readyz(api):
    assert api.get("/readyz").json() == {"ready": True, "reason": ""}
    api.cluster.down = "the head is gone"
    api.clock.advance(3)
    assert "the head is gone" in problem(api.get("/readyz"), 503, "unavailable")["detail"]


def test_watch_tells_what_changes_and_what_goes(api):
    from rlark.api.follow import JobsWatcher

    submit(api, "old")
    watcher = JobsWatcher(api.reader, lambda job: job["metadata"]["name"] != "hidden")
    assert [m.data["metadata"]["name"] for m in watcher.poll()] == ["old"]
    assert watcher.poll() == []
    submit(api, "hidden")
    submit(api, "new", cpu=0.5)
    assert [m.data["metadata"]["name"] for m in watcher.poll()] == ["new"]
    api.controller.stop("new")
    last = watcher.poll()[-1]
    assert (last.data["metadata"]["name"], last.data["status"]["phase"]) == ("new", "Stopped")
    api.controller.delete("new")
    api.controller.delete("hidden")
    told = watcher.poll()
    assert [(m.event, m.data) for m in told] == [("deleted", {"name": "new"})]
    resumed = JobsWatcher(api.reader, lambda _: True, last.id)
    assert [m.event for m in resumed.poll()] == ["deleted", "deleted"]
    shown = JobsWatcher(api.reader, lambda _: True, show=lambda job: {"name": job["metadata"]["name"]})
    assert {"name": "old"} in [m.data for m in shown.poll()]
    problem(api.get(f"{JOBS}?watch=1", headers={"Last-Event-ID": "x"}), 400, "usage")


# ---- bad input never is a 500

BODIES = [
    b"",
    b"\xff\xfe\x00",
    b"\x00",
    b"{",
    b"[]",
    b"null",
    b"3",
    b'"text"',
    b"{}",
    b'{"spec": null}',
    b'{"metadata": 3, "spec": []}',
    b'{"apiVersion": "rlinf.io/v1alpha1", "kind": "Job", "metadata": {"name": "x"}, "spec": {"tasks": [null]}}',
    b'{"metadata": {"name": null, "labels": {"a": 1}}}',
    b"- a\n- b\n",
    b"a: 1\na: 2\n",
    b"&a [*a]",
    b"a: &x {b: *x}\n",
    b"%YAML 9.9\n---\na\n",
    b"!!python/object/apply:os.system ['true']\n",
    b"[" * 20000,
    b'{"a":' * 5000,
    b"a: " + b"9" * 5000,
    b'{"spec": {"stopped": NaN}}',
    "apiVersion: rlinf.io/v1alpha1\nkind: Job\nmetadata: {name: 训练}\nspec: {tasks: [{name: worker}]}\n".encode(),
    b'{"metadata": {"name": "\\ud800"}}',
    b"a" * 70000,
    b"a: |\n" + b"  x\n" * 20000,
]


ROUTES = (
    ("POST", JOBS),
    ("POST", f"{JOBS}?dryRun=All"),
    ("POST", "/api/v1/validate"),
    ("POST", "/api/v1/preview"),
    ("PUT", f"{JOBS}/demo"),
    ("PATCH", f"{JOBS}/demo"),
    ("PATCH", f"{NODES}/node-0"),
)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_no_body_breaks_a_route(api, method, path):
    submit(api)
    for number, body in enumerate(BODIES):
        answer = api.ask(method, path, content=body)
        assert answer.status_code < 500, (number, answer.text)
        if answer.status_code >= 400:
            assert answer.headers["content-type"] == "application/problem+json", number
    assert api.get(f"{JOBS}/demo").json()["status"]["phase"] == "Running"


NAMES = (
    "..",
    "%2e%2e",
    "..%2f..%2fetc%2fpasswd",
    "%00",
    "a%0ab",
    "A",
    "x" * 300,
    "%F0%9F%A4%96",
    "'; DROP TABLE jobs; --",
)


def test_no_name_breaks_a_route(api):
    submit(api)
    for name in NAMES:
        for path in ("", "/logs", "/events", "/metrics", "/artifacts", "/artifacts/x", "/follow", "/logs?follow=1"):
            assert api.get(f"{JOBS}/{name}{path}").status_code in (400, 404), (name, path)
        for method in ("PATCH", "DELETE"):
            answer = api.ask(method, f"{JOBS}/{name}", json={"spec": {"stopped": True}})
            assert answer.status_code in (400, 404, 405), (name, method)
        assert api.get(f"{NODES}/{name}").status_code in (400, 404), name
    assert len(api.get(JOBS).json()["items"]) == 1


def test_a_large_body_is_refused_before_it_is_read(api):
    problem(api.post(JOBS, b"a" * (1024 * 1024 + 1)), 413, "too_large")

    async def endless():
        for _ in range(40):
            yield b"b" * 65536

    problem(api.post(JOBS, endless()), 413, "too_large")
    problem(api.post(JOBS, b"#" * (1024 * 1024)), 422, "invalid_spec")


def test_follow_of_an_ended_job_over_http(api):
    api.cluster.script = run_through
    submit(api)
    api.tick()
    answer = api.get(f"{JOBS}/demo/follow")
    assert answer.headers["content-type"].startswith("text/event-stream")
    told = events_of(answer.text)
    assert told[-1][0] == "end"
    assert told[-1][1] == {"phase": "Succeeded", "reason": "Completed", "message": "", "verified": True, "exitCode": 0}
    problem(api.get(f"{JOBS}/nothing/follow"), 404, "not_found")
    problem(api.get(f"{JOBS}/demo/follow", headers={"Last-Event-ID": "nonsense"}), 400, "usage")
