"""starter-ppo as a training worker starts it: processes, files and exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from engines.starter_ppo.config import Config
from rlark.evidence.manifest import read_manifest, verify_manifest
from rlark.evidence.onnx_policy import OnnxPolicy
from rlark.folder import JobFolder, read_json, write_json
from rlark.plan.node import Lease
from rlark.plan.plan import Plan, RankPlacement
from rlark.spec.train_request import SIZES, TrainRequest

pytestmark = pytest.mark.integration
CONFIGS = Path(__file__).parents[2] / "configs" / "tasks"
PROGRESS = re.compile(r"^\[starter-ppo\] iter (\d+)/(\d+) meanReward=(-?\d+(\.\d+)?) recentSuccess=(\d+(\.\d+)?)")
HIDING = "import runpy, sys; sys.modules[{0!r}] = None; runpy.run_module('engines.starter_ppo', run_name='__main__')"
FILES = {"RDK_SIM2REAL_REQUEST_FILE": "request.json", "RDK_SIM2REAL_RESULT_FILE": "result.json"}
Done = subprocess.CompletedProcess[str]
Train = Callable[..., tuple[Done, Path]]


def request(**parts: Any) -> dict[str, Any]:
    task = yaml.safe_load((CONFIGS / "originbot-goal-navigation.yaml").read_text())
    task["evaluationConfig"] = {"episodesPerEnvelope": 30}
    return {
        "schemaVersion": 1,
        "accountId": "somebody",
        "contractId": "originbot-policy-v1",
        "model": {"modelId": "m", "version": "1.0.0"},
        "contract": {"id": "originbot-policy-v1", "observationSize": 8, "actionSize": 2, "controlHz": 10},
        "task": task,
        "training": {"profile": "smoke", "numEnvs": 4, "maxIterations": 2},
        **parts,
    }


def environment(**variables: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "RDK_STARTER_ENGINE_DEVICE": "cpu", **variables}


def started(folder: Path, asked: dict[str, Any], *, hidden: str = "", **variables: str) -> Done:
    """Runs the engine on a request in a folder of its own; `hidden` names a package that it shall not find."""
    folder.mkdir()
    (folder / "request.json").write_text(json.dumps(asked))
    command = ["-c", HIDING.format(hidden)] if hidden else ["-m", "engines.starter_ppo"]
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment(**FILES | variables),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def train(tmp_path: Path) -> Train:
    """Runs the engine: `train(request, hidden="torch", VARIABLE="value")`."""

    def run(asked: dict[str, Any], name: str = "run", **how: str) -> tuple[Done, Path]:
        return started(tmp_path / name, asked, **how), tmp_path / name

    return run


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> tuple[Done, Path]:
    """Two iterations on four environments; not to be changed."""
    folder = tmp_path_factory.mktemp("runs") / "smoke"
    done = started(folder, request())
    assert done.returncode == 0, done.stderr
    return done, folder


def test_a_request_becomes_a_policy_with_its_evidence(smoke):
    done, folder = smoke
    found = [PROGRESS.match(line) for line in done.stdout.splitlines()[:2]]
    assert [match.group(1, 2) for match in found] == [("1", "2"), ("2", "2")]
    result, summary = read_json(folder / "result.json"), read_json(folder / "training-summary.json")
    assert result["artifact"]["artifactRef"] == "artifact://starter/m/1.0.0/policy.onnx"
    assert result["artifact"]["sizeBytes"] == (folder / "policy.onnx").stat().st_size
    assert (result["artifact"]["format"], result["artifact"]["threads"], result["deployable"]) == ("onnx", 1, False)
    assert (result["cuda"], result["metrics"]["iterations"], result["metrics"]["contractValid"]) == (False, 2, True)
    assert len(result["dependencyLockSha256"]) == 64
    assert {"numpy", "torch", "onnx"} <= result["dependencies"].keys()
    facts = ("engine", "task", "profile", "seed", "device", "cudaRequested", "measurementStage", "onnxExported")
    assert [summary[name] for name in facts] == [
        *("starter-ppo", "originbot-goal-navigation", "smoke", 7, "cpu", False, "host-onnx", True)
    ]
    assert summary["deviceName"]
    assert 0 < summary["controlLatencyMs"] < 1000
    assert len(summary["rewardCurve"]) == 2
    assert OnnxPolicy(folder / "policy.onnx")(np.zeros((3, 8), np.float32)).shape == (3, 2)


def test_every_product_is_listed_and_the_result_is_written_last(smoke):
    _, folder = smoke
    assert verify_manifest(folder, complete=False).verified
    listed = {entry.path for entry in read_manifest(folder)}
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert there - listed == {"SHA256SUMS", "request.json", "result.json"}
    products = {"policy.onnx", "training-summary.json", "eval-report.json", "telemetry.jsonl"}
    assert products | {"baseline-telemetry.jsonl", "checkpoints/global_step_2/actor.pkl"} <= listed
    newest = max((path for path in folder.rglob("*") if path.is_file()), key=lambda path: path.stat().st_mtime_ns)
    assert newest.name == "result.json"


def test_a_smoke_run_never_passes_the_gate(smoke):
    _, folder = smoke
    gate = read_json(folder / "eval-report.json")["qualityGate"]
    metrics = read_json(folder / "result.json")["metrics"]
    assert gate["passed"] is metrics["qualityGatePassed"] is False
    assert metrics["evalEpisodes"] >= 30


def test_two_processes_and_both_doors_give_the_same_bytes(smoke, train, tmp_path: Path):
    first, second = smoke[1], train(request())[1]
    policy = (first / "policy.onnx").read_bytes()
    assert (second / "policy.onnx").read_bytes() == policy
    metrics = [read_json(folder / "result.json")["metrics"] for folder in (first, second)]
    for measured in metrics:
        measured.pop("controlLatencyMs")  # the only one that a clock gives
    assert metrics[0] == metrics[1]
    job = submitted(tmp_path / "job", Config.from_request(TrainRequest.read(request()), {}))
    done = subprocess.run(
        [sys.executable, "-m", "engines.starter_ppo"],
        env=environment(RLARK_JOB_DIR=str(job.root)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (job.artifacts / "policy.onnx").read_bytes() == policy
    same = ("eval-report.json", "training-summary.json", "telemetry.jsonl", "baseline-telemetry.jsonl", "parity.json")
    assert set(same) <= {path.name for path in job.artifacts.iterdir()}
    assert (job.artifacts / "telemetry.jsonl").read_bytes() == (first / "telemetry.jsonl").read_bytes()


def submitted(root: Path, config: Config) -> JobFolder:
    """The folder of a Job with that configuration, as the controller lays it down."""
    folder = JobFolder(root)
    folder.create()
    placement = {component: [RankPlacement(rank=0)] for component in ("actor", "rollout", "env")}
    values = config.model_dump(mode="json", by_alias=True, exclude={"product"})
    plan = Plan(job="job", node="here", engine="starter-ppo", config=values, placement=placement, fused=True)
    write_json(folder.plan, plan.to_json())
    write_json(folder.lease, Lease(job="job", attempt=1, key="", node="here").to_json())
    return folder


def test_without_a_task_a_chain_of_pendulums_is_balanced(train):
    done, folder = train(balancing(numEnvs=4, maxIterations=20))
    assert done.returncode == 0, done.stderr
    assert PROGRESS.match(done.stdout).group(1, 2) == ("1", "20")
    result = read_json(folder / "result.json")
    artifact, metrics = result["artifact"], result["metrics"]
    assert (result["cuda"], result["deployable"], metrics["iterations"]) == (False, False, 20)
    assert artifact["artifactRef"] == "artifact://starter/starter-ppo-balance/0.1.0/policy.onnx"
    assert [artifact[name] for name in ("format", "runtime", "threads", "workload")] == [
        *("onnx", "cpu-onnx", 1, "locomotion")
    ]
    assert artifact["sizeBytes"] == (folder / "policy.onnx").stat().st_size > 1024
    rows = [json.loads(line) for line in (folder / "telemetry.jsonl").read_text().splitlines()]
    assert {(len(row["observation"]), len(row["action"])) for row in rows} == {(42, 12)}
    assert metrics["telemetrySamples"] == len(rows)
    assert OnnxPolicy(folder / "policy.onnx")(np.zeros((1, 42), np.float32)).shape == (1, 12)


def test_sac_learns_by_a_temperature(train):
    done, folder = train(balancing(numEnvs=4, maxIterations=10, algorithm="sac"))
    assert done.returncode == 0, done.stderr
    result, summary = read_json(folder / "result.json"), read_json(folder / "training-summary.json")
    assert (result["metrics"]["algorithm"], summary["algorithm"], summary["iterations"]) == ("sac", "sac", 10)
    assert len(summary["alphaCurve"]) == 10
    assert all(alpha > 0 for alpha in summary["alphaCurve"])
    assert "tau" in summary["hyperparams"]


def balancing(**training: Any) -> dict[str, Any]:
    """A request for the chain of pendulums that has no task pack."""
    sizes = {"observationSize": 42, "actionSize": 12, "jointCount": 12}
    times = {"controlHz": 50, "physicsTimestepSeconds": 0.002, "decimation": 10}
    asked = request(
        contractId="rdk-duck-policy-starter-v1",
        model={"modelId": "starter-ppo-balance", "version": "0.1.0"},
        contract={"id": "rdk-duck-policy-starter-v1", **sizes, **times},
        training={"profile": "smoke", **training},
    )
    return {name: value for name, value in asked.items() if name != "task"}


def test_a_run_goes_on_from_the_checkpoint_of_another(smoke):
    _, first = smoke
    checkpoint = read_json(first / "result.json")["checkpoint"]
    resume = {name: checkpoint[name] for name in ("checkpointId", "artifactRef", "iteration")}
    longer = request(resumeFrom=resume, training={"profile": "smoke", "numEnvs": 4, "maxIterations": 4})
    done = started(first.parent / "longer", longer)
    assert done.returncode == 0, done.stderr
    assert f"continuing after iteration {resume['iteration']} from {first}" in done.stderr
    curves = [read_json(first.parent / name / "training-summary.json")["rewardCurve"] for name in ("smoke", "longer")]
    assert len(curves[1]) == 4
    assert curves[1][: resume["iteration"]] == curves[0][: resume["iteration"]]
    done = started(first.parent / "shorter", {**longer, "training": {"numEnvs": 4, "maxIterations": 1}})
    assert done.returncode == 1
    assert "training.maxIterations counts from the very start: ask for more" in done.stderr
    assert not (first.parent / "shorter" / "result.json").exists()


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"schemaVersion": 2}, "schemaVersion must be 1"),
        ({"contract": {"observationSize": 0, "actionSize": 2}}, SIZES),
        ({"demonstrations": {"jsonl": ""}}, "demonstrations are given"),
        ({"resumeFrom": {"checkpointId": "iter-1", "artifactRef": "artifact://starter/m"}}, "is not known here"),
    ],
)
def test_a_refused_request_ends_with_1_its_reason_and_no_result(train, parts, said):
    done, folder = train(request(**parts))
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "result.json").exists()


def test_devices_are_told_as_they_are(train):
    done, folder = train(request(), "cuda", RDK_STARTER_ENGINE_DEVICE="cuda", CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0, done.stderr
    assert "cuda requested but not available" in done.stderr
    result, summary = read_json(folder / "result.json"), read_json(folder / "training-summary.json")
    assert (result["cuda"], summary["device"], summary["cudaRequested"]) == (False, "cpu", True)
    done, folder = train(request(), "tpu", RDK_STARTER_ENGINE_DEVICE="tpu")
    assert (done.returncode, (folder / "result.json").exists()) == (1, False)
    assert "RDK_STARTER_ENGINE_DEVICE is 'tpu'; it must be auto, cuda or cpu" in done.stderr


@pytest.mark.parametrize("package", ["torch", "numpy"])
def test_without_torch_or_numpy_it_ends_with_2(train, package):
    done, folder = train(request(), hidden=package)
    assert (done.returncode, (folder / "result.json").exists()) == (2, False)
    assert f"lacks what it needs: package {package} (python -m pip install" in done.stderr


def test_without_the_protocol_it_ends_with_2_and_says_how_it_is_started(train):
    done, _ = train(request(), "neither", RDK_SIM2REAL_REQUEST_FILE="", RDK_SIM2REAL_RESULT_FILE="")
    assert (done.returncode, "by a training worker, which sets RDK_SIM2REAL_REQUEST_FILE" in done.stderr) == (2, True)
    done, folder = train(request(), "half", RDK_SIM2REAL_REQUEST_FILE="")
    assert (done.returncode, (folder / "result.json").exists()) == (2, False)
    assert "RDK_SIM2REAL_REQUEST_FILE is not set" in done.stderr


def test_without_onnx_the_run_completes_and_says_so(train):
    done, folder = train(request(), hidden="onnx")
    assert done.returncode == 0, done.stderr
    result = read_json(folder / "result.json")
    assert (result["metrics"]["onnxExported"], result["artifact"]["format"]) == (False, "unknown")
    assert not (folder / "policy.onnx").exists()
    assert verify_manifest(folder, complete=False).verified


def test_a_run_that_is_asked_to_stop_leaves_a_checkpoint_to_go_on_from_and_no_result(tmp_path: Path):
    folder = tmp_path / "halted"
    folder.mkdir()
    (folder / "request.json").write_text(json.dumps(request(training={"numEnvs": 4, "maxIterations": 1_000_000})))
    with subprocess.Popen(
        [sys.executable, "-m", "engines.starter_ppo"],
        cwd=folder,
        env=environment(**FILES),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        assert PROGRESS.match(run.stdout.readline())  # flushed at once
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=30)
    assert (run.returncode, said.splitlines()[-1]) == (143, "stopped as asked")
    (saved,) = (folder / "checkpoints").glob("global_step_*")
    assert not (folder / "result.json").exists()
    named = json.loads(said.splitlines()[-2].removeprefix("to go on, give a request resumeFrom: "))
    iteration = int(saved.name.rpartition("_")[2])
    assert named == {
        "checkpointId": saved.name,
        "artifactRef": f"artifact://starter-ppo/halted/checkpoints/{saved.name}",
    }
    training = {"profile": "smoke", "numEnvs": 4, "maxIterations": iteration + 2}
    done = started(tmp_path / "on", request(resumeFrom=named, training=training))
    assert done.returncode == 0, done.stderr
    assert f"continuing after iteration {iteration} from {saved}" in done.stderr
    told = [json.loads(line)["iteration"] for line in (tmp_path / "on" / "metrics.jsonl").read_text().splitlines()]
    assert told == list(range(1, iteration + 3))
