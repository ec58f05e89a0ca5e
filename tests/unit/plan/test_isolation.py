"""Which head a Job gets, and what is fenced in."""

from __future__ import annotations

from typing import Any

import pytest

from rlark.plan.facts import Facts
from rlark.plan.isolation import head_of, needs_bubblewrap, planned, sandbox_of, wants_bubblewrap
from rlark.plan.plan import Plan, PlannedMount
from rlark.spec.job import Mount, Worker

ELSEWHERE = {"hostPath": "/data", "mountPath": "/mnt/data"}
IN_PLACE = {"hostPath": "/data", "mountPath": "/data"}


def worker(*mounts: dict[str, Any], run: str = "", prepare: str = "", **ray: Any) -> Worker:
    given = {"name": "worker", "head": True, "runScript": run, "prepareScript": prepare}
    return Worker.model_validate({**given, "ray": {"mounts": list(mounts), **ray}})


@pytest.mark.parametrize(
    ("of", "head"),
    [
        (worker(), "platform"),
        (worker(run="  \n"), "platform"),
        (worker(run="true"), "job"),
        (worker(prepare="true"), "job"),
        (worker(run="true", head="platform"), "platform"),
        (worker(head="job"), "job"),
    ],
)
def test_a_script_gets_a_head_of_its_own_unless_the_job_says_otherwise(of, head):
    assert head_of(of) == head


@pytest.mark.parametrize(
    ("of", "wanted"),
    [
        (worker(), False),
        (worker(IN_PLACE), False),
        (worker(ELSEWHERE), True),
        (worker({**IN_PLACE, "readOnly": True}), True),
        (worker({"volume": "out", "mountPath": "/mnt/out"}), True),
        (worker({"scratch": True, "mountPath": "/mnt/tmp"}), True),
        (worker(run="true"), True),
        (worker(run="true", head="platform"), False),
        (worker(run="true", sandbox="none"), False),
        (worker(sandbox="bubblewrap"), True),
    ],
)
def test_bubblewrap_is_wanted_for_mounts_and_for_a_head_of_its_own(of, wanted):
    assert wants_bubblewrap(of) is wanted
    assert sandbox_of(of, Facts()) == ("bubblewrap" if wanted else "none")
    assert sandbox_of(of, Facts(no_bubblewrap="")) == ("bubblewrap" if wanted else "none")
    assert sandbox_of(of, Facts(no_bubblewrap="it is not installed")) == "none"


@pytest.mark.parametrize(
    ("head", "sandbox", "own"),
    [("job", "bubblewrap", True), ("job", "none", False), ("platform", "bubblewrap", False)],
)
def test_process_numbers_of_its_own_never_hide_the_platforms_head(head, sandbox, own):
    assert Plan(job="demo", node="box", head=head, sandbox=sandbox).own_pids is own


@pytest.mark.parametrize(
    ("written", "made", "needs"),
    [
        (ELSEWHERE, PlannedMount(path="/mnt/data", host="/data"), True),
        ({"hostPath": "//data/./x/", "mountPath": "/data/y/../x"}, PlannedMount(path="/data/x", host="/data/x"), False),
        ({"volume": "out", "mountPath": "//mnt//out/"}, PlannedMount(path="/mnt/out", volume="out"), True),
        ({"scratch": True, "mountPath": "/t"}, PlannedMount(path="/t", scratch=True), True),
        ({**IN_PLACE, "readOnly": True}, PlannedMount(path="/data", host="/data", read_only=True), True),
    ],
)
def test_mounts_are_planned_without_what_changes_nothing(written, made, needs):
    assert planned(Mount.model_validate(written)) == made
    assert needs_bubblewrap(made) is needs
