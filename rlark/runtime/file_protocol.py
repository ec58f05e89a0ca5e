"""The file protocol: an engine that is started by a training worker, or by hand, instead of a Job.

    RDK_SIM2REAL_REQUEST_FILE   the training request
    RDK_SIM2REAL_RESULT_FILE    where result.json goes, last
    RDK_SIM2REAL_JOB_DIR        the folder of this run; the working directory when it is not set

Everything else lies in that folder itself: products, checkpoints and metrics. What lay there
before the run belongs to somebody else and is no product; what an earlier run of an engine left
there is removed, so that nothing of it counts as new.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rlark.errors import UsageError
from rlark.evidence.manifest import NAME
from rlark.folder import JobFolder, read_json
from rlark.host.remove import remove
from rlark.plan.node import Lease
from rlark.plan.plan import Plan, RankPlacement
from rlark.reference import slug
from rlark.runtime.rank import THREADS
from rlark.spec.train_request import TrainRequest

REQUEST = "RDK_SIM2REAL_REQUEST_FILE"
RESULT = "RDK_SIM2REAL_RESULT_FILE"
FOLDER = "RDK_SIM2REAL_JOB_DIR"
HOW = (
    f"an engine is started by a Job, rlark submit JOB.yaml, or by a training worker, which sets {REQUEST} and {RESULT}"
)
_WIRE = (
    *("policy.onnx", "policy.onnx.rejected", "parity.json", "training-summary.json", "eval-report.json"),
    *("telemetry.jsonl", "baseline-telemetry.jsonl"),
)
"""Products whose names the protocol fixes."""
_OURS = frozenset({"checkpoints", "tensorboard"})
"""Folders that a run shares with earlier ones in the same place."""


@dataclass(frozen=True)
class Files:
    """What the variables name.

    Attributes:
        request: the training request.
        result: where the result goes.
        folder: where the run lives.
    """

    request: Path
    result: Path
    folder: Path

    @classmethod
    def find(cls, environ: Mapping[str, str]) -> Files | None:
        """The files that the environment names; None where it names none.

        Raises:
            UsageError: it names only one of the two.
        """
        request, result = environ.get(REQUEST, ""), environ.get(RESULT, "")
        if not request and not result:
            return None
        if not request or not result:
            unset, unknown = (RESULT, "where the result goes") if request else (REQUEST, "what to train")
            raise UsageError(f"{unset} is not set, so it is unknown {unknown}.", hint=HOW)
        return cls(Path(request).absolute(), Path(result).absolute(), Path(environ.get(FOLDER) or ".").absolute())

    def read(self) -> TrainRequest:
        """The request.

        Raises:
            OSError: the file cannot be read.
            ValueError: it holds no training request.
        """
        try:
            data = read_json(self.request)
        except json.JSONDecodeError as error:
            raise ValueError(f"{self.request} holds no JSON: {error}") from error
        if data is None:
            raise ValueError(f"{self.request} does not exist")
        return TrainRequest.read(data)

    def job(self, environ: Mapping[str, str]) -> tuple[JobFolder, Plan, Lease]:
        """The run as a Job that nobody scheduled: one process, on all that this one may use."""
        name = slug(self.folder.name)
        plan = Plan(
            job=name,
            node=platform.node(),
            placement={component: [RankPlacement(rank=0)] for component in ("actor", "rollout", "env")},
            fused=True,
            env={THREADS: environ[THREADS]} if THREADS in environ else {},
            evidence=True,
        )
        lease = Lease(job=name, attempt=1, key="", node=plan.node, cpus=len(os.sched_getaffinity(0)))
        return JobFolder(self.folder, flat=True), plan, lease


def clear(folder: JobFolder, kept: Path | None) -> None:
    """Remove what an earlier run left in the folder of a run.

    Args:
        folder: where the run lives.
        kept: a checkpoint that shall be continued from; none of them goes when it lies here.
    """
    for path in (*(folder.root / name for name in (NAME, *_WIRE)), folder.metrics, folder.failure):
        remove(path)
    if kept is None or not kept.resolve().is_relative_to(folder.checkpoints.resolve()):
        for pattern in ("global_step_*", "iter-*"):
            for path in folder.checkpoints.glob(pattern):
                remove(path)


def bystanders(folder: JobFolder) -> frozenset[str]:
    """What lies in the folder of a run before it begins, and is none of its products."""
    return frozenset(path.name for path in folder.root.iterdir()) - _OURS
