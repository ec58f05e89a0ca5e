"""A Job's life on its node, from the lease to the proof: the steps, in their order.

Every step is reported to `worker.jsonl`; the last report of an attempt is its `Outcome`, with

    {"exitCode": int | null, "verdict": Verdict | null, "cause": failure.json | null, "survivors": [str]}
"""

from __future__ import annotations

import contextlib
import os
import signal
import traceback
from collections.abc import Sequence
from datetime import datetime

from rlark.errors import UsageError
from rlark.evidence.verify import Verdict
from rlark.folder import JobFolder, read_json
from rlark.host import ports, process
from rlark.host.clock import Clock, new_id, stamp
from rlark.host.process import ProcessId
from rlark.plan.node import Lease
from rlark.plan.plan import Plan
from rlark.secrets import SecretMissing
from rlark.worker.aside import Aside
from rlark.worker.capture import Capture
from rlark.worker.clear import clear
from rlark.worker.environment import read_secrets, redactor, run_environment
from rlark.worker.outcome import DEADLINE, DISK_FULL, FIRST_SIGNAL, STOPPED, Outcome, judge, prepare_failed
from rlark.worker.progress import PrintedProgress
from rlark.worker.reports import Reports, no_room
from rlark.worker.shell import Scripts, Shell, line_of
from rlark.worker.signal import FirstSignal
from rlark.worker.stacks import dump
from rlark.worker.stop import StopRequest

LOOK_S = 0.05
DRAIN_S = 5.0
"""How long the last output may take to arrive once every process is gone."""
LEFTOVER_S = 3.0
"""What the run left in the background may take so long to end by itself."""
MARK_S = 2.0
_TERMINATED = {-signal.SIGTERM, 128 + signal.SIGTERM}


def live(folder: JobFolder, clock: Clock) -> Outcome:
    """Live one attempt of a Job.

    Args:
        folder: complete: plan.json and lease.json are there.
        clock: the time.

    Returns:
        How it ended; reported already.

    Raises:
        UsageError: the folder holds no lease, so there is no attempt to report on.
        OSError: not even the outcome could be written.
    """
    stop = StopRequest()
    lease = _lease(folder)
    reports = Reports(folder, lease.attempt, clock)
    try:
        outcome = _attempt(folder, lease, reports, clock, stop)
        reports.write("Outcome", outcome.succeeded, outcome.reason, outcome.message, outcome.data())
    finally:
        reports.close()
    return outcome


def _lease(folder: JobFolder) -> Lease:
    try:
        return Lease.model_validate(read_json(folder.lease) or {})
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{folder.lease} holds no lease: {error}", hint="a worker is started by rlark submit"
        ) from error


def _attempt(folder: JobFolder, lease: Lease, reports: Reports, clock: Clock, stop: StopRequest) -> Outcome:
    """One attempt to its end, whatever happens."""
    life = None
    try:
        process.become_subreaper()
        own = process.this_process()
        reports.write("Worker", True, "WorkerStarted", f"the worker is process {own.pid}", own.to_json())
        plan = Plan.model_validate(read_json(folder.plan) or {})
        life = Life(folder, plan, lease, reports, clock=clock, stop=stop)
        outcome = life.run()
    except SecretMissing as error:
        outcome = Outcome(False, "SecretMissing", f"{error.message}; {error.hint}")
    except Exception as error:  # noqa: BLE001  whatever it is, the Job must not end without a word
        traceback.print_exc()
        outcome = _crashed(error)
    outcome = outcome.left(_end(life) if life else [])
    return outcome.masked(life.mask) if life else outcome


def _end(life: Life) -> list[str]:
    try:
        return life.end()
    except Exception as error:  # noqa: BLE001  as above: the outcome stands and must be told
        traceback.print_exc()
        return [f"perhaps something, since looking for it failed: {error}"]


def _crashed(error: Exception) -> Outcome:
    if no_room(error):
        message = f"the disk of the job folder is full: {error}; free some space, then `rlark start` it"
        return Outcome(False, DISK_FULL, message)
    return Outcome(False, "WorkerCrashed", f"the worker failed: {type(error).__name__}: {error}")


