from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlark.testing import job_text

NODES = "nodes:\n  - {name: box, cpus: 8, memory: 16Gi, shm: 4Gi, gpus: 8}\n"
PLACED = """\
apiVersion: rlinf.io/v1alpha1
kind: Job
metadata:
  name: placed
spec:
  tasks:
    - name: worker
      head: true
      agentType: Ray
      ray:
        replicas: 1
        resources: {gpu: 8}
        head: platform
        config:
          inline:
            cluster: {num_nodes: 1, component_placement: {actor: 0-3, rollout: 4-5, env: 6-7}}
      runScript: |
        cd /tmp
        true
"""


@pytest.fixture(autouse=True)
def files(home: Any) -> None:
    Path("nodes.yaml").write_text(NODES, encoding="utf-8")
    Path("job.yaml").write_text(job_text(), encoding="utf-8")
    Path("placed.yaml").write_text(PLACED, encoding="utf-8")
    Path("wrong.yaml").write_text(PLACED.replace("replicas: 1", "replicas: 2"), encoding="utf-8")
    Path("big.yaml").write_text(PLACED.replace("gpu: 8", "gpu: 9"), encoding="utf-8")


def test_validate_says_ok_and_nothing_on_stdout(rlark: Any) -> None:
    result = rlark("validate", "job.yaml", "--inventory", "nodes.yaml")
    assert (result.code, result.out) == (0, "")
    assert "job.yaml: ok" in result.err


def test_findings_are_lines_that_editors_read(rlark: Any) -> None:
    result = rlark("validate", "wrong.yaml", "--inventory", "nodes.yaml")
    assert result.code == 3
    assert re.search(r"^wrong\.yaml:11:19: error RL021 spec\.tasks\[0\]\.ray\.replicas: ", result.out, re.M)
    assert "wrong.yaml: 1 error" in result.err


def test_many_files_at_once(rlark: Any) -> None:
    result = rlark("validate", "job.yaml", "big.yaml", "--inventory", "nodes.yaml", "-o", "json")
    assert result.code == 4
    assert [(item["file"], item["ok"]) for item in result.json["files"]] == [("job.yaml", True), ("big.yaml", False)]
    assert result.json["files"][1]["findings"][0]["line"] > 0
    everything = rlark("validate", "job.yaml", "big.yaml", "wrong.yaml", "--inventory", "nodes.yaml")
    assert everything.code == 3
    assert rlark("validate", "-q", "job.yaml", "wrong.yaml", "--inventory", "nodes.yaml").out == "job.yaml\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "the file is empty"),
        ("a: [1", "not YAML"),
        ("- a\n", "a list"),
        ("kind: Job\nkind: Job\n", "stands twice"),
        ("kind: Job\nspek: {}\n", "did you mean"),
    ],
)
def test_bad_input_has_a_place(rlark: Any, text: str, told: str) -> None:
    result = rlark("validate", "-", "--inventory", "nodes.yaml", stdin=text)
    assert result.code == 3
    assert told in result.out
    assert re.search(r"^-:\d+:\d+: error RL\d{3}", result.out, re.M)


def test_configurations_and_parts_of_them_beside_jobs(rlark: Any) -> None:
    Path("ppo.yaml").write_text("defaults: [base, _self_]\nrunner: {note: x}\n", encoding="utf-8")
    Path("base.yaml").write_text("cluster: {num_nodes: 2, component_placement: {actor: 0}}\n", encoding="utf-8")
    Path("part.yaml").write_text("total_num_envs: 8\n", encoding="utf-8")
    result = rlark("validate", "job.yaml", "ppo.yaml", "part.yaml", "--inventory", "nodes.yaml", "-o", "json")
    assert result.code == 3
    assert [(item["file"], item["ok"]) for item in result.json["files"]] == [
        ("job.yaml", True),
        ("ppo.yaml", False),
        ("part.yaml", True),
    ]
    (refusal,), (part,) = (result.json["files"][index]["findings"] for index in (1, 2))
    assert (refusal["code"], refusal["path"], refusal["line"]) == ("RL151", "cluster.num_nodes", 1)
    assert refusal["file"].endswith("/base.yaml")
    assert (part["code"], part["severity"], part["file"], part["line"]) == ("RL012", "warning", "part.yaml", 1)
    alone = rlark("validate", "part.yaml", "--inventory", "nodes.yaml")
    assert alone.code == 0
    assert "part.yaml: ok, 1 warning" in alone.err


