from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rlark import preflight as module
from rlark.engine import Engine, Requirement
from rlark.folder import Home
from rlark.plan.facts import Facts
from rlark.plan.node import Inventory, Node, default_labels
from rlark.preflight import is_here, look_elsewhere, look_here, preflight
from rlark.spec import load

FOLDER = Path(__file__).parent / "broken"
JOB = """\
apiVersion: rlinf.io/v1alpha1
kind: Job
metadata:
  name: demo
spec:
  tasks:
    - name: worker
      head: true
      nodeSelector: {kubernetes.io/hostname: box}
      ray:
        config:
          path: configs/good.yaml
          overrides: [runner.max_epochs=9]
"""


def test_the_plan_and_the_form_of_the_contract(check):
    preview = check(JOB, folder=FOLDER)
    form = preview.to_json()
    assert set(form) == {
        "name",
        "ok",
        "yaml",
        "digest",
        "findings",
        "review",
        "node",
        "placement",
        "worldSize",
        "gpusRequired",
    }
    assert json.loads(json.dumps(form)) == form
    assert (form["name"], form["ok"], form["node"], form["gpusRequired"]) == ("demo", True, "box", 1)
    assert form["worldSize"] == {"actor": 1, "rollout": 1, "env": 1}
    assert form["placement"]["env"] == [{"rank": 0, "node": 0, "gpus": [0], "localRank": 0}]
    assert all(row["ok"] for row in form["review"])
    assert preview.plan is not None
    assert preview.plan.config["runner"] == {"engine": "walk", "max_epochs": 9}
    assert preview.plan.config_base == str(FOLDER / "configs")


def test_the_canonical_text_is_the_same_job_again(check):
    first = check(JOB, folder=FOLDER)
    again = check(first.yaml, file="stored.yaml")
    assert (again.yaml, again.digest, again.plan) == (first.yaml, first.digest, first.plan)
    assert len(first.digest) == 64
    assert "path: configs/good.yaml" not in first.yaml
    assert "max_epochs: 9" in first.yaml


def test_what_cannot_be_decided_is_null(check):
    form = check(JOB.replace("head: true", "head: 1"), folder=FOLDER).to_json()
    assert (form["ok"], form["yaml"], form["digest"]) == (False, None, None)
    assert form["name"] == "demo"
    assert form["node"] == "box"
    assert set(form["worldSize"]) == {"actor", "rollout", "env"}
    form = check(JOB.replace("good.yaml", "beyond.yaml"), folder=FOLDER).to_json()
    assert (form["placement"], form["worldSize"], form["gpusRequired"]) == (None, None, None)
    form = check("- a").to_json()
    assert (form["name"], form["review"], form["node"]) == ("", [], None)


def test_a_job_without_a_node_still_has_its_canonical_text(check):
    preview = check(JOB.replace("hostname: box", "hostname: none"), folder=FOLDER)
    assert (preview.exit_code, preview.plan, preview.node) == (4, None, None)
    assert preview.yaml


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"box}": "busy}"}, 0),
        ({"box}": "nowhere}"}, 4),
        ({"head: true": "head: false"}, 3),
        ({"box}": "nowhere}", "head: true": "head: false"}, 3),
        ({"good.yaml": "beyond.yaml"}, 4),
        ({"good.yaml": "two_nodes.yaml"}, 3),
    ],
)
def test_exit_codes(check, changes, code):
    text = JOB
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    assert check(text, folder=FOLDER).exit_code == code


def test_no_node_at_all(check):
    preview = check(JOB, folder=FOLDER, nodes=Inventory())
    assert [finding.code for finding in preview.findings] == ["RL200"]
    assert "1 Worker" in str(preview.findings[0].hint)


def test_rules_say_nothing_about_what_is_wrong_already(check):
    text = JOB.replace("nodeSelector", "nodeSelectr").replace("config:", "confg:")
    assert [finding.code for finding in check(text, folder=FOLDER).findings] == ["RL023", "RL023"]


