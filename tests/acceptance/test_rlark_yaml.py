"""Jobs exactly as RLark's console posts them: checked, and run to their end."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import yaml

from tests.acceptance.user import User

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]

TASK = "spec.tasks[0]"
TEMPLATE = f"{TASK}.kubernetes.workload.template.spec"
HOST = f'{TASK}.nodeSelector["kubernetes.io/hostname"]={socket.gethostname()}'


def gpus(count: int) -> list[str]:
    resources = f"{TEMPLATE}.containers[0].resources"
    return [f'{resources}.{kind}["nvidia.com/gpu"]="{count}"' for kind in ("requests", "limits")]


def setting(changes: list[str]) -> list[str]:
    return [word for change in changes for word in ("--set", change)]


def events(user: User, name: str) -> list[dict[str, str]]:
    return user.json("events", name)["items"]


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    folder = tmp_path / "inputs"
    folder.mkdir()
    (folder / "numbers.txt").write_text("1 2 3\n")
    return folder


def test_the_job_with_mounts_runs_and_its_claim_is_a_folder_that_outlives_the_run(eight_gpus, shared, inputs, tmp_path):
    prepare = "export GREETING=hello\ncd /mnt/dataset\n"
    run = (
        'echo "gpus $CUDA_VISIBLE_DEVICES mode $WANDB_MODE role $RLARK_TASK_ROLE at $PWD"\n'
        'echo "$GREETING $(cat numbers.txt)" > /mnt/checkpoints/out.txt\n'
        "mkdir -p $RLARK_TENSORBOARD_DIR\n"
    )
    changes = [
        HOST,
        *gpus(2),
        f"{TEMPLATE}.volumes[0].hostPath.path={inputs}",
        f"{TASK}.prepareScript={json.dumps(prepare)}",
        f"{TASK}.runScript={json.dumps(run)}",
        f"{TASK}.expect={{outputs: [{{path: /mnt/checkpoints/out.txt}}]}}",
    ]
    file = shared / "cases/rlark-single-node-worker.json"
    eight_gpus.rlark("submit", file, *setting(changes))
    name = "my-training-run-001"
    status = eight_gpus.status(name)
    assert (status["phase"], status["verified"], status["exitCode"]) == ("Succeeded", True, 0)
    log = eight_gpus.rlark("logs", name)
    assert "mode offline role worker at /mnt/dataset" in log
    claim = Path(eight_gpus.home, "volumes/pvc-my-training-run-001-worker-mnt-checkpoints")
    assert (claim / "out.txt").read_text() == "hello 1 2 3\n"
    assert (claim / "tensorboard").is_dir()
    assert not Path("/mnt/checkpoints").exists()

    saved = eight_gpus.rlark("get", name, "-o", "yaml")
    again = yaml.safe_load(saved)["spec"]["tasks"][0]
    assert (again["prepareScript"], again["runScript"]) == (prepare, run)
    original = json.loads(file.read_text())["spec"]["tasks"][0]["kubernetes"]
    assert again["kubernetes"]["workload"]["pvcStorageMap"] == original["workload"]["pvcStorageMap"]

    eight_gpus.rlark("restart", name)
    assert eight_gpus.ended(name)["attempt"] == 2
    assert (claim / "out.txt").is_file()
    eight_gpus.rlark("delete", "-y", name)
    assert not claim.exists()
    assert (inputs / "numbers.txt").is_file()


def test_the_job_without_mounts_runs_with_its_own_run_script(eight_gpus, shared):
    file = shared / "cases/rlark-no-mounts.json"
    eight_gpus.rlark("submit", file, *setting([HOST, *gpus(1)]))
    status = eight_gpus.status("no-mounts")
    assert (status["phase"], status["exitCode"], status["verified"]) == ("Succeeded", 0, None)
    saved = yaml.safe_load(eight_gpus.rlark("get", "no-mounts", "-o", "yaml"))
    assert saved["spec"]["tasks"][0]["runScript"] == 'echo "hi" \\ done'
    lines = [line.rstrip() for line in eight_gpus.rlark("logs", "no-mounts").splitlines()]
    assert any(line.endswith("hi  done") for line in lines)
    eight_gpus.rlark("delete", "-y", "no-mounts")
