"""For tests, ours and yours: a cluster without machines, a clock that stands still, and factories.

    clock = FakeClock()
    cluster = FakeCluster([a_node(gpus=4)], clock)
    controller = Controller(Home(tmp_path), cluster, clock)
    controller.submit(job_text("demo"))
    cluster.worker("demo").finish()
    controller.tick()

Nothing here sleeps, starts a process or opens a port.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rlark.cluster.base import Busy, Handle, Observation, Released
from rlark.errors import ClusterError, PlacementError
from rlark.folder import JobFolder, append_line, read_lines
from rlark.host.clock import Clock, stamp
from rlark.plan.node import Device, HeadAddress, Inventory, Lease, Node, default_labels
from rlark.plan.plan import Ask
from rlark.spec.report import Report

GIB = 2**30


class FakeClock:
    """A clock that moves only when it is told to; `sleep` moves it."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        """Begin at a moment, aware."""
        self._start, self._passed, self._lock = start, 0.0, threading.Lock()

    def now(self) -> datetime:
        """The time of day."""
        return self._start + timedelta(seconds=self._passed)

    def monotonic(self) -> float:
        """Seconds since the start."""
        return self._passed

    def sleep(self, seconds: float) -> None:
        """Move on without waiting."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move on."""
        with self._lock:
            self._passed += seconds


@dataclass
class FakeWorker:
    """A worker that does what a test says, and reports as a real one does: into `worker.jsonl`.

    Attributes:
        lease: what it holds.
        folder: its job folder.
        clock: time.
        obeys: True when it ends at once on a stop; False for one that has to be killed.
        mortal: False for one that survives even that.
        alive: whether its process lives.
        reason: what the cluster says about its end.
        stops: the grace of every stop that reached it.
    """

    lease: Lease
    folder: JobFolder
    clock: Clock
    obeys: bool = True
    mortal: bool = True
    alive: bool = True
    reason: str = ""
    stops: list[float] = field(default_factory=list)

    def report(
        self,
        type: str,  # noqa: A002 - the report's own word
        *,
        status: bool = True,
        reason: str = "",
        message: str = "",
        data: dict[str, object] | None = None,
    ) -> None:
        """Append one report."""
        n = 1 + sum(1 for _ in read_lines(self.folder.reports))
        time = stamp(self.clock.now())
        line = Report(n, self.lease.attempt, time, type, status, reason or type, message, data or {})
        append_line(self.folder.reports, asdict(line))

    def begin(self) -> None:
        """Report what comes before the run: prepared, Ray up, started."""
        for step in ("Prepared", "RayReady", "Started"):
            self.report(step)

    def log(self, text: str, *, stream: str = "stdout") -> None:
        """Write one line of the run's output; a stream `actor-0` stands for a rank's own log."""
        folder = self.folder.logs(self.lease.attempt)
        folder.mkdir(parents=True, exist_ok=True)
        stamped = stream in ("stdout", "stderr")
        with (folder / f"{stream}.log").open("a", encoding="utf-8") as file:
            file.write(f"{stamp(self.clock.now())} {text}\n" if stamped else f"{text}\n")

    def iterate(self, iteration: int, iterations: int, **metrics: float | None) -> None:
        """Write one line of metrics."""
        line = {"iteration": iteration, "iterations": iterations, "time": stamp(self.clock.now()), **metrics}
        append_line(self.folder.metrics, line)

    def finish(
        self,
        exit_code: int | None = 0,
        *,
        reason: str = "",
        message: str = "",
        verified: bool | None = None,
        gate: bool | None = None,
        survivors: Sequence[str] = (),
        exits: bool = True,
    ) -> None:
        """Report the Outcome and end.

        Args:
            exit_code: the run's.
            reason: `Completed` or `RunFailed` by the exit code unless given.
            message: a sentence.
            verified: the verdict over its files.
            gate: what the quality gate says.
            survivors: processes that could not be ended.
            exits: False when the process lingers.
        """
        done = exit_code == 0 and not reason
        verdict: dict[str, object] = {"verified": verified, "checks": [], "qualityGatePassed": gate}
        data: dict[str, object] = {
            "exitCode": exit_code,
            "verdict": verdict,
            "cause": None,
            "survivors": list(survivors),
        }
        reason = reason or ("Completed" if done else "RunFailed")
        self.report("Outcome", status=done, reason=reason, message=message, data=data)
        self.alive = not exits

    def die(self, reason: str = "the process was killed by signal 9") -> None:
        """Vanish without a last report."""
        self.alive, self.reason = False, reason

    def stop(self, grace_s: float) -> None:
        """What a stop does to it."""
        self.stops.append(grace_s)
        if not self.alive:
            return
        if self.obeys:
            self.finish(143, reason="Stopped", message="stopped on request")
        elif grace_s == 0 and self.mortal:
            self.die()