class Life:
    """One attempt.

    Attributes:
        mask: hides the attempt's secrets.
    """

    def __init__(
        self, folder: JobFolder, plan: Plan, lease: Lease, reports: Reports, *, clock: Clock, stop: StopRequest
    ) -> None:
        """Clear what an earlier attempt left, and open the logs.

        Raises:
            OSError: the disk is full.
            SecretMissing: a variable's value is not in the secret store.
            ValueError: the first signal's pattern is no regular expression.
        """
        self._folder, self._plan, self._lease, self._reports = folder, plan, lease, reports
        self._clock, self._stop = clock, stop
        self._began = clock.monotonic()
        self._started_at: datetime | None = None
        self._started = 0.0
        self._signal = FirstSignal(plan.signal)
        self._signal_told = False
        self._ranks: list[ProcessId] | None = None
        self._aside = Aside()
        self._shell: Shell | None = None
        clear(folder, plan)
        logs = folder.logs(lease.attempt)
        logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._secrets = read_secrets(plan, folder)
        self.mask = reports.mask = redactor(plan, lease, self._secrets)
        self._out = Capture(logs / "stdout.log", self._now, self.mask)
        self._err = Capture(logs / "stderr.log", self._now, self.mask)
        self._printed = None if plan.engine else PrintedProgress(folder.metrics, self._now)
        self._mark = f"prepared-{new_id()}" if plan.prepare else None

    def run(self) -> Outcome:
        """All steps up to the verdict."""
        self._out.write("RLINF_NODE_RANK: 0")
        outcome = self._prepare() or self._attach()
        if outcome is None:
            self._start()
            ended = self._watch()
            outcome = self._judge(ended)
        return outcome

    def end(self) -> list[str]:
        """End every process of the attempt that is left, and close the logs.

        Returns:
            What could not be ended, for people.
        """
        left = process.end_tree(None, 0, self._clock)
        left += process.end(self._ranks or [], LEFTOVER_S, self._clock)
        self._out.finish(DRAIN_S)
        self._err.finish(DRAIN_S)
        self._aside.once("facts", self._write_facts)
        self._aside.finish(DRAIN_S)
        with contextlib.suppress(OSError):  # a full disk was told already
            self._out.write("Stopping Ray cluster...")
        for capture in (self._out, self._err):
            capture.close()
        if self._shell is not None:
            self._shell.close()
        return [process.describe(one) for one in left]

    # ---- the steps

    def _prepare(self) -> Outcome | None:
        """Source the prepare script; the outcome where that is the end."""
        if not self._plan.prepare:
            self._reports.write("Prepared", True, "NothingToPrepare", "there is no prepare script")
            return None
        self._out.write("Executing prepare script...")
        shell = self._open_shell()
        while not shell.prepared():
            ended = self._must_end()
            if ended:
                self._end_run()
                return judge(self._plan, exit_code=None, ended=ended, verdict=Verdict())
            if shell.poll() is not None:
                return self._not_prepared(shell)
            self._clock.sleep(LOOK_S)
        for capture in (self._out, self._err):
            capture.marked.wait(MARK_S)  # so that what prepare printed stands before what follows
        self._reports.write("Prepared", True, "Prepared", "the prepare script is done")
        return None

    def _not_prepared(self, shell: Shell) -> Outcome:
        process.end_tree(None, LEFTOVER_S, self._clock)  # what prepare left in the background holds the pipes
        self._err.finish(DRAIN_S)
        trouble = shell.trouble(list(self._err.last))
        outcome = prepare_failed(trouble, self.mask(line_of(self._plan.prepare, trouble.line)))
        self._reports.write("Prepared", False, outcome.reason, outcome.message)
        return outcome

    def _attach(self) -> Outcome | None:
        """Find the Ray head that serves the Job; the outcome where it does not answer."""
        head, lease = self._lease.head, self._lease
        if self._plan.head != "platform":
            return self._no_ray("the plan asks for a head of the Job's own, which this rlark cannot start")
        if head is None:
            self._reports.write("RayReady", False, "NoHead", "no Ray head was leased; the run uses none")
            return None
        host, _, port = head.address.rpartition(":")
        if not ports.listening(host, int(port)):
            return self._no_ray(f"the Ray head at {head.address} does not answer; `rlark doctor` says what listens")
        gpus = [f"{device.id}{' (faked)' if device.faked else ''}" for device in lease.devices]
        self._out.write(
            f"Ray Head started {head.address} {head.session}".rstrip(),
            "Ray cluster is ready. Printing cluster information:",
            f"  node {lease.node} {lease.node_id}".rstrip(),
            f"  GPUs {', '.join(gpus) or 'none'}",
            f"  CPUs {lease.cpus:g}",
        )
        self._reports.write("RayReady", True, "RayReady", f"the head at {head.address} answers")
        return None

    def _no_ray(self, message: str) -> Outcome:
        self._reports.write("RayReady", False, "RayNotReady", message)
        return Outcome(False, "RayNotReady", message)

    def _start(self) -> None:
        """Begin the run."""
        self._out.write("Executing run script...")
        self._started_at, self._started = self._clock.now(), self._clock.monotonic()
        shell = self._shell or self._open_shell()
        if self._plan.prepare:
            shell.go()
        run = process.identify(shell.pid)
        self._reports.write(
            "Started", True, "Started", f"the run is process {shell.pid}", {"run": run.to_json() if run else None}
        )

    def _open_shell(self) -> Shell:
        plan, folder = self._plan, self._folder
        env, overridden = run_environment(plan, self._lease, folder, os.environ, self._secrets)
        if overridden:
            message = f"the platform sets {', '.join(overridden)}; the Job's own values are not used"
            self._reports.write("Warning", True, "VariableOverridden", message)

        def follow(out: int, err: int) -> None:
            self._out.follow(out, self._hear, self._mark)
            self._err.follow(err, self._hear, self._mark)

        scripts = Scripts(folder, plan, self._mark or "")
        self._shell = Shell(scripts, env=env, work=folder.work, output=follow)
        return self._shell

    def _watch(self) -> str:
        """Follow the run to its end: why the worker ended it, empty when it ended by itself."""
        shell, ended = self._running(), ""
        while shell.poll() is None and not ended:
            self._look()
            ended = self._must_end()
            if not ended:
                self._clock.sleep(LOOK_S)
        if ended:
            self._end_run()
        elif shell.poll() in _TERMINATED:
            self._clock.sleep(2 * LOOK_S)  # a stop goes to every process; ours may be told a moment later
            ended = STOPPED if self._stop.made else ""
        process.end_tree(None, LEFTOVER_S, self._clock)  # what the run left in the background
        self._out.finish(DRAIN_S)
        self._err.finish(DRAIN_S)
        self._look()
        return ended or (DISK_FULL if self._log_error() else "")

    def _judge(self, ended: str) -> Outcome:
        """Hold what the run claims against its files."""
        if self._signal.awaited and not self._signal_told:
            self._reports.write("SignalSeen", False, "NotSeen", "the run ended before its first signal")
        verdict = self._verify()
        if verdict.checks:
            wrong = [f"{check.name}: {check.message}" for check in verdict.failed if check.name != FIRST_SIGNAL]
            reason = "NotVerified" if wrong else "Verified"
            message = "; ".join(wrong) or "what was expected is there"
            self._reports.write("OutputsVerified", not wrong, reason, message, {"verdict": verdict.to_json()})
        try:
            cause = read_json(self._folder.failure)
        except (OSError, ValueError) as error:
            cause = {"exception": "Unreadable", "message": f"failure.json: {error}"}
        return judge(
            self._plan,
            exit_code=self._running().poll(),
            ended=ended,
            cause=cause,
            complaints=list(self._err.last),
            verdict=verdict,
        )

    def _verify(self) -> Verdict:
        from rlark.evidence.verify import verify  # reading and hashing is for the end

        plan = self._plan
        return verify(
            self._folder.root,
            started_at=self._started_at,
            outputs=plan.outputs,
            evidence=plan.evidence,
            gate=plan.gate,
            signal_expected=self._signal.expected,
            signal_seen=self._signal.in_time,
        )

    # ---- looking and ending

    def _look(self) -> None:
        """Report what has changed since the last look."""
        if self._ranks is None and self._folder.ranks.exists():
            self._placed()
        if self._signal.line is not None and not self._signal_told:
            self._signal_told = True
            after = self._clock.monotonic() - self._started
            self._reports.write("SignalSeen", True, "SignalSeen", f"after {after:.1f} s: {self._signal.line}")
            self._aside.once("facts", self._write_facts)
        elif self._signal.overdue(self._clock.monotonic() - self._started):
            self._stalled()

    def _placed(self) -> None:
        try:
            found = read_json(self._folder.ranks) or {}
        except ValueError:
            return  # it is being replaced; the next look sees it whole
        ranks = found.get("ranks")
        listed = [rank for rank in ranks if isinstance(rank, dict)] if isinstance(ranks, list) else []
        pids = (process.identify(pid) for rank in listed if isinstance(pid := rank.get("pid"), int))
        self._ranks = [one for one in pids if one is not None]
        how = "in one process" if found.get("fused") else f"in {len(listed)} processes"
        self._reports.write("Placed", True, "Placed", f"the components run {how}", {"ranks": listed})

    def _stalled(self) -> None:
        signal_wanted = self._plan.signal
        assert signal_wanted is not None
        self._signal_told = True
        message = (
            f"no line matched {signal_wanted.pattern!r} within {signal_wanted.within:g} s; stacks are in stderr.log"
        )
        self._reports.write("SignalSeen", False, "Stalled", message)
        self._aside.once("stacks", self._dump_stacks)

    def _dump_stacks(self) -> None:
        ranks, engine = self._ranks or [], process.identify(self._running().pid) if self._plan.engine else None
        ours = [*ranks, engine] if engine else ranks
        self._err.write(*dump([*process.descendants(os.getpid()), *ranks], ours))

    def _must_end(self) -> str:
        """Why the run must be ended now; empty when it need not."""
        if self._stop.made:
            return STOPPED
        limit = self._plan.deadline_s
        if limit is not None and self._clock.monotonic() - self._began > limit:
            return DEADLINE
        return DISK_FULL if self._log_error() else ""

    def _log_error(self) -> OSError | None:
        printed = self._printed.error if self._printed else None
        return self._out.error or self._err.error or printed

    def _end_run(self) -> None:
        process.end_tree(None, self._plan.grace_s, self._clock)

    def _hear(self, lines: Sequence[str]) -> None:
        self._signal.hear(lines)
        if self._printed is not None:
            self._printed.hear(lines)

    def _write_facts(self) -> None:
        """Write env.json; where there are GPUs, asking for them takes a moment."""
        from rlark.worker.facts import write_facts

        write_facts(self._folder, self._lease, self.mask)

    def _running(self) -> Shell:
        assert self._shell is not None
        return self._shell

    def _now(self) -> str:
        return stamp(self._clock.now())
