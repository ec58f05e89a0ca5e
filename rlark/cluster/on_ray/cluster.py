"""`Cluster` on Ray: the only room that asks Ray for capacity and starts workers with it.

Runs in the controller's process, which is connected to Ray. It keeps nothing that cannot be found
again: leases are placement groups, workers are Ray Jobs and files, so a restarted controller
goes on where the killed one was.
"""

from __future__ import annotations

import functools
import logging
import shlex
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from ray.exceptions import RayError

from rlark.cluster.base import Busy, Handle, Observation, Released
from rlark.cluster.on_ray import leases, nodes, remains
from rlark.cluster.on_ray.jobs import JobsApi, RayJob, brief
from rlark.cluster.on_ray.leases import Group
from rlark.cluster.on_ray.nodes import RayNode, Reports
from rlark.cluster.on_ray.reports import ReportFiles
from rlark.errors import ClusterError
from rlark.folder import Home, JobFolder, read_json
from rlark.host import process
from rlark.host.clock import Clock
from rlark.host.process import ProcessId
from rlark.plan.node import HeadAddress, Inventory, Lease, name_gpus
from rlark.plan.plan import Ask
from rlark.spec.report import Report

STOP_MARGIN_S = 6
ASK_S = 1.0
REMAINS_GRACE_S = 2.0
NOTICE_S = 3.0
"""How long Ray may take to notice that a worker is gone, and how it went."""
_logger = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")


def _answering(verb: Callable[_P, _T]) -> Callable[_P, _T]:
    """Tell Ray's own errors as the one that a `Cluster` may raise, after which it is asked again."""

    @functools.wraps(verb)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            return verb(*args, **kwargs)
        except (RayError, RuntimeError) as error:
            raise ClusterError(f"Ray does not answer: {brief(str(error)) or type(error).__name__}") from error

    return call


