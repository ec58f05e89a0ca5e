"""RLinf itself, as it comes from PyPI, under `rlark submit`: its own Cluster, groups and channel."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.acceptance.user import ROOT, User

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]

ENVIRONMENT = ROOT / ".venv-rlinf"
PROGRAMS = ROOT / "tests/acceptance/rlinf_programs"
ENDINGS = {"rlinf-groups": "", "rlinf-exits": "exit", "rlinf-raises": "raise"}
RUN = """\
cd {programs}
set +e
python two_groups.py {ending}
code=$?
echo "python ended with $code"
exit $code
"""


@pytest.fixture(scope="module", autouse=True)
def rlinf(machine: User, tmp_path_factory: pytest.TempPathFactory) -> None:
    """All three Jobs at once: each starts its head and imports torch in every actor."""
    if not (ENVIRONMENT / "bin/activate").is_file():
        pytest.skip("RLinf is not installed: scripts/rlinf-environment does that")
    for name, ending in ENDINGS.items():
        file = tmp_path_factory.mktemp("rlinf") / f"{name}.yaml"
        file.write_text(job(name, ending))
        machine.rlark("submit", "--detach", file)


def job(name: str, ending: str) -> str:
    """A Job that runs the program in RLinf's own environment, and expects its output."""
    worker = {
        "name": "worker",
        "head": True,
        "prepareScript": f"source {ENVIRONMENT}/bin/activate\n",
        "runScript": RUN.format(programs=PROGRAMS, ending=ending),
        "ray": {"resources": {"cpu": 1}},
        "expect": {
            "firstSignal": {"pattern": "RLinf is running on a cluster with 1 node", "within": "4m"},
            "outputs": [{"path": "results.json"}],
        },
    }
    spec = {"tasks": [worker], "activeDeadline": "8m"}
    written = {"apiVersion": "rlinf.io/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    return yaml.safe_dump(written, sort_keys=False)


def printed(user: User, name: str) -> str:
    return user.rlark("logs", name, "-n", "2000")


def python_ended_with(log: str) -> int:
    found = re.search(r"^.*python ended with (\d+)$", log, re.MULTILINE)
    assert found, log
    return int(found[1])


def test_a_program_for_rlinf_succeeds_and_is_verified_by_its_output(machine):
    machine.rlark("wait", "rlinf-groups")
    status = machine.status("rlinf-groups")
    assert (status["phase"], status["reason"], status["verified"], status["exitCode"]) == (
        "Succeeded",
        "Completed",
        True,
        0,
    )
    output = json.loads(Path(machine.home, "jobs/rlinf-groups/artifacts/results.json").read_text())
    assert output == {"ranks": [0, 1], "total": 28}
    log = printed(machine, "rlinf-groups")
    order = [
        "RLINF_NODE_RANK: 0",
        "Executing prepare script...",
        "Ray Head started",
        "Ray cluster is ready. Printing cluster information:",
        "Executing run script...",
        "ranks [0, 1] total 28",
        "Stopping Ray cluster...",
    ]
    places = [log.index(line) for line in order]
    assert places == sorted(places)


def test_an_exit_code_that_rlinf_swallows_is_not_invented_and_the_job_fails_all_the_same(machine):
    machine.rlark("wait", "rlinf-exits", code=100)
    status, code = machine.status("rlinf-exits"), python_ended_with(printed(machine, "rlinf-exits"))
    assert (status["phase"], status["verified"], status["exitCode"]) == ("Failed", False, code)
    assert status["reason"] == ("OutputMissing" if code == 0 else "RunFailed")


def test_a_program_that_raises_fails_with_exit_code_1(machine):
    machine.rlark("wait", "rlinf-raises", code=100)
    status = machine.status("rlinf-raises")
    assert (status["phase"], status["reason"], status["exitCode"]) == ("Failed", "RunFailed", 1)
    assert python_ended_with(printed(machine, "rlinf-raises")) == 1
    assert "on purpose, after the work" in printed(machine, "rlinf-raises")
