"""How an attempt ended, and what follows from what was seen of it. Nothing here touches the system."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rlark.evidence.verify import Check, Verdict
from rlark.plan.plan import Plan
from rlark.redactor import Redactor
from rlark.worker.shell import Trouble

STOPPED = "Stopped"
DEADLINE = "DeadlineExceeded"
DISK_FULL = "DiskFull"
FIRST_SIGNAL = "first signal"
GATE = "quality gate"
_SHOWN = 300
_OPTIONS = {"errexit": "+e", "pipefail": "+o pipefail"}
_NO_SPACE = ("No space left on device", "Disk quota exceeded", "[Errno 28]")


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended: the worker's last report.

    Attributes:
        succeeded: the run exited with 0 and everything stated holds.
        reason: Completed, SecretMissing, MountFailed, SandboxFailed, PrepareFailed, PrepareExited, RayNotReady,
            RunFailed, EvidenceMissing, OutputMissing, GateFailed, Stopped, DeadlineExceeded, DiskFull or
            WorkerCrashed.
        message: a sentence.
        exit_code: what the operating system reported of the run, negative for a signal (behind bubblewrap
            128 + its number); None when it never ran.
        verdict: what its files prove; None where they were not looked at.
        cause: the run's own first cause (`failure.json`).
        survivors: processes that could not be ended.
    """

    succeeded: bool
    reason: str
    message: str
    exit_code: int | None = None
    verdict: Verdict | None = None
    cause: Mapping[str, object] | None = None
    survivors: tuple[str, ...] = ()

    def left(self, survivors: Sequence[str]) -> Outcome:
        """The same, with what could not be ended named."""
        if not survivors:
            return self
        message = f"{self.message}; could not be ended: {', '.join(survivors)}"
        return replace(self, survivors=tuple(survivors), message=message)

    def masked(self, mask: Redactor) -> Outcome:
        """The same, without a secret in what is told of it."""
        cause = mask.tree(dict(self.cause)) if self.cause else self.cause
        return replace(self, message=mask(self.message), cause=cause, survivors=mask.tree(self.survivors))

    def data(self) -> dict[str, object]:
        """The data of the report."""
        return {
            "exitCode": self.exit_code,
            "verdict": self.verdict.to_json() if self.verdict else None,
            "cause": dict(self.cause) if self.cause else None,
            "survivors": list(self.survivors),
        }


def sandbox_failed(complaints: Sequence[str]) -> Outcome:
    """The outcome where bubblewrap could not shut the Job in.

    Args:
        complaints: the last lines of standard error.
    """
    said = next((line.strip() for line in reversed(complaints) if line.strip()), "it said nothing")
    message = f"bubblewrap could not shut the Job in: {said[:_SHOWN]}; `rlark doctor` says whether it works here"
    return Outcome(False, "SandboxFailed", message)


def told_changes(changed: Sequence[str]) -> list[tuple[str, str]]:
    """What is said of a prepare script that has changed what it better had not: reasons and messages.

    Args:
        changed: names of the platform's variables, and `errexit` or `pipefail` where it has turned them off.
    """
    options = [name for name in changed if name in _OPTIONS]
    variables = sorted(set(changed) - set(options))
    told = []
    if variables:
        names = ", ".join(variables)
        message = f"the prepare script changes {names}: the run sees its values, a Ray head the platform's"
        told.append(("VariableChanged", message))
    if options:
        names, what = " and ".join(f"`set {_OPTIONS[name]}`" for name in options), "a command that fails may be missed"
        told.append(("ShellOptionOff", f"the prepare script leaves {names} behind: {what} in the run script"))
    return told


def prepare_failed(trouble: Trouble, text: str) -> Outcome:
    """The outcome of a prepare script that did not get to its end.

    Args:
        trouble: how it went wrong.
        text: the line of the script, secrets masked; empty when unknown.
    """
    if trouble.kind == "exited":
        message = (
            f"the prepare script ended the shell with status {trouble.status} before the run could begin; "
            "it is sourced, so it must not exit or exec: leave it with return 0"
        )
        return Outcome(False, "PrepareExited", message)
    place = f" at line {trouble.line}" if trouble.line else ""
    shown = f": {text}" if text else ""
    what = f" ({trouble.what})" if trouble.what else ""
    message = f"the prepare script failed{place} with status {trouble.status}{shown}{what}"
    return Outcome(False, "PrepareFailed", message)


