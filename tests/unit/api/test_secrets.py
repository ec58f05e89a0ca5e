"""Secrets over HTTP: they go in, and nothing of a value comes out."""

from __future__ import annotations

import json
import logging
import stat

import pytest

from rlark.api import answers
from rlark.secrets import LARGEST, SecretStore
from rlark.testing import job_text

from .conftest import Api, problem

SECRETS = "/api/v1/secrets"
VALUE = "hf_zYx/9+w'q\"8"


def put(api: Api, name: str = "hub", key: str = "token", value: object = VALUE):
    return api.ask("PUT", f"{SECRETS}/{name}/{key}", json={"value": value})


def names(api: Api) -> dict[str, list[str]]:
    return {item["name"]: item["keys"] for item in api.get(SECRETS).json()["items"]}


def test_a_value_goes_in_and_its_name_comes_out(api):
    assert names(api) == {}
    answer = put(api)
    assert answer.status_code == 200
    assert answers.Secret.model_validate(answer.json()).keys == ["token"]
    put(api, key="a.b-c_D")
    put(api, "deploy", "key")
    listed = api.get(SECRETS)
    assert names(api) == {"deploy": ["key"], "hub": ["a.b-c_D", "token"]}
    assert len(answers.SecretList.model_validate(listed.json()).items) == 2
    assert all(VALUE not in text for text in (answer.text, listed.text))
    assert SecretStore(api.home.secrets).get("hub", "token") == VALUE
    put(api, value="another")
    assert SecretStore(api.home.secrets).get("hub", "token") == "another"


def test_the_store_is_for_its_owner_only(api):
    put(api)
    assert stat.S_IMODE(api.home.secrets.stat().st_mode) == 0o700
    [file] = api.home.secrets.iterdir()
    assert (file.name, stat.S_IMODE(file.stat().st_mode)) == ("hub.json", 0o600)


def test_one_value_or_all_of_them_are_deleted(api):
    put(api)
    put(api, key="other")
    assert api.ask("DELETE", f"{SECRETS}/hub/token").status_code == 204
    assert names(api) == {"hub": ["other"]}
    body = problem(api.ask("DELETE", f"{SECRETS}/hub/token"), 404, "not_found")
    assert "other" in body["hint"]
    assert api.ask("DELETE", f"{SECRETS}/hub/other").status_code == 204
    assert names(api) == {}
    assert list(api.home.secrets.iterdir()) == []
    for path in ("hub", "hub/token", "..%2Ftoken", "%00"):
        problem(api.ask("DELETE", f"{SECRETS}/{path}"), 404, "not_found")
    put(api)
    put(api, key="other")
    assert api.ask("DELETE", f"{SECRETS}/hub").status_code == 204
    assert names(api) == {}


@pytest.mark.parametrize("name", ["a" * 64, "sp ace", "ü", "tab\t", "a%0Ab", "new\n", "a:b", "*"])
def test_names_and_keys_are_of_one_form(api, name):
    given = name.replace("\n", "%0A").replace("\t", "%09").replace(" ", "%20")
    assert "cannot be the name" in problem(put(api, given), 400, "usage")["detail"]
    assert "cannot be the key" in problem(put(api, "hub", given), 400, "usage")["detail"]
    assert names(api) == {}


def test_a_name_never_leads_out_of_the_store(api):
    for path in ("..%2Ftoken/x", "%2E%2E%2Ftoken/x", "a%2Fb/x"):
        assert api.ask("PUT", f"{SECRETS}/{path}", json={"value": VALUE}).status_code in (400, 404)
    for dots in ("%2E", "%2E%2E", "..."):  # clients take them for steps in a path, and ask for something else
        assert "not all of them dots" in problem(put(api, dots, "x"), 400, "usage")["hint"]
        assert "not all of them dots" in problem(put(api, "hub", dots), 400, "usage")["hint"]
    put(api, "..a", "...b")  # of the form, so it is a name like others
    assert names(api) == {"..a": ["...b"]}
    files = [path for path in api.home.root.parent.rglob("*") if path.is_file()]
    assert [path.name for path in files if VALUE[:10] in path.read_text(errors="replace")] == ["..a.json"]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("abc", "fewer than 4 characters"),
        ("  ab \n", "fewer than 4 characters"),
        ("", "fewer than 4 characters"),
        (f"{VALUE}\0", "zero byte"),
        (f"{VALUE}\ud800", "is no text"),
        (VALUE + "x" * LARGEST, "more than 32768"),
    ],
)
def test_a_value_that_cannot_be_kept_or_masked_is_refused_without_being_told(api, value, said):
    answer = api.ask("PUT", f"{SECRETS}/hub/token", content=json.dumps({"value": value}))
    body = problem(answer, 400, "usage")
    assert said in body["detail"]
    assert body["hint"]
    assert not value.strip() or value.strip() not in answer.text
    assert names(api) == {}


@pytest.mark.parametrize(
    "body",
    [
        VALUE,
        f'{{"value": "{VALUE}',
        f'["{VALUE}"]',
        f'{{"value": {{"a": "{VALUE}"}}}}',
        f'{{"value": "{VALUE}", "more": 1}}',
        f'{{"{VALUE}": "value"}}',
        b"\xff" + VALUE.encode(),
        VALUE * 200_000,
        "[" * 5000,
    ],
    ids=range(9),
)
def test_no_refusal_tells_the_body_back_and_no_log_holds_it(api, body, caplog):
    caplog.set_level(logging.DEBUG)
    answer = api.ask("PUT", f"{SECRETS}/hub/token", content=body)
    problem(answer, answer.status_code, answer.json()["code"])
    assert answer.status_code in (400, 413)
    assert "zYx" not in answer.text
    assert "zYx" not in caplog.text


def test_a_store_that_cannot_be_used_is_a_503_that_tells_no_value(api):
    put(api)
    file = api.home.secrets / "hub.json"
    file.write_text(f"{VALUE} is no JSON")
    assert names(api) == {"hub": []}  # so that it can be deleted
    for answer in (put(api, value="a-new-value"), api.ask("DELETE", f"{SECRETS}/hub/token")):
        assert "no file of secrets" in problem(answer, 503, "unavailable")["detail"]
        assert "zYx" not in answer.text
    assert api.ask("DELETE", f"{SECRETS}/hub").status_code == 204
    api.home.secrets.rmdir()
    api.home.secrets.write_text("")
    assert problem(put(api), 503, "unavailable")["hint"]


def test_a_job_that_refers_to_a_secret_never_tells_it(api):
    put(api)
    text = _job()
    made = api.post("/api/v1/rlinf.io/v1alpha1/jobs", text)
    assert made.status_code == 201, made.text
    api.tick()
    folder = api.folder("demo")
    told = [
        api.get(path).text
        for path in (
            "/api/v1/rlinf.io/v1alpha1/jobs",
            "/api/v1/rlinf.io/v1alpha1/jobs/demo",
            "/api/v1/rlinf.io/v1alpha1/jobs/demo/events",
        )
    ]
    assert all("zYx" not in text for text in [*told, made.text, api.post("/api/v1/preview", text).text])
    assert '"secretRef"' in told[1]
    assert folder.plan.exists()
    files = [path for path in api.home.root.rglob("*") if path.is_file()]
    assert [path for path in files if b"zYx" in path.read_bytes()] == [api.home.secrets / "hub.json"]
    assert api.home.ledger in files


def _job() -> str:
    job = json.loads(job_text())
    variable = {"name": "HF", "valueFrom": {"secretRef": {"name": "hub", "key": "token"}}}
    job["spec"]["tasks"][0]["ray"]["env"] = [variable]
    return json.dumps(job)