def test_a_full_disk():
    nodes = Inventory(nodes=[Node(name="box", labels=default_labels("box"), gpus=1)])
    preview = preflight(load(JOB, folder=FOLDER), nodes, lambda _job, _node: Facts(free_disk=2**20))
    (finding,) = [finding for finding in preview.findings if finding.code == "RL215"]
    assert finding.curable
    assert "1Mi are free" in finding.message


def test_an_engine_that_cannot_be_loaded(monkeypatch):
    def broken(_reference):
        raise ImportError("No module named 'walk'")

    monkeypatch.setattr(module, "load_attribute", broken)
    engines = {"walk": Engine("walk", "t", "walk", "walk:PROGRAM", "walk:Config")}
    nodes = Inventory(nodes=[Node(name="box", labels=default_labels("box"), gpus=1)])
    preview = preflight(load(JOB, folder=FOLDER), nodes, lambda _job, _node: Facts(engines=engines))
    assert [finding.code for finding in preview.findings] == ["RL193"]


def test_looking_here(monkeypatch, tmp_path):
    engines = {
        "walk": Engine("walk", "t", "m", "p", "c", requirements=(Requirement("package", "no_such_package", "pip"),)),
        "other": Engine("other", "t", "m", "p", "c", requirements=(Requirement("package", "none_either", "pip"),)),
    }
    monkeypatch.setattr(module, "engines", lambda: engines)
    mounts = "mounts:\n".join(["", f"          - {{hostPath: {tmp_path}, mountPath: {tmp_path}}}\n"])
    mounts += "          - {hostPath: /nothing/here, mountPath: /nothing/here}\n"
    inline = "config: {inline: {runner: {engine: walk}}}\n"
    text = JOB.split("        config:")[0] + f"        {mounts}        {inline}"
    job = load(text).job
    assert job is not None
    facts = look_here(job, Node(name="box"), Home(tmp_path / "not" / "yet"))
    assert list(facts.unmet) == ["walk"]
    assert facts.unmet["walk"][0].name == "no_such_package"
    assert facts.missing_mounts == {"/nothing/here"}
    assert facts.free_disk is not None
    assert look_elsewhere(job, Node(name="box")) == Facts(engines=engines)


def test_a_file_can_be_a_mounts_source(tmp_path):
    (tmp_path / "model.pt").write_text("weights")
    mounts = f"mounts: [{{hostPath: {tmp_path}/model.pt, mountPath: {tmp_path}/model.pt}}]"
    job = load(JOB.replace("ray:\n", f"ray:\n        {mounts}\n")).job
    assert job is not None
    assert look_here(job, Node(name="box"), Home(tmp_path)).missing_mounts == frozenset()


def test_what_is_kept_here_is_known(tmp_path):
    job = load(JOB).job
    assert job is not None
    facts = look_here(job, Node(name="box"), Home(tmp_path / "home"))
    assert facts.home == str(tmp_path / "home")
    assert sys.prefix in facts.programs


def test_where_the_node_is(monkeypatch):
    monkeypatch.setattr(module.socket, "gethostname", lambda: "me")
    here, there = Node(name="me", labels=default_labels("me")), Node(name="you", labels=default_labels("you"))
    named = Node(name="gpu", labels=default_labels("me"))
    assert is_here(here, Inventory(source="ray"))
    assert is_here(named, Inventory(source="ray"))
    assert not is_here(there, Inventory(source="ray"))
    assert is_here(there, Inventory(source="this machine"))
    assert not is_here(here, Inventory(source="nodes.yaml"))


def test_checking_imports_nothing_heavy():
    program = (
        "import sys; from pathlib import Path; from rlark.spec import load; from rlark.preflight import preflight\n"
        "from rlark.plan.node import Inventory, Node, default_labels\n"
        f"file = Path({str(FOLDER / 'engine_none.yaml')!r})\n"
        "nodes = Inventory(nodes=[Node(name='box', labels=default_labels('box'), gpus=1)])\n"
        "preflight(load(file.read_text(), folder=file.parent), nodes)\n"
        "heavy = ('ray', 'torch', 'jax', 'onnx', 'hydra', 'fastapi', 'sqlalchemy', 'detect_secrets', 'requests')\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
