"""What a run that is over proves: its files held against what was expected, and what it says of its own failure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rlark.evidence.verify import Verdict
from rlark.folder import JobFolder, read_json
from rlark.plan.mounts import real_path
from rlark.plan.plan import Output, Plan
from rlark.worker.outcome import FIRST_SIGNAL
from rlark.worker.reports import Reports
from rlark.worker.watch import Watch


def prove(folder: JobFolder, plan: Plan, watch: Watch, reports: Reports) -> Verdict:
    """Hold what the run claims against its files, and report it."""
    from rlark.evidence.verify import verify  # reading and hashing is for the end

    verdict = verify(
        folder.root,
        started_at=watch.started_at,
        outputs=[_really(output, folder, plan) for output in plan.outputs],
        evidence=plan.evidence,
        gate=plan.gate,
        signal_expected=watch.signal.expected,
        signal_seen=watch.signal.in_time,
    )
    if verdict.checks:
        wrong = [f"{check.name}: {check.message}" for check in verdict.failed if check.name != FIRST_SIGNAL]
        reason = "NotVerified" if wrong else "Verified"
        message = "; ".join(wrong) or "what was expected is there"
        reports.write("OutputsVerified", not wrong, reason, message, {"verdict": verdict.to_json()})
    return verdict


def first_cause(folder: JobFolder) -> Mapping[str, object] | None:
    """The run's own first cause (`failure.json`), where it failed and could tell."""
    try:
        return read_json(folder.failure)
    except (OSError, ValueError) as error:
        return {"exception": "Unreadable", "message": f"failure.json: {error}"}


def _really(output: Output, folder: JobFolder, plan: Plan) -> Output:
    """An expected output where it really lies: the run sees mounts that the worker does not."""
    if not Path(output.path).is_absolute():
        return output
    path = real_path(output.path, plan.mounts, volumes=str(folder.home.volumes), scratch=str(folder.scratch))
    return output.model_copy(update={"path": path})
