"""The main Job: trained, exported, verified and through its gate, fused and placed, and in the notebook."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.acceptance.user import ROOT, User

pytestmark = pytest.mark.acceptance
MAIN = ROOT / "job_specs/originbot-goalnav.yaml"
TOGETHER, APART = "actor,rollout,env: 0", 'actor: 0\n    rollout: 0\n    env: "0:0-1"'


def judged(user: User, name: str) -> dict[str, object]:
    status = user.status(name)
    assert (status["phase"], status["verified"], status["qualityGatePassed"]) == ("Succeeded", True, True)
    return json.loads((user.home / f"jobs/{name}/artifacts/eval-report.json").read_text())["trained"]["nominal"]


@pytest.mark.timeout(900)
def test_fused_it_passes_its_gate(machine: User) -> None:
    machine.rlark("submit", MAIN)
    nominal = judged(machine, "originbot-goalnav")
    assert nominal["episodes"] == 200
    assert nominal["successRate"] >= 0.95
    assert machine.status("originbot-goalnav")["fused"] is True
    machine.rlark("artifacts", "originbot-goalnav", "verify")


@pytest.mark.timeout(300)
def test_the_chain_of_pendulums_passes_its_gate(machine: User) -> None:
    machine.rlark("submit", ROOT / "job_specs/pendulum-chain.yaml")
    nominal = judged(machine, "pendulum-chain")
    assert (nominal["episodes"], nominal["successRate"], nominal["survivalSteps"]) == (8, 1.0, 400.0)


@pytest.mark.timeout(900)
def test_it_passes_on_a_seed_that_nobody_tuned_it_on(machine: User) -> None:
    overrides = json.dumps(["algorithm.seed=11"])
    machine.rlark("submit", MAIN, "--name", "seed-11", "--set", f"spec.tasks[0].ray.config.overrides={overrides}")
    nominal = judged(machine, "seed-11")
    assert nominal["successRateCiLow"] >= 0.85
    parity = json.loads((machine.home / "jobs/seed-11/artifacts/parity.json").read_text())
    assert max(parity["parityMaxAbsError"], parity["roundingMaxAbsError"]) < 1e-6
    rows = map(json.loads, (machine.home / "jobs/seed-11/metrics.jsonl").read_text().splitlines())
    assert max(row["firstRatioError"] for row in rows) < 1e-5


@pytest.mark.timeout(1800)
def test_placed_it_passes_too(machine: User, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "configs", tmp_path / "configs")
    (tmp_path / "job_specs").mkdir()
    job = Path(shutil.copy(MAIN, tmp_path / "job_specs"))
    config = tmp_path / "configs/originbot_ppo.yaml"
    text = config.read_text()
    assert text.count(TOGETHER) == 1
    config.write_text(text.replace(TOGETHER, APART))
    machine.rlark("submit", job, "--name", "placed")
    judged(machine, "placed")
    status = machine.status("placed")
    assert status["fused"] is False
    assert sorted((r["component"], r["rank"]) for r in status["ranks"]) == [
        ("actor", 0),
        ("env", 0),
        ("env", 1),
        ("rollout", 0),
    ]


@pytest.mark.timeout(600)
def test_the_notebook_runs(machine: User, tmp_path: Path) -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(ROOT / "examples/quickstart.ipynb", as_version=4)
    client = NotebookClient(notebook, timeout=500, resources={"metadata": {"path": str(ROOT / "examples")}})
    with pytest.MonkeyPatch.context() as environment:
        for name, value in machine.env.items():
            environment.setenv(name, value)
        client.execute()
    failed = [output for cell in notebook.cells for output in cell.get("outputs", []) if output.output_type == "error"]
    assert failed == []
