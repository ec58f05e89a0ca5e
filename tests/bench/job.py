"""A whole Job of the bench configuration, as its worker lives it: where the time goes.

`python -m rlark.worker FOLDER` runs the engine and verifies what it made. Nothing is measured inside:
the times stand in the files that every Job leaves.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from rlark.folder import Home, JobFolder, read_json, write_json
from rlark.plan.node import Inventory, Lease, Node
from rlark.preflight import preflight
from rlark.spec.source import load

ROOT = Path(__file__).parents[2]
JOB = """
apiVersion: rlinf.io/v1alpha1
kind: Job
metadata: {{name: bench}}
spec:
  tasks:
    - name: worker
      head: true
      role: Actor
      agentType: Ray
      ray:
        replicas: 1
        resources: {{cpu: 2}}
        config: {{path: ../{config}, overrides: [algorithm.seed={seed}]}}
      expect:
        firstSignal: {{pattern: 'iter 1/', within: 5m}}
        outputs: [{{path: policy.onnx, minBytes: 1024}}, {{path: eval-report.json}}]
"""


def live(home: Path, seed: int, config: str = "configs/originbot_ppo_bench.yaml") -> dict[str, float]:
    """Live one Job to its verified end: seconds of the whole, of each part, and of what is no training.

    Raises:
        RuntimeError: it was refused, failed, or could not be verified.
    """
    folder = _planned(home, seed, config)
    begun = time.time()
    done = subprocess.run(
        [sys.executable, "-m", "rlark.worker", folder.root],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=_environment(),
    )
    ended = time.time()
    if done.returncode:
        raise RuntimeError(f"the Job ended with {done.returncode}: {done.stderr[-2000:]}")
    return Times.read(folder, begun, ended).parts()


def _planned(home: Path, seed: int, config: str) -> JobFolder:
    """A job folder with its plan and a lease of this machine, as the controller makes it."""
    folder = Home(home).job(f"bench-{seed}")
    folder.create()
    text = JOB.format(seed=seed, config=config)
    node = Node(name="bench", cpus=os.cpu_count() or 1)
    seen = preflight(load(text, folder=ROOT / "job_specs"), Inventory(nodes=[node], source="this machine"))
    if seen.plan is None:
        raise RuntimeError("\n".join(map(str, seen.findings)))
    write_json(folder.plan, json.loads(seen.plan.model_dump_json(by_alias=True)))
    lease = Lease(job="bench", attempt=1, key="bench", node="bench", cpus=2)
    write_json(folder.lease, lease.to_json())
    return folder


def _environment() -> dict[str, str]:
    """What a worker has of its platform; no thread counts, which are the engine's own matter."""
    counts = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {name: value for name, value in os.environ.items() if name not in counts}


@dataclass(frozen=True)
class Times:
    """Moments of a Job, in seconds since the epoch.

    Attributes:
        begun: the worker's process was started.
        first: the first iteration began.
        trained: the last iteration was reported, its checkpoint written.
        training: seconds in iterations.
        chosen: the checkpoint to export was probed and chosen.
        exported: the ONNX file was compared with its checkpoint.
        evaluated: the last episode was measured.
        written: result.json is there.
        ended: the worker has verified everything and ended.
    """

    begun: float
    first: float
    trained: float
    training: float
    chosen: float
    exported: float
    evaluated: float
    written: float
    ended: float

    @classmethod
    def read(cls, folder: JobFolder, begun: float, ended: float) -> Times:
        """From the files that the Job left."""
        lines = [json.loads(line) for line in folder.metrics.read_text().splitlines()]
        artifacts, result = folder.artifacts, read_json(folder.result) or {}
        checkpoint: Any = result["checkpoint"]
        return cls(
            begun=begun,
            first=_moment(lines[0]["time"]) - lines[0]["elapsedSeconds"],
            trained=max(_moment(lines[-1]["time"]), (folder.checkpoints / "latest").stat().st_mtime),
            training=lines[-1]["elapsedSeconds"],
            chosen=(artifacts / "checkpoints" / f"{checkpoint['checkpointId']}.npz").stat().st_mtime,
            exported=(artifacts / "parity.json").stat().st_mtime,
            evaluated=(artifacts / "eval-report.json").stat().st_mtime,
            written=folder.result.stat().st_mtime,
            ended=ended,
        )

    def parts(self) -> dict[str, float]:
        """Seconds of each part; nothing is compiled. Reports and checkpoints are what training takes besides."""
        whole = self.ended - self.begun
        return {
            "whole": whole,
            "training": self.training,
            "import": self.first - self.begun,
            "compile": 0.0,
            "reports": self.trained - self.first - self.training,
            "export": self.exported - self.chosen,
            "evaluation": self.chosen - self.trained + self.evaluated - self.exported,
            "verification": self.ended - self.evaluated,
            "overhead": whole - self.training,
        }


def _moment(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
