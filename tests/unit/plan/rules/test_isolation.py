"""What fences a Job in, and what a mount must not hide."""

from __future__ import annotations

import pytest

from rlark.plan.facts import Facts
from rlark.plan.node import Inventory
from rlark.plan.rules import isolation
from rlark.plan.rules.rule import Case, check_all, nothing_spoilt
from rlark.spec.job import Job

MISSING = "bubblewrap is not installed; install it: apt install bubblewrap"


def found(ray=None, facts=None, **worker):
    task = {"name": "worker", "head": True, "ray": ray or {}, **worker}
    job = {
        "apiVersion": "rlinf.io/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "demo"},
        "spec": {"tasks": [task]},
    }
    return check_all(isolation.RULES, Case(Job.model_validate(job), Inventory(), Facts(**facts or {})), nothing_spoilt)


def a_mount(**more):
    return {"mounts": [{"mountPath": "/mnt/data", **more}]}


SCRIPT = {"runScript": "cd /tmp\nray stop\n"}
ELSEWHERE = a_mount(hostPath="/data")


@pytest.mark.parametrize("broken", [None, ""])
def test_where_it_works_or_nobody_looked_nothing_is_said(broken):
    facts = {"no_bubblewrap": broken}
    assert found(ELSEWHERE, facts, **SCRIPT) == []
    assert found(ELSEWHERE | {"sandbox": "bubblewrap"}, facts) == []


@pytest.mark.parametrize("mount", [{"hostPath": "/data"}, {"volume": "v"}, {"scratch": True}])
def test_a_mount_that_cannot_be_made(mount):
    (finding,) = found(a_mount(**mount), {"no_bubblewrap": MISSING})
    assert (finding.code, finding.severity, finding.curable) == ("RL070", "error", True)
    assert finding.path == "spec.tasks[0].ray.mounts[0].mountPath"
    assert "apt install bubblewrap" in finding.message
    assert "the same as hostPath" in str(finding.hint)


def test_a_folder_at_its_own_place_needs_nothing():
    facts = {"no_bubblewrap": MISSING}
    assert found(a_mount(hostPath="/mnt/data/"), facts) == []
    (finding,) = found(a_mount(hostPath="/mnt/data", readOnly=True), facts)
    assert (finding.code, finding.path) == ("RL070", "spec.tasks[0].ray.mounts[0].readOnly")


def test_a_sandbox_that_is_not_wanted_makes_no_mounts():
    (finding,) = found(ELSEWHERE | {"sandbox": "none"})
    assert (finding.code, finding.curable) == ("RL070", False)
    assert str(finding.hint).startswith("remove sandbox: none")


def test_a_sandbox_that_is_asked_for_is_one_finding():
    (finding,) = found(ELSEWHERE | {"sandbox": "bubblewrap"}, {"no_bubblewrap": MISSING}, **SCRIPT)
    assert (finding.code, finding.severity, finding.curable) == ("RL073", "error", True)
    assert MISSING in finding.message


@pytest.mark.parametrize(
    ("ray", "worker", "path"),
    [
        ({}, SCRIPT, "spec.tasks[0].runScript"),
        ({}, {"prepareScript": "true"}, "spec.tasks[0].prepareScript"),
        ({"head": "job"}, {}, "spec.tasks[0].ray.head"),
    ],
)
def test_processes_that_are_not_fenced_in(ray, worker, path):
    (finding,) = found(ray, {"no_bubblewrap": MISSING}, **worker)
    assert (finding.code, finding.severity, finding.path) == ("RL071", "warning", path)
    assert "ray stop" in finding.message
    assert "other processes of this user" in finding.message
    (finding,) = found(ray | {"sandbox": "none"}, **worker)
    assert (finding.code, finding.severity, finding.path) == ("RL071", "info", "spec.tasks[0].ray.sandbox")


def test_the_platforms_head_needs_no_fence():
    assert found({"head": "platform"}, {"no_bubblewrap": MISSING}, **SCRIPT) == []
    assert found({}, {"no_bubblewrap": MISSING}) == []


@pytest.mark.parametrize(
    "path",
    [
        *("/", "//", "/proc", "/proc/1", "/sys/x", "/dev", "/dev/nvidia0", "/run", "/usr", "/usr/lib/x", "/bin"),
        *("/lib64", "/etc", "/etc/passwd", "/home/me", "/home/me/.rlark/jobs", "/opt/rlark", "/opt"),
        *("/opt/rlark/bin", "/mnt/../etc"),
    ],
)
def test_a_mount_that_hides_what_is_needed(path):
    facts = {"home": "/home/me/.rlark", "programs": ("/opt/rlark",)}
    (finding,) = found({"mounts": [{"hostPath": "/data", "mountPath": path}]}, facts)
    assert (finding.code, finding.severity, finding.curable) == ("RL072", "error", False)


@pytest.mark.parametrize(
    "path",
    ["/mnt", "/dev/shm", "/dev/shm/x", "/tmp/x", "/home/you", "/home/me/data", "/opt/other", "/workspace", "/libs"],
)
def test_a_mount_that_hides_nothing(path):
    facts = {"home": "/home/me/.rlark", "programs": ("/opt/rlark",)}
    assert found({"mounts": [{"hostPath": "/data", "mountPath": path}]}, facts) == []


def test_the_same_folder_at_the_same_place_hides_nothing_unless_nothing_could_be_written():
    facts = {"home": "/home/me/.rlark"}
    mount = {"hostPath": "/home/me", "mountPath": "/home/me"}
    assert found({"mounts": [mount]}, facts) == []
    assert [finding.code for finding in found({"mounts": [mount | {"readOnly": True}]}, facts)] == ["RL072"]
    assert found({"mounts": [{"hostPath": "/usr/share/x", "mountPath": "/usr/share/x", "readOnly": True}]}) == []
    assert [f.code for f in found({"mounts": [{"hostPath": "/dev", "mountPath": "/dev"}]})] == ["RL072"]
