"""The single rules on values that RLark's own form decides."""

from __future__ import annotations

import json

import pytest

from rlark.plan.facts import Facts
from rlark.plan.node import Inventory
from rlark.plan.rules import image, shape
from rlark.plan.rules.node import matches
from rlark.plan.rules.outputs import covers
from rlark.plan.rules.rule import Case, check_all, nothing_spoilt
from rlark.spec.job import Job


def case(name: str = "demo", **ray: object) -> Case:
    data = {
        "apiVersion": "rlinf.io/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": [{"name": "worker", "head": True, "ray": ray}]},
    }
    return Case(Job.model_validate(data), Inventory(), Facts())


def codes(rules: tuple, of: Case) -> set[str]:
    return {finding.code for finding in check_all(rules, of, nothing_spoilt) if finding.severity == "error"}


def form(shared) -> dict:
    return json.loads((shared / "cases/job-form.json").read_text())


def test_names(shared):
    for name, verdict in form(shared)["job_name"]:
        wrong = "RL027" in codes(shape.RULES, case(name))
        assert wrong is (verdict != "OK"), name  # a file's name is not trimmed, so " my-job " is wrong here


def test_selectors(shared):
    rows = form(shared)["match_node_selector"]
    for selector, hits in rows["cases"]:
        assert matches(selector, rows["labels"]) is hits, selector


def test_blanks_in_images(shared):
    for reference, blank in form(shared)["image_whitespace"]:
        assert ("RL250" in codes(image.RULES, case(image=reference))) is blank, reference


def test_what_a_mount_covers(shared):
    for mount, path, covered in form(shared)["tensorboard_path_covers"]:
        assert covers(mount, path) is covered, (mount, path)


@pytest.mark.parametrize(
    ("reference", "code"),
    [
        ("ubuntu:22.04", None),
        ("docker.io/library/ubuntu:22.04", None),
        ("localhost:5000/team/rlinf:v0.3.0-cuda12.4", None),
        ("rlinf@sha256:" + "a" * 64, None),
        ("rlinf:latest@sha256:" + "a" * 64, None),
        ("localhost:5000/rlinf", "RL251"),
        ("rlinf", "RL251"),
        ("rlinf:latest", "RL252"),
        ("rlinf:", "RL253"),
        ("rlinf:-x", "RL253"),
        ("/rlinf:v1", "RL253"),
        ("rlinf:v1@sha256", "RL253"),
        ("", "RL253"),
        ("a b:v1", "RL250"),
    ],
)
def test_images(reference, code):
    assert codes(image.RULES, case(image=reference)) == ({code} if code else set())


@pytest.mark.parametrize(("length", "code"), [(54, None), (55, "RL040"), (63, "RL040"), (64, "RL027")])
def test_the_workers_name_fits(length, code):
    assert codes(shape.RULES, case("a" * length)) == ({code} if code else set())


def test_only_the_first_task_is_asked_for_its_name():
    extra = case().job.worker.model_copy(update={"name": "second"})
    actor = extra.model_copy(update={"name": "Actor"})
    of = case()
    tasks = [*of.job.spec.tasks, extra, actor]
    several = of.job.model_copy(update={"spec": of.job.spec.model_copy(update={"tasks": tasks})})
    found = check_all(shape.RULES, Case(several, Inventory(), Facts()), nothing_spoilt)
    assert [(finding.code, finding.path, finding.hint) for finding in found] == [
        ("RL030", "spec.tasks[2].name", "leave it out")
    ]