Script = Callable[[FakeWorker], None]
"""What a worker does when it starts; `FakeWorker.begin` by default."""


def run_through(worker: FakeWorker) -> None:
    """A script: the whole life of a Job that succeeds and is verified."""
    worker.begin()
    worker.report("SignalSeen", message="iter 1/1")
    worker.report("OutputsVerified")
    worker.finish(verified=True, gate=True)


class FakeCluster:
    """A place where Jobs run in memory only. It outlives the controllers of a test, as a real one does.

    Attributes:
        nodes: the nodes; change them to take one away.
        script: what each new worker does.
        down: when set, every call raises a ClusterError with this text.
        busy: when set, every lease is refused with this reason.
        workers: every worker that was started, in order.
    """

    def __init__(
        self, nodes: Sequence[Node] | None = None, clock: Clock | None = None, script: Script = FakeWorker.begin
    ) -> None:
        """Begin with nodes that hold nothing; one CPU node by default."""
        self.nodes = list(nodes) if nodes is not None else [a_node()]
        self.clock = clock or FakeClock()
        self.script, self.down, self.busy = script, "", ""
        self.workers: list[FakeWorker] = []
        self._leases: dict[str, Lease] = {}
        self._made = 0
        self._lock = threading.RLock()

    def worker(self, job: str, attempt: int | None = None) -> FakeWorker:
        """The worker of a Job, the latest by default."""
        found = [w for w in self.workers if w.lease.job == job and attempt in (None, w.lease.attempt)]
        if not found:
            raise LookupError(f"no worker of job {job!r} was started")
        return found[-1]

    def restart(self, reason: str = "the head was restarted") -> None:
        """What a new head knows: no lease, and every worker gone."""
        with self._lock:
            self._leases.clear()
            for worker in self.workers:
                if worker.alive:
                    worker.die(reason)

    # ---- the protocol

    def inventory(self) -> Inventory:
        """The nodes with what is free."""
        self._answer()
        with self._lock:
            return Inventory(nodes=[self._free(node) for node in self.nodes], source="fake")

    def lease(self, job: str, attempt: int, node: str, ask: Ask) -> Lease | Busy:
        """Take capacity, all or nothing."""
        self._answer()
        with self._lock:
            mine = next((held for held in self._leases.values() if (held.job, held.attempt) == (job, attempt)), None)
            if mine:
                return mine
            found = Inventory(nodes=self.nodes).node(node)
            if found is None or ask.gpus > found.gpus or ask.cpus > found.cpus:
                raise PlacementError(f"node {node} can never offer {ask.gpus} GPUs and {ask.cpus:g} CPUs")
            if self.busy:
                return Busy(self.busy)
            free = self._free_gpus(found)
            if ask.gpus > len(free) or ask.cpus > (self._free(found).free_cpus or 0):
                return Busy(f"node {node} is full")
            self._made += 1
            made = _lease(job, attempt, found, ask, free[: ask.gpus])
            made = made.model_copy(update={"key": f"{job}-{attempt}-{self._made}"})
            self._leases[made.key] = made
            return made

    def start(self, lease: Lease, folder: JobFolder, grace_s: float) -> Handle:  # noqa: ARG002 - the protocol's
        """Start a worker; the same attempt gives the same handle."""
        self._answer()
        with self._lock:
            handle = Handle(lease.job, lease.attempt, f"fake-{lease.key}", str(folder.root))
            if self._worker(handle) is None:
                worker = FakeWorker(lease, folder, self.clock)
                self.workers.append(worker)
                self.script(worker)
            return handle

    def observe(self, handle: Handle, after: int) -> Observation:
        """What is seen of a worker."""
        self._answer()
        worker = self._worker(handle)
        lines = read_lines(JobFolder(Path(handle.folder)).reports)
        reports = tuple(Report(**line) for line, _ in lines if _number(line) > after)  # type: ignore[arg-type]
        if worker is None:
            return Observation(alive=False, reports=reports, reason="the cluster does not know it")
        return Observation(alive=worker.alive, reports=reports, reason=worker.reason)

    def stop(self, handle: Handle, grace_s: float) -> None:
        """Ask a worker to end."""
        self._answer()
        if (worker := self._worker(handle)) is not None:
            worker.stop(grace_s)

    def release(self, lease: Lease) -> Released:
        """Give capacity back once the worker is gone."""
        self._answer()
        with self._lock:
            lingering = [w for w in self.workers if w.lease.key == lease.key and w.alive]
            if lingering:
                return Released(clean=False, survivors=(f"the worker of {lease.key}",))
            self._leases.pop(lease.key, None)
            return Released()

    def leases(self) -> list[Lease]:
        """Every lease held."""
        self._answer()
        with self._lock:
            return list(self._leases.values())

    # ---- parts

    def _answer(self) -> None:
        if self.down:
            raise ClusterError(self.down)

    def _worker(self, handle: Handle) -> FakeWorker | None:
        mine = (w for w in reversed(self.workers) if f"fake-{w.lease.key}" == handle.id)
        return next((w for w in mine if str(w.folder.root) == handle.folder), None)

    def _held(self, node: Node) -> list[Lease]:
        return [lease for lease in self._leases.values() if lease.node == node.name]

    def _free_gpus(self, node: Node) -> list[str]:
        taken = {device.id for lease in self._held(node) for device in lease.devices}
        return [str(gpu) for gpu in range(node.gpus) if str(gpu) not in taken]

    def _free(self, node: Node) -> Node:
        held = self._held(node)
        return node.model_copy(
            update={
                "free_cpus": node.cpus - sum(lease.cpus for lease in held),
                "free_gpus": len(self._free_gpus(node)),
                "free_memory": node.memory - sum(lease.memory for lease in held),
                "holders": {lease.job: len(lease.devices) for lease in held if lease.devices},
            }
        )