class RayCluster:
    """The Ray cluster that this process is connected to."""

    def __init__(
        self,
        head: HeadAddress,
        home: Home,
        clock: Clock,
        *,
        attached: bool = False,
        worker: Sequence[str] = (sys.executable, "-m", "rlark.worker"),
    ) -> None:
        """Take the head; `ray.init` must have run.

        Args:
            head: where it answers; goes into every lease.
            home: where the job folders are.
            clock: measures grace periods.
            attached: True for a head that is not ours, whose environment we did not choose.
            worker: argv of the worker, to which the job folder is added.
        """
        self._head = head
        self._home = home
        self._clock = clock
        self._attached = attached
        self._command = list(worker)
        self._jobs = JobsApi(head.dashboard, head.token_path)
        self._reports = Reports(nodes.look_here)
        self._files = ReportFiles()
        self._names: dict[str, str] = {}
        self._gpus: dict[str, list[str]] = {}
        self._kill_at: dict[str, float] = {}
        self._ask_at: dict[str, float] = {}
        self._lost_at: dict[str, float] = {}

    @_answering
    def inventory(self) -> Inventory:
        """All nodes with what is free now."""
        live = nodes.live_nodes()
        holders: dict[str, dict[str, int]] = {}
        for group in leases.groups():
            if group.gpus and group.node_id:
                holders.setdefault(group.node_id, {})[group.job] = group.gpus
        return nodes.inventory(live, self._names_of(live), self._reports.of(live), holders)

    def _names_of(self, live: Sequence[RayNode]) -> dict[str, str]:
        """Each node's stable name, by id; a node keeps its own for as long as it lives."""
        self._names = nodes.stable_names(live, self._names)
        return self._names

    @_answering
    def lease(self, job: str, attempt: int, node: str, ask: Ask) -> Lease | Busy:
        """Take capacity of one node, all or nothing; the same job and attempt gets the same lease."""
        name = leases.group_name(job, attempt)
        group = leases.find(name)
        if group is not None and group.state != "CREATED":  # a controller died between asking and reading the answer
            leases.remove(name)
            group = None
        if group is None:
            target = self._node(node)
            leases.check_possible(ask, target, node)
            group = leases.acquire(name, ask, target)
        if group is None:
            return Busy(self._who_holds(node, ask))
        return self._lease(group)

    def _node(self, name: str) -> RayNode:
        live = nodes.live_nodes()
        names = self._names_of(live)
        for one in live:
            if names[one.id] == name:
                return one
        raise ClusterError(f"Node {name} is gone.", hint=f"there are: {', '.join(sorted(names.values())) or 'none'}")

    def _lease(self, group: Group, *, ask: bool = True) -> Lease:
        """A created group as a lease; its GPUs are asked for once."""
        if ask and group.id not in self._gpus:
            try:
                self._gpus[group.id] = leases.probe(group)
            except ClusterError:
                leases.remove(group.name)
                raise
        live = nodes.live_nodes()
        reports = self._reports.of(live)
        node = next((one for one in live if one.id == group.node_id), None)
        return Lease(
            job=group.job,
            attempt=group.attempt,
            key=group.name,
            node=self._names_of(live).get(group.node_id, ""),
            node_id=group.node_id,
            devices=nodes.devices(self._gpus.get(group.id, []), node, reports.get(group.node_id)),
            cpus=group.bundle.get("CPU", 0),
            memory=int(group.bundle.get("memory", 0)),
            head=self._head,
        )

    def _who_holds(self, node: str, ask: Ask) -> str:
        """Why an ask does not fit now, in words."""
        here = self.inventory().node(node)
        faked = here is not None and here.gpus_faked
        mark = " (faked)" if faked else ""
        held = []
        for group in leases.groups():
            if here is not None and group.node_id != here.id:
                continue
            ids = self._gpus.get(group.id)
            if ask.gpus and group.gpus:
                which = name_gpus(ids, faked=faked) if ids else f"{group.gpus} GPUs{mark}"
                held.append(f"{which} leased by job {group.job}")
            elif group.bundle.get("CPU"):
                held.append(f"{group.bundle['CPU']:g} CPUs leased by job {group.job}")
        if here is not None and ask.gpus and here.holders.get("(outside rlark)"):
            held.append(f"{here.holders['(outside rlark)']} GPUs{mark} used outside rlark")
        return "; ".join(held) or "its resources are in use outside rlark"

    @_answering
    def start(self, lease: Lease, folder: JobFolder, grace_s: float) -> Handle:
        """Start the worker as a Ray Job on the leased node; starting the same attempt twice is harmless."""
        group = leases.find(lease.key)
        if group is None:
            raise ClusterError(f"The lease {lease.key} is gone, so its worker cannot start.")
        submission_id = _submission_id(group)
        self._jobs.submit(
            submission_id,
            "exec " + shlex.join([*self._command, str(folder.root)]),
            node_id="" if self._is_head(lease.node_id) else lease.node_id,
            env=self._job_env(grace_s),
            metadata=_metadata(lease, folder),
        )
        self._ask_at[submission_id] = self._clock.monotonic() + ASK_S
        return Handle(lease.job, lease.attempt, submission_id, str(folder.root))

    def _is_head(self, node_id: str) -> bool:
        """Jobs go to the head's node by themselves, and then their actors inherit no runtime environment."""
        return any(one.id == node_id and one.is_head for one in nodes.live_nodes())

    def _job_env(self, grace_s: float) -> dict[str, str]:
        """Ray kills a stopped Job after three seconds unless told otherwise; our own head's environment does that."""
        return {"RAY_JOB_STOP_WAIT_TIME_S": str(int(grace_s) + STOP_MARGIN_S)} if self._attached else {}

    def observe(self, handle: Handle, after: int) -> Observation:
        """Whether the worker lives, and its reports behind that number."""
        own, node_lost = self._worker(handle), ""
        if own is not None:
            self._kill_overdue(handle, own)
            alive, reason = process.alive(own), ""
        else:
            alive, reason, node_lost = self._asked(handle)
        # Read again: what a worker wrote last, it may have written between the two looks.
        written = self._written(handle)
        if own is not None and not alive and not remains.has_ended(written, handle.attempt):
            node_lost = self._node_lost(handle)
            alive, reason = (False, node_lost) if node_lost else self._lost(handle, own)
        return Observation(alive, tuple(report for report in written if report.n > after), reason, bool(node_lost))

    def _node_lost(self, handle: Handle) -> str:
        """How the node of a worker went away, in words; empty where it is still there."""
        lease = read_json(self._folder(handle).lease) or {}
        name, node_id = str(lease.get("node") or ""), str(lease.get("nodeId") or "")
        try:
            live = nodes.live_nodes()
        except (RayError, RuntimeError):  # then nothing is known of nodes; what is known of the worker is told
            return ""
        node = next((one for one in live if one.id == node_id), None)
        if node is not None:
            return "" if nodes.answers(node) else f"node {name} went away: its raylet does not answer any more"
        renewed = name in self._names_of(live).values()  # the platform was started again, and the node with it
        return f"node {name} has left the Ray cluster" if name and not renewed else ""

    def _written(self, handle: Handle) -> list[Report]:
        return self._files.read(self._folder(handle).reports)

    def _worker(self, handle: Handle) -> ProcessId | None:
        return remains.worker_process(self._written(handle), handle.attempt)

    @staticmethod
    def _folder(handle: Handle) -> JobFolder:
        return JobFolder(Path(handle.folder))

    def _asked(self, handle: Handle) -> tuple[bool, str, str]:
        """Whether a worker that has not reported yet may still come to life, else why not, and how its node went."""
        if self._clock.monotonic() < self._ask_at.get(handle.id, 0.0):
            return True, "", ""
        self._ask_at[handle.id] = self._clock.monotonic() + ASK_S
        if node_lost := self._node_lost(handle):
            return False, node_lost, node_lost
        try:
            job = self._jobs.status(handle.id)
        except ClusterError as error:
            return True, str(error), ""  # the dashboard comes back; until then nothing is certain
        if not job.ended:
            return True, "", ""
        said = f"the worker never reported and {job.end}"
        return False, self._last_words(handle, said, brief(job.message) if job.exit_code is None else ""), ""

    def _lost(self, handle: Handle, own: ProcessId) -> tuple[bool, str]:
        """Whether Ray has yet to notice the end of a worker without an Outcome, and else how it ended."""
        now = self._clock.monotonic()
        until = self._lost_at.setdefault(handle.id, now + NOTICE_S)
        try:
            job = self._jobs.status(handle.id)
        except ClusterError:
            job = RayJob("RUNNING")
        asked_for = handle.id in self._kill_at  # then it needs no explanation
        if not (job.ended or asked_for) and now < until:
            return True, ""
        return False, self._last_words(handle, f"the worker (process {own.pid}) {job.end}")

    def _last_words(self, handle: Handle, *said: str) -> str:
        """Why a worker is gone, in a sentence: what is known, and what it printed last."""
        printed = " | ".join(self._jobs.last_words(handle.id))
        return "; ".join(part for part in (*said, f"it printed: {printed}" if printed else "") if part)

    def stop(self, handle: Handle, grace_s: float) -> None:
        """Ask the worker to end, SIGTERM first, and return at once; without grace it is killed now."""
        own = self._worker(handle)
        self._kill_at.setdefault(handle.id, self._clock.monotonic() + grace_s + STOP_MARGIN_S)
        if grace_s <= 0 and own is not None:
            process.end_tree(own, 0, self._clock)
            return
        threading.Thread(target=self._ask_to_stop, args=(handle, own), daemon=True).start()

    def _ask_to_stop(self, handle: Handle, own: ProcessId | None) -> None:
        # Ray would signal every process below the worker, a Ray head of the Job's own too, and with it the ranks.
        if own is not None and remains.has_own_head(self._folder(handle)) and process.send(own, signal.SIGTERM):
            return
        try:
            self._jobs.stop(handle.id)
        except ClusterError:
            _logger.warning("the Jobs API does not stop %s; its worker is asked directly", handle.id)
            if own is not None:
                process.send(own, signal.SIGTERM)

    def _kill_overdue(self, handle: Handle, own: ProcessId) -> None:
        """A worker that outlives the grace it was given is killed with all below it."""
        kill_at = self._kill_at.get(handle.id)
        if kill_at is not None and self._clock.monotonic() > kill_at and process.alive(own):
            process.end_tree(own, 0, self._clock)

    @_answering
    def release(self, lease: Lease) -> Released:
        """Give the capacity back once the processes are gone; survivors keep it and are named."""
        group = leases.find(lease.key)
        survivors = [process.describe(one) for one in process.end(self._left_of(lease), REMAINS_GRACE_S, self._clock)]
        if group is not None and not survivors:
            survivors += self._still_coming(lease, _submission_id(group))
        if survivors:
            return Released(clean=False, survivors=tuple(survivors))
        if group is not None:
            leases.remove(lease.key)
            self._forget(group)
        self._files.forget(self._home.job(lease.job).reports)
        remains.forget_head(self._home.job(lease.job))
        return Released()

    def _still_coming(self, lease: Lease, submission_id: str) -> list[str]:
        """A worker that has not reported, but that Ray may still start: it would run without a lease."""
        if remains.worker_process(self._files.read(self._home.job(lease.job).reports), lease.attempt) is not None:
            return []
        job = self._jobs.status(submission_id)
        if job.ended:
            return []
        self._jobs.stop(submission_id)
        return [f"the Ray Job {submission_id}, which Ray says is {job.status}"]

    def _forget(self, group: Group) -> None:
        self._gpus.pop(group.id, None)
        for memory in (self._kill_at, self._ask_at, self._lost_at):
            memory.pop(_submission_id(group), None)

    def _left_of(self, lease: Lease) -> Sequence[ProcessId]:
        """Every process of the attempt that still lives."""
        folder = self._home.job(lease.job)
        reports = self._files.read(folder.reports)
        own = remains.worker_process(reports, lease.attempt)
        found = set(remains.marked_processes(folder, lease.attempt))
        found.update(remains.rank_processes(reports, lease.attempt))
        found.update(remains.head_processes(folder))
        if own is not None and process.alive(own):
            found.add(own)
        return sorted(found)

    @_answering
    def leases(self) -> list[Lease]:
        """Every placement group of ours. Devices are filled in where this process has asked for them before."""
        return [self._lease(group, ask=False) for group in leases.groups() if group.state == "CREATED"]


def _submission_id(group: Group) -> str:
    """What the Ray Job of a lease's worker is called; another head's lease gives another name."""
    return f"{group.name}-{group.id[:8]}"


def _metadata(lease: Lease, folder: JobFolder) -> dict[str, str]:
    """What Ray's dashboard shows beside the Job; the components too, for a fused run has no actors to see."""
    placement = (read_json(folder.plan) or {}).get("placement")
    components = ",".join(placement) if isinstance(placement, dict) else ""
    shown = {"rlark.io/job": lease.job, "rlark.io/attempt": str(lease.attempt)}
    return shown | ({"rlark.io/components": components} if components else {})
