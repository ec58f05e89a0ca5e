from __future__ import annotations

import io
from pathlib import Path

import pytest

from rlark.errors import UsageError
from rlark.sdk.draft import Draft, parse_change, put, read_draft
from rlark.spec.yaml import parse

JOB = """\
apiVersion: rlinf.io/v1alpha1
kind: Job
metadata:
  name: demo
spec:
  tasks:
    - name: worker
      head: true
      agentType: Ray
      ray:
        replicas: 2
        resources: {cpu: 1}
      runScript: |
        cd /tmp
        true
"""


def test_values_of_changes_are_yaml() -> None:
    assert parse_change("a.b=1") == ("a.b", 1)
    assert parse_change("a=") == ("a", None)
    assert parse_change("a=[x, {y: 2}]") == ("a", ["x", {"y": 2}])
    assert parse_change("a='1'") == ("a", "1")
    assert parse_change("a=b=c") == ("a", "b=c")
    assert parse_change("a=0:0-1") == ("a", "0:0-1")


@pytest.mark.parametrize("text", ["a", "=1", "a=[1", "a={x: 1, x: 2}", "a=1\nb: 2"])
def test_a_change_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UsageError):
        parse_change(text)


def test_put_reaches_everywhere() -> None:
    data: dict[str, object] = {"spec": {"tasks": [{"name": "worker", "env": None}]}}
    put(data, "spec.tasks[0].ray.resources.gpu", 1)
    put(data, "spec.tasks[0].env[0].name", "A")
    put(data, 'metadata.labels["a.b/c"]', "x")
    assert data == {
        "spec": {"tasks": [{"name": "worker", "env": [{"name": "A"}], "ray": {"resources": {"gpu": 1}}}]},
        "metadata": {"labels": {"a.b/c": "x"}},
    }


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("spec.tasks[1].name", "leads nowhere"),
        ("spec.tasks.name", "spec.tasks is a list of 1"),
        ("spec.tasks[0].name.x", "is 'worker'"),
        ("[0]", "is no path"),
        ("spec..tasks", "is no path"),
        ("spec.tasks[x]", "is no path"),
    ],
)
def test_put_refuses_what_leads_nowhere(path: str, told: str) -> None:
    data: dict[str, object] = {"spec": {"tasks": [{"name": "worker"}]}}
    if path == "spec.tasks[1].name":
        path = "spec.tasks[2].name"
    with pytest.raises(UsageError, match=told.replace("[", r"\[")):
        put(data, path, 1)


def test_what_was_not_changed_stays_what_it_was() -> None:
    text = JOB.replace("replicas: 2", "replicas: 1:30").replace("cpu: 1", 'cpu: 1, memory: "010"')
    source = Draft(text, file="job.yaml").changed({"metadata.name": "other"}).load()
    assert source.draft is not None
    assert source.draft.worker.run == "cd /tmp\ntrue\n"
    (surprise,) = [found for found in source.findings if found.path.endswith("replicas")]
    assert (surprise.line, surprise.column) == (11, 19)
    assert "YAML 1.1 reads 90" in str(surprise.hint)


def test_a_change_is_made_of_plain_values() -> None:
    values = {"spec.tasks[0].ray.resources": {"gpu": 1, "cpu": 1.5}, "spec.tasks[0].prepareScript": "a\nb"}
    job = Draft(JOB).changed(values).load().draft
    assert job is not None
    assert (job.worker.ray.resources.gpu, job.worker.ray.resources.cpu, job.worker.prepare) == (1, 1.5, "a\nb")
    mount = {"spec.tasks[0].ray.mounts[0]": {"hostPath": Path("/tmp"), "mountPath": "/tmp"}}
    job = Draft(JOB).changed(mount).load().draft
    assert job is not None
    assert job.worker.ray.mounts[0].host_path == "/tmp"
    with pytest.raises(UsageError, match=r"the value for metadata\.name is no part of a Job"):
        Draft(JOB).changed({"metadata.name": object()}).load()


def test_findings_keep_the_users_lines_after_a_change() -> None:
    text = JOB.replace("head: true", "hed: true")
    source = Draft(text, file="job.yaml").changed({"spec.tasks[0].ray.resources.cpu": 2}).load()
    unknown = [found for found in source.findings if "hed" in found.path]
    assert [(found.file, found.line, found.column) for found in unknown] == [("job.yaml", 8, 7)]


def test_a_place_that_only_the_change_filled_has_no_line() -> None:
    source = Draft(JOB, file="job.yaml").changed({"spec.tasks[0].ray.resources.cpu": "many"}).load()
    found = [found for found in source.findings if found.path.endswith("cpu")]
    assert found
    assert str(found[0]).startswith("job.yaml: error")


def test_what_cannot_be_read_is_told_before_it_is_changed() -> None:
    source = Draft("a: [1", file="job.yaml").changed({"metadata.name": "x"}).load()
    assert [found.code for found in source.findings] == ["RL001"]


def test_name_is_trimmed_and_labels_may_have_dots() -> None:
    job = Draft(JOB).changed({}, name=" other ", labels={"rlark.io/team": "nav"}).load().draft
    assert job is not None
    assert job.metadata.name == "other"
    assert job.metadata.labels == {"rlark.io/team": "nav"}


def test_sources_of_every_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB, encoding="utf-8")
    assert (read_draft(path).text, read_draft(path).folder) == (JOB, tmp_path)
    assert read_draft(str(path)).file == str(path)
    assert read_draft(JOB).text == JOB
    assert parse(read_draft({"kind": "Job"}).text).data == {"kind": "Job"}
    monkeypatch.setattr("sys.stdin", io.StringIO(JOB))
    assert (read_draft("-").text, read_draft("-").file) == (JOB, "-")


@pytest.mark.parametrize(
    ("name", "told"),
    [("jop.yaml", "did you mean"), (".", "is a folder"), ("bin", "is not text"), ("no/x", "no folder")],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / "job.yaml").write_text(JOB, encoding="utf-8")
    (tmp_path / "bin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError) as caught:
        read_draft(tmp_path / name)
    assert told in str(caught.value)


def test_no_name_is_no_folder() -> None:
    with pytest.raises(UsageError, match="no file is named"):
        read_draft("")


def test_an_object_that_is_no_json_is_refused() -> None:
    with pytest.raises(UsageError, match="is no Job"):
        read_draft({"spec": object()})


def test_standard_input_that_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a: \xff"), "ascii", errors="surrogateescape"))
    with pytest.raises(UsageError, match="- is not text: invalid start byte at byte 3"):
        read_draft("-")


def test_standard_input_is_utf_8_whatever_the_locale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO("ä: ö".encode()), "latin-1"))
    assert read_draft("-").text == "ä: ö"


@pytest.mark.parametrize(
    ("text", "stopped"),
    [
        (JOB + "  stopped: true\nstatus: {phase: Stopped}\n", False),
        (JOB + "  stopped: true\n", True),
        (JOB + "status: {phase: Succeeded}\n", False),
    ],
)
def test_a_job_that_a_server_says_is_stopped_is_run_anew(text, stopped):
    job = Draft(text).changed({"spec.tasks[0].ray.replicas": 1}).anew().load().job
    assert job is not None
    assert job.spec.stopped is stopped


def test_a_standard_input_that_is_closed_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert [finding.code for finding in read_draft("-").load().findings] == ["RL002"]
