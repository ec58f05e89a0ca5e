"""A Job's life on its node, from the lease to the proof: the steps, in their order.

Every step is reported to `worker.jsonl`; the last report of an attempt is its `Outcome`, with

    {"exitCode": int | null, "verdict": Verdict | null, "cause": failure.json | null, "survivors": [str]}
"""

from __future__ import annotations

import contextlib
import os
import signal
import traceback

from rlark.errors import ClusterError, UsageError
from rlark.evidence.verify import Verdict
from rlark.folder import JobFolder, read_json
from rlark.host import ports, process
from rlark.host.clock import Clock, new_id, stamp
from rlark.host.head import START_TIMEOUT_S
from rlark.host.sandbox import Fence, View
from rlark.plan.node import Lease
from rlark.plan.plan import Plan
from rlark.secrets import SecretMissing
from rlark.worker.capture import Capture
from rlark.worker.clear import clear, last_checkpoint
from rlark.worker.environment import head_environment, read_secrets, redactor, run_environment
from rlark.worker.family import Family
from rlark.worker.mounts import MountError, fence
from rlark.worker.outcome import (
    DISK_FULL,
    STOPPED,
    Outcome,
    judge,
    prepare_failed,
    sandbox_failed,
    told_changes,
)
from rlark.worker.own_head import OwnHead
from rlark.worker.proof import first_cause, prove
from rlark.worker.reports import Reports, no_room
from rlark.worker.scripts import Scripts, line_of
from rlark.worker.shell import Shell
from rlark.worker.stop import StopRequest
from rlark.worker.watch import Watch

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
    except ClusterError as error:  # no ports, or no place for the sockets of a head of its own
        outcome = _no_ray(reports, "; ".join(part for part in (error.message, error.hint) if part))
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


