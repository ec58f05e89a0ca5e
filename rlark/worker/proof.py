"""What a run that is over proves: its files held against what was expected, and what it says of its own failure."""

from __future__ import annotations

from collections.abc import Mapping

from rlark.evidence.verify import Verdict
from rlark.folder import JobFolder, read_json
from rlark.host.view import View
from rlark.plan.plan import Plan
from rlark.worker.outcome import FIRST_SIGNAL
from rlark.worker.reports import Reports
from rlark.worker.watch import Watch


def prove(folder: JobFolder, plan: Plan, watch: Watch, view: View, reports: Reports) -> Verdict:
    """Hold what the run claims against its files, and report it.

    Args:
        folder: the Job's.
        plan: what was expected.
        watch: what was seen of the run.
        view: what the run saw of the node, mounts and all.
        reports: where the verdict is told.
    """
    from rlark.evidence.verify import verify  # reading and hashing is for the end

    verdict = verify(
        folder.root,
        started_at=watch.started_at,
        outputs=plan.outputs,
        evidence=plan.evidence,
        gate=plan.gate,
        signal_expected=watch.signal.expected,
        signal_seen=watch.signal.in_time,
        view=view,
    )
    if verdict.checks:
        wrong = [f"{check.name}: {check.message}" for check in verdict.failed if check.name != FIRST_SIGNAL]
        reason = "NotVerified" if wrong else "Verified"
        files = any(check.name != FIRST_SIGNAL for check in verdict.checks)
        message = "; ".join(wrong) or ("what was expected is there" if files else "nothing was expected of its files")
        reports.write("OutputsVerified", not wrong, reason, message, {"verdict": verdict.to_json()})
    return verdict


def first_cause(folder: JobFolder) -> Mapping[str, object] | None:
    """The run's own first cause (`failure.json`), where it failed and could tell."""
    try:
        return read_json(folder.failure)
    except (OSError, ValueError) as error:
        return {"exception": "Unreadable", "message": f"failure.json: {error}"}