def a_node(name: str = "node-0", *, gpus: int = 0, cpus: float = 8, memory: int = 16 * GIB, **more: object) -> Node:
    """A node with the usual labels; its GPUs are faked unless `gpus_faked=False`."""
    model = "Fake GPU" if gpus else ""
    values: dict[str, object] = {
        "id": f"id-of-{name}",
        "labels": default_labels(name, model),
        "shm": 4 * GIB,
        "gpu_model": model,
        "gpus_faked": gpus > 0,
    }
    return Node.model_validate({"name": name, "gpus": gpus, "cpus": cpus, "memory": memory} | values | more)


def job_text(name: str = "demo", *, gpu: int = 0, cpu: float = 1, run: str = "echo hello\n", **spec: object) -> str:
    """A small Job as JSON text, which is YAML too: one run script.

    Args:
        name: its name.
        gpu: GPUs it asks for.
        cpu: CPUs it asks for.
        run: the run script.
        spec: further keys of `spec`, such as `priority`.
    """
    worker = {
        "name": "worker",
        "head": True,
        "ray": {"replicas": 1, "head": "platform", "resources": {"cpu": cpu, "gpu": gpu}},
        "runScript": run,
    }
    job = {
        "apiVersion": "rlinf.io/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": [worker], **spec},
    }
    return json.dumps(job, indent=2) + "\n"


def _lease(job: str, attempt: int, node: Node, ask: Ask, gpus: Sequence[str]) -> Lease:
    devices = [
        Device(id=gpu, uuid=None if node.gpus_faked else f"GPU-{node.name}-{gpu}", faked=node.gpus_faked)
        for gpu in gpus
    ]
    return Lease(
        job=job,
        attempt=attempt,
        key="",
        node=node.name,
        node_id=node.id,
        devices=devices,
        cpus=ask.cpus,
        memory=ask.memory,
        head=HeadAddress(address="127.0.0.1:6379", session="fake"),
    )


def _number(line: dict[str, object]) -> int:
    n = line["n"]
    return n if isinstance(n, int) else 0