def judge(
    plan: Plan,
    *,
    exit_code: int | None,
    ended: str,
    verdict: Verdict,
    cause: Mapping[str, object] | None = None,
    complaints: Sequence[str] = (),
    checkpoint: str = "",
) -> Outcome:
    """The outcome of a run that is over.

    Args:
        plan: what was expected.
        exit_code: negative for a signal; None when the run never began.
        ended: why the worker ended it; empty when it ended by itself.
        cause: the run's own first cause.
        complaints: the last lines of its standard error.
        verdict: what its files prove.
        checkpoint: its newest, by name; empty where there is none.
    """
    if ended or exit_code is None:
        message = _ENDED[ended or STOPPED].format(limit=f"{plan.deadline_s or 0:g}")
        if plan.engine and exit_code is not None:
            message += _left(plan, checkpoint, killed=exit_code in _KILLED)
        return Outcome(False, ended or STOPPED, message, exit_code, verdict, cause)
    if exit_code != 0:
        there = _going_on(plan, checkpoint) if plan.engine else ""
        return _failed(exit_code, cause, complaints, verdict, there)
    wrong = [check for check in verdict.failed if check.name != FIRST_SIGNAL]
    if not wrong:
        return Outcome(True, "Completed", _completed(verdict), 0, verdict)
    return Outcome(False, _reason(wrong[0]), _unproven(wrong), 0, verdict)


_ENDED = {
    STOPPED: "stopped as asked",
    DEADLINE: "activeDeadline: the attempt took longer than {limit} s and was ended",
    DISK_FULL: "the disk of the job folder is full, so the log cannot be written and the run was ended; "
    "free some space, then `rlark start` it",
}


_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)


def _left(plan: Plan, checkpoint: str, *, killed: bool) -> str:
    """What a run that was ended leaves to go on from."""
    there = _going_on(plan, checkpoint)
    if not killed:
        return f"; {there}" if there else ""
    late = f"; it did not end within terminationGrace ({plan.grace_s:g} s), so it was killed and "
    return late + (f"its last checkpoint stays: {there}" if there else "leaves no checkpoint")


def _going_on(plan: Plan, checkpoint: str) -> str:
    iteration = checkpoint.rpartition("_")[2]
    return f"`rlark submit --resume {plan.job}` goes on after iteration {iteration}" if checkpoint else ""


def _failed(
    exit_code: int, cause: Mapping[str, object] | None, complaints: Sequence[str], verdict: Verdict, there: str
) -> Outcome:
    told = _told(cause)
    ending = ended_with(exit_code)
    full = any(word in text for text in (told, *complaints) for word in _NO_SPACE)
    if full:
        message = (
            f"the disk is full: the run {ending}{f' ({told})' if told else ''}; free some space, "
            f"then {f'{there}, and ' if there else ''}`rlark start` {'begins anew' if there else 'it'}"
        )
        return Outcome(False, DISK_FULL, message, exit_code, verdict, cause)
    if told:
        return Outcome(False, "RunFailed", f"{told}; the run {ending}", exit_code, verdict, cause)
    last = next((line for line in reversed(complaints) if line.strip()), "")
    said = f"; its last words: {last.strip()[:_SHOWN]}" if last else ""
    return Outcome(False, "RunFailed", f"the run {ending}{said}", exit_code, verdict)


def ended_with(exit_code: int) -> str:
    """An exit code in words: `exited with code 3`, `was ended by SIGKILL`.

    Above 128 it may stand for a signal that ended what the shell ran, as bash tells it: `exited with
    code 137, as after SIGKILL`.
    """
    if exit_code >= 0:
        name = _signal_name(exit_code - 128)
        return f"exited with code {exit_code}{f', as after {name}' if name else ''}"
    return f"was ended by {_signal_name(-exit_code) or f'signal {-exit_code}'}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return ""


def _told(cause: Mapping[str, object] | None) -> str:
    """The run's own first cause in a line: `rollout rank 1: ValueError: ... (log: rollout-1.log)`."""
    if not cause:
        return ""
    component = cause.get("component")
    where = f"{component} rank {cause.get('rank')}: " if component else ""
    log = f" (log: {cause['log']})" if cause.get("log") else ""
    return f"{where}{cause.get('exception')}: {cause.get('message')}{log}"


def _completed(verdict: Verdict) -> str:
    late = [check for check in verdict.failed if check.name == FIRST_SIGNAL]
    if late:
        return f"the run exited with code 0, but is not verified: {late[0].message}"
    if verdict.verified is None:
        return "the run exited with code 0; nothing was expected of it"
    return "the run exited with code 0 and everything expected holds"


def _reason(check: Check) -> str:
    if check.name == GATE:
        return "GateFailed"
    return "OutputMissing" if check.name.startswith("output") else "EvidenceMissing"


def _unproven(wrong: Sequence[Check]) -> str:
    shown = "; ".join(f"{check.name}: {check.message} ({check.code})" for check in wrong[:3])
    return f"the run exited with code 0, but {shown}"