def _no_ray(reports: Reports, message: str) -> Outcome:
    reports.write("RayReady", False, "RayNotReady", message)
    return Outcome(False, "RayNotReady", message)


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
        """Clear what an earlier attempt left, open the logs, and choose what a head of the Job's own needs.

        Raises:
            ClusterError: there is no port or no place for a head of its own.
            OSError: the disk is full.
            SecretMissing: a variable's value is not in the secret store.
            ValueError: the first signal's pattern is no regular expression.
        """
        self._folder, self._plan, self._lease, self._reports = folder, plan, lease, reports
        self._clock, self._stop = clock, stop
        self._shell: Shell | None = None
        self._family: Family | None = None
        self._fence: Fence | None = None
        self._view = View()
        newest = last_checkpoint(folder, plan) if lease.retry else ""
        clear(folder, plan, goes_on=bool(newest))
        if newest:
            reports.write("Resumed", True, "Resumed", f"the attempt goes on from the last checkpoint, {newest}")
        logs = folder.logs(lease.attempt)
        logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._secrets = read_secrets(plan, folder)
        self._head = OwnHead(plan, lease, folder, os.environ, clock) if plan.head == "job" else None
        if self._head is not None:
            self._lease = self._head.lease
        self.mask = reports.mask = redactor(plan, self._lease, self._secrets)
        self._out = Capture(logs / "stdout.log", self._now, self.mask)
        self._err = Capture(logs / "stderr.log", self._now, self.mask)
        self._watch = Watch(
            folder, plan, reports, clock=clock, stop=stop, logs=(self._out, self._err), facts=self._write_facts
        )
        self._mark = f"prepared-{new_id()}" if plan.prepare else None

    def run(self) -> Outcome:
        """All steps up to the verdict."""
        self._out.write("RLINF_NODE_RANK: 0")
        outcome = (
            self._mount() or self._prepare() or (self._start_head() if self._head else self._attach()) or self._start()
        )
        return outcome or self._judge(self._follow())

    def end(self) -> list[str]:
        """End every process of the attempt that is left, and close the logs.

        Returns:
            What could not be ended, for people.
        """
        left = self._family.end(0) if self._family else process.end_tree(None, 0, self._clock)
        left += self._watch.end_ranks(LEFTOVER_S)
        self._out.finish(DRAIN_S)
        self._err.finish(DRAIN_S)
        self._watch.close(DRAIN_S)
        if self._head is not None:
            self._head.close(self.mask)
        with contextlib.suppress(OSError):  # a full disk was told already
            self._out.write("Stopping Ray cluster...")
        for capture in (self._out, self._err):
            capture.close()
        if self._shell is not None:
            self._shell.close()
        return [process.describe(one) for one in left]

    # ---- the steps

    def _mount(self) -> Outcome | None:
        """Make the Job's mounts ready; the outcome where one cannot be made."""
        try:
            made = fence(self._plan, self._folder)
        except MountError as error:
            self._reports.write("Prepared", False, "MountFailed", str(error))
            return Outcome(False, "MountFailed", str(error))
        if made.made:
            message = f"made on this node, because the Job mounts something there: {', '.join(made.made)}"
            self._reports.write("Warning", True, "MountPointMade", message)
        if self._plan.sandbox == "bubblewrap":
            self._fence, self._view = made, made.view
        return None

    def _prepare(self) -> Outcome | None:
        """Source the prepare script; the outcome where that is the end."""
        if not self._plan.prepare:
            self._reports.write("Prepared", True, "NothingToPrepare", "there is no prepare script")
            return None
        self._out.write("Executing prepare script...")
        shell, family = self._open_shell()
        while not shell.prepared():
            if ended := self._watch.must_end():
                return self._ended_early(ended)
            if shell.poll() is not None:
                return self._not_prepared(shell, family)
            self._clock.sleep(LOOK_S)
        for capture in (self._out, self._err):
            capture.marked.wait(MARK_S)  # so that what prepare printed stands before what follows
        family.note_prepared()
        self._reports.write("Prepared", True, "Prepared", "the prepare script is done")
        for reason, message in told_changes(shell.changed()):
            self._reports.write("Warning", True, reason, message)
        return None

    def _ended_early(self, ended: str) -> Outcome:
        """The outcome of an attempt that must end before its run has begun."""
        if self._family is not None:
            self._family.end(self._plan.grace_s)
        return judge(self._plan, exit_code=None, ended=ended, verdict=Verdict())

    def _not_prepared(self, shell: Shell, family: Family) -> Outcome:
        family.end(LEFTOVER_S)  # what prepare left in the background holds the pipes
        self._err.finish(DRAIN_S)
        if not shell.begun:
            outcome = sandbox_failed(list(self._err.last))
        else:
            trouble = shell.trouble(list(self._err.last))
            outcome = prepare_failed(trouble, self.mask(line_of(self._plan.prepare, trouble.line)))
        self._reports.write("Prepared", False, outcome.reason, outcome.message)
        return outcome

    def _attach(self) -> Outcome | None:
        """Find the platform's Ray head; the outcome where it does not answer."""
        head = self._lease.head
        if head is None:
            self._reports.write("RayReady", False, "NoHead", "no Ray head was leased; the run uses none")
            return None
        host, _, port = head.address.rpartition(":")
        if not ports.listening(host, int(port)):
            message = f"the Ray head at {head.address} does not answer; `rlark doctor` says what listens"
            return _no_ray(self._reports, message)
        self._announce(f"the head at {head.address} answers")
        return None

    def _start_head(self) -> Outcome | None:
        """Start the Job's own Ray head in the prepared shell; the outcome where that fails."""
        head = self._head
        assert head is not None
        if self._shell is None or self._family is None:
            shell, family = self._open_shell()
        else:
            shell, family = self._shell, self._family
            if taken := head.taken():
                return _no_ray(self._reports, taken)
            shell.go()
        until = self._clock.monotonic() + START_TIMEOUT_S
        while (status := shell.head()) is None:
            if ended := self._watch.must_end():
                return self._ended_early(ended)
            if shell.poll() is not None:
                return self._shell_lost(shell)
            if self._clock.monotonic() > until:
                return _no_ray(self._reports, head.overdue)
            self._clock.sleep(LOOK_S)
        started = family.newcomers()
        wrong = head.failure(status, started) if status else head.check(started)
        if wrong:
            return _no_ray(self._reports, wrong)
        self._lease = head.lease
        self._announce(f"the Job's own head at {head.address} answers")
        return None

    def _shell_lost(self, shell: Shell) -> Outcome:
        """The outcome where the shell has ended before its Ray head was there."""
        self._err.finish(DRAIN_S)
        if not shell.begun:
            return sandbox_failed(list(self._err.last))
        return _no_ray(self._reports, f"the shell ended with status {shell.poll()} before the Job's Ray head was there")

    def _announce(self, message: str) -> None:
        """Say that Ray is there, and what it has."""
        lease, head = self._lease, self._lease.head
        gpus = [f"{device.id}{' (faked)' if device.faked else ''}" for device in lease.devices]
        self._out.write(
            f"Ray Head started {head.address} {head.session}".rstrip() if head else "Ray Head started",
            "Ray cluster is ready. Printing cluster information:",
            f"  node {lease.node} {lease.node_id}".rstrip(),
            f"  GPUs {', '.join(gpus) or 'none'}",
            f"  CPUs {lease.cpus:g}",
        )
        self._reports.write("RayReady", True, "RayReady", message)

    def _start(self) -> Outcome | None:
        """Begin the run; the outcome where it cannot be shut in."""
        self._out.write("Executing run script...")
        shell, family = (self._shell, self._family) if self._shell and self._family else self._open_shell()
        self._watch.start(shell, family, self._head)
        if self._plan.prepare or self._head:
            shell.go()
        while not (shell.begun or shell.poll() is not None or self._watch.must_end()):
            self._clock.sleep(process.POLL_S)
        if shell.poll() is not None and not shell.begun:
            self._err.finish(DRAIN_S)
            return sandbox_failed(list(self._err.last))
        run = shell.own
        pid = run.pid if run else shell.pid
        data = {"run": run.to_json() if run else None}
        self._reports.write("Started", True, "Started", f"the run is process {pid}", data)
        return None

    def _open_shell(self) -> tuple[Shell, Family]:
        plan, folder, watch = self._plan, self._folder, self._watch
        env, overridden = run_environment(plan, self._lease, folder, os.environ, self._secrets)
        if overridden:
            message = f"the platform sets {', '.join(overridden)}; the Job's own values are not used"
            self._reports.write("Warning", True, "VariableOverridden", message)

        def follow(out: int, err: int) -> None:
            self._out.follow(out, watch.hear, self._mark)
            self._err.follow(err, watch.hear, self._mark)

        fixed = head_environment(env)
        head = self._head.script(fixed) if self._head else ""
        scripts = Scripts(folder, plan, self._mark or "", head, fixed)
        self._shell = Shell(scripts, env=env, work=folder.work, output=follow, fence=self._fence)
        self._family = Family(self._shell, self._head, self._clock)
        return self._shell, self._family

    def _follow(self) -> str:
        """Follow the run to its end: why the worker ended it, empty when it ended by itself."""
        assert self._shell is not None
        assert self._family is not None
        shell, family, watch, ended = self._shell, self._family, self._watch, ""
        while shell.poll() is None and not ended:
            watch.look()
            ended = watch.must_end()
            if not ended:
                self._clock.sleep(LOOK_S)
        if not ended and shell.poll() in _TERMINATED:
            self._clock.sleep(2 * LOOK_S)  # a stop goes to every process; ours may be told a moment later
        if not ended and self._stop.made:  # the run was told as well, and was faster, whatever code it ended with
            ended = STOPPED
        watch.look()  # the ranks' processes must be known while they live
        family.end(self._plan.grace_s if ended else LEFTOVER_S)
        self._out.finish(DRAIN_S)
        self._err.finish(DRAIN_S)
        watch.look()
        return ended or watch.disk_full

    def _judge(self, ended: str) -> Outcome:
        """Hold what the run claims against its files."""
        assert self._shell is not None
        self._watch.finish()
        verdict = prove(self._folder, self._plan, self._watch, self._view, self._reports)
        return judge(
            self._plan,
            exit_code=self._shell.poll(),
            ended=ended,
            cause=first_cause(self._folder),
            complaints=list(self._err.last),
            verdict=verdict,
            checkpoint=last_checkpoint(self._folder, self._plan),
        )

    def _write_facts(self) -> None:
        """Write env.json; where there are GPUs, asking for them takes a moment."""
        from rlark.worker.facts import write_facts

        write_facts(self._folder, self._lease, self.mask)

    def _now(self) -> str:
        return stamp(self._clock.now())
