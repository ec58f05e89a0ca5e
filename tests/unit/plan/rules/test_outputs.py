"""What is written, and what would be lost with the attempt."""

from __future__ import annotations

import pytest

from rlark.plan.facts import Facts
from rlark.plan.node import Inventory
from rlark.plan.rules import outputs
from rlark.plan.rules.rule import Case, check_all, nothing_spoilt
from rlark.spec.job import Job

MOUNTS = [
    {"volume": "out", "mountPath": "/mnt/out"},
    {"scratch": True, "mountPath": "/mnt/out/cache"},
    {"hostPath": "/data", "mountPath": "/data"},
]


def found(config=None, missing=frozenset(), home="/home/me/.rlark", **worker):
    ray = {"mounts": MOUNTS, **({"config": {"inline": config}} if config else {})}
    task = {"name": "worker", "head": True, "runScript": "cd /x", "ray": ray, **worker}
    job = Job.model_validate(
        {
            "apiVersion": "rlinf.io/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "demo"},
            "spec": {"tasks": [task]},
        }
    )
    case = Case(job, Inventory(), Facts(missing_mounts=missing, home=home), config=config)
    return [(one.code, one.path, one.message) for one in check_all(outputs.RULES, case, nothing_spoilt)]


@pytest.mark.parametrize(
    "path", ["policy.onnx", "/mnt/out/policy.onnx", "/data/x/*.pt", "/home/me/.rlark/jobs/demo/artifacts/x", "./a"]
)
def test_what_is_kept(path):
    assert found(expect={"outputs": [{"path": path}]}, tensorBoardDir=path) == []
    assert found({"runner": {"logger": {"log_path": path}, "output_dir": path}}) == []


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/results/policy.onnx", "lies under no mount"),
        ("/mnt/output/x", "lies under no mount"),
        ("/home/me/.rlark/jobs/other/x", "lies under no mount"),
        ("/mnt/out/cache/x", "lies in the scratch folder /mnt/out/cache, which goes with the attempt"),
    ],
)
def test_what_may_be_lost(path, why):
    inline = "spec.tasks[0].ray.config.inline.runner"
    told = found(
        {"runner": {"logger": {"log_path": path}, "output_dir": path}},
        expect={"outputs": [{"path": path}]},
        tensorBoardDir=path,
    )
    assert [place for _, place, _ in told] == [
        "spec.tasks[0].tensorBoardDir",
        "spec.tasks[0].expect.outputs[0].path",
        f"{inline}.logger.log_path",
        f"{inline}.output_dir",
    ]
    assert all(code == "RL400" and why in message for code, _, message in told)


def test_an_engines_own_paths_stand_in_the_jobs_folder():
    assert found({"runner": {"output_dir": "/results"}}, runScript="") == []


def test_only_sources_on_the_node_can_be_missing():
    ((code, path, message),) = found(missing=frozenset({"/data", "out"}))
    assert (code, path) == ("RL402", "spec.tasks[0].ray.mounts[2].hostPath")
    assert message.startswith("/data does not exist")