def test_files_that_are_not_there(rlark: Any) -> None:
    assert rlark("validate", "jop.yaml").code == 2
    assert rlark("validate", "job.yaml", "--inventory", "no.yaml").code == 2
    assert rlark("validate").code == 2


def test_without_anything_else_this_machine_is_the_node(rlark: Any) -> None:
    assert rlark("validate", "job.yaml").code == 0
    assert rlark("validate", "big.yaml").code == 4


def test_the_nodes_of_a_running_platform_count(rlark: Any, platform: Any) -> None:
    two = platform.write_job("two", gpu=2)
    assert rlark("validate", two).code == 0
    assert rlark("validate", platform.write_job("three", gpu=3)).code == 4


def test_preview_prints_text_table_and_map(rlark: Any) -> None:
    result = rlark("preview", "placed.yaml", "--inventory", "nodes.yaml")
    assert result.code == 0, result.err
    assert result.out.startswith("apiVersion: rlinf.io/v1alpha1\n")
    assert "CHECK\tEXPECTED\tACTUAL\tOK" in result.out
    assert "rollout" in result.out.split("CHECK\t")[1]


def test_preview_in_other_forms(rlark: Any) -> None:
    form = rlark("preview", "placed.yaml", "--inventory", "nodes.yaml", "-o", "json").json
    assert set(form) == {
        *("name", "ok", "yaml", "digest", "findings", "review", "node", "placement", "worldSize", "gpusRequired"),
    }
    assert form["worldSize"] == {"actor": 4, "rollout": 2, "env": 2}
    text = rlark("preview", "placed.yaml", "--inventory", "nodes.yaml", "-o", "yaml").out
    assert text == form["yaml"]
    again = Path("again.yaml")
    again.write_text(text, encoding="utf-8")
    assert rlark("preview", again, "--inventory", "nodes.yaml", "-o", "json").json["digest"] == form["digest"]
    assert "<svg" in rlark("preview", "placed.yaml", "--inventory", "nodes.yaml", "-o", "svg").out
    assert rlark("preview", "placed.yaml", "--inventory", "nodes.yaml", "-q").out == "placed\n"


def test_preview_with_errors_leaves_null_what_is_undecided(rlark: Any) -> None:
    result = rlark("preview", "wrong.yaml", "--inventory", "nodes.yaml", "-o", "json")
    assert result.code == 3
    assert (result.json["ok"], result.json["worldSize"]) == (False, {"actor": 4, "rollout": 2, "env": 2})
    Path("beyond.yaml").write_text(PLACED.replace("env: 6-7", "env: 6-8"), encoding="utf-8")
    undecided = rlark("preview", "beyond.yaml", "--inventory", "nodes.yaml", "-o", "json").json
    assert (undecided["node"], undecided["placement"], undecided["worldSize"]) == ("box", None, None)
    assert rlark("preview", "wrong.yaml", "--inventory", "nodes.yaml", "-o", "svg").out == ""
    plain = rlark("preview", "wrong.yaml", "--inventory", "nodes.yaml")
    assert plain.code == 3
    assert "RL021" in plain.err


def test_preview_of_what_is_no_job_has_no_table(rlark: Any) -> None:
    result = rlark("preview", "-", "--inventory", "nodes.yaml", stdin="- a list\n")
    assert (result.code, result.out) == (3, "")
    assert "RL003" in result.err


def test_preview_with_changes(rlark: Any) -> None:
    options = ["--set", "spec.tasks[0].ray.replicas=1", "--name", "mended", "-l", "a=b"]
    form = rlark("preview", "wrong.yaml", "--inventory", "nodes.yaml", *options, "-o", "json").json
    assert (form["ok"], form["name"]) == (True, "mended")
    assert rlark("preview", "job.yaml", "--set", "spec").code == 2
    assert rlark("preview", "job.yaml", "--set", "spec.tasks[7].x=1").code == 2


def test_svg_is_for_preview_only(rlark: Any) -> None:
    assert rlark("jobs", "-o", "svg").code == 2


@pytest.mark.parametrize("command", ["validate", "preview"])
def test_checking_loads_nothing_heavy(home: Any, command: str) -> None:
    code = (
        "import sys; from rlark.cli.main import run; "
        f"code = run(['{command}', 'placed.yaml', '--inventory', 'nodes.yaml', '-o', 'json']); "
        "print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    loaded = {name.split(".")[0] for name in done.stderr.split()}
    assert loaded & {"ray", "torch", "jax", "onnx", "onnxruntime", "rich", "fastapi", "sqlalchemy"} == set()
