"""The run's process: from a job folder to a trained, exported, provable product and an exit code.

0    trained, exported, and everything written down
1    it failed, or its training request was refused; failure.json names the first cause
2    it could not begin: no Job and no request, a missing requirement, a configuration the engine refuses
143  it was asked to stop, and wrote a checkpoint

A run has its configuration from a Job, or from a training request (rlark.runtime.file_protocol);
from there on it is the same run.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import sys
import traceback
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlark.engine import Engine, find_engines, load_attribute
from rlark.errors import ClusterError, RlarkError, SpecError, UsageError
from rlark.folder import write_json
from rlark.host import ports
from rlark.runtime.assignment import Assignment
from rlark.runtime.failure import Cause, RunFailed
from rlark.runtime.file_protocol import bystanders
from rlark.runtime.rank import FUSED, THREADS, fused_rank, rank_status
from rlark.runtime.requested import requested
from rlark.runtime.seat import show_stacks_on_request
from rlark.runtime.stop import STOPPED, Stop, Stopped
from rlark.spec.checkpoint import saved
from rlark.spec.status import RankStatus

if TYPE_CHECKING:
    from rlark.evidence.result import Result
    from rlark.runtime.checkpoint import Origin
    from rlark.runtime.cluster import Cluster
    from rlark.runtime.component import Run
    from rlark.runtime.replay import Replay
    from rlark.runtime.runner import Runner
    from rlark.runtime.trainer import Trainer, Workload

FAILED = 1
CANNOT_BEGIN = 2
LOG = "stderr.log"


def main(engine_id: str) -> int:
    """Do what the environment asks of an engine.

    Args:
        engine_id: as in `runner.engine`.

    Returns:
        The exit code, for `sys.exit`.
    """
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s", stream=sys.stderr)
    stop = Stop()
    stop.listen()
    show_stacks_on_request()
    assignment = None
    try:
        assignment = Assignment.find()
        engine = _engine(engine_id)
        _work(requested(assignment, engine), engine, stop)
    except Stopped:
        _tell_how_to_go_on(assignment, engine_id)
        _say("stopped as asked")
        return STOPPED
    except UsageError as error:
        return _end(assignment, Cause("", 0, "UsageError", str(error), LOG), CANNOT_BEGIN)
    except RlarkError as error:
        return _end(assignment, Cause("", 0, type(error).__name__, str(error), LOG), FAILED)
    except RunFailed as error:
        return _end(assignment, error.cause, FAILED)
    except Exception as error:  # noqa: BLE001  the last place to say what went wrong
        traceback.print_exc()
        component = FUSED if assignment is not None and assignment.plan.fused else ""
        return _end(assignment, Cause.of(error, component, LOG), FAILED)
    return 0


def _engine(engine_id: str) -> Engine:
    engines = find_engines()
    engine = engines.get(engine_id)
    if engine is None:
        known = ", ".join(engines) or "none"
        raise UsageError(f"There is no engine {engine_id!r} here; installed: {known}.")
    unmet = engine.unmet()
    if unmet:
        lacks = "; ".join(f"{need.kind} {need.name} ({need.install})" for need in unmet)
        raise UsageError(f"The engine {engine_id} lacks what it needs: {lacks}.")
    return engine


def _work(assignment: Assignment, engine: Engine, stop: Stop) -> None:
    """Train, export, and write down what proves it; result.json last."""
    besides = bystanders(assignment.folder) if assignment.folder.flat else ()
    make = _fused if assignment.plan.fused else _placed
    with make(assignment, engine, stop) as (workload, trainer):
        replay = _asked_replay(assignment)
        if replay is not None:
            _write_evidence(assignment, _replayed(assignment, engine, replay, trainer), besides)
            return
        run = _train(assignment, engine, workload, trainer, stop)
    result = workload.program.export(workload.config, run)  # what trained is gone by now
    _write_evidence(assignment, result, besides)


def _asked_replay(assignment: Assignment) -> Replay | None:
    from rlark.runtime.replay import Replay

    try:
        return Replay.asked(str(_checkpoint_of(assignment) or ""))
    except ValueError as error:
        raise UsageError(str(error)) from None


def _replayed(assignment: Assignment, engine: Engine, replay: Replay, trainer: Trainer) -> Result:
    """Replay and compare; what differs fails the run."""
    from rlark.runtime.replay import result

    try:
        found = replay.run(trainer)
    except (ValueError, OSError) as error:
        raise UsageError(f"cannot replay from {replay.source}: {error}") from error
    _say(f"iterations {found['from']} to {found['to']} gave the same numbers again")
    return result(assignment.folder, engine.id, replay, found, trainer.device())


@contextmanager
def _fused(assignment: Assignment, engine: Engine, _stop: Stop) -> Iterator[tuple[Workload, Trainer]]:
    rank = fused_rank(assignment.plan, assignment.lease)
    os.environ |= assignment.environment(rank)  # before numpy or torch is loaded
    from rlark.runtime.trainer import fused

    workload = _workload(assignment, engine)
    trainer = fused(workload, rank.threads)
    if not assignment.folder.flat:  # nobody looks after the processes of a run without a Job
        _write_ranks(assignment, fused=True, ranks=[rank_status(rank, assignment.lease, os.getpid())])
    yield workload, trainer


@contextmanager
def _placed(assignment: Assignment, engine: Engine, stop: Stop) -> Iterator[tuple[Workload, Trainer]]:
    head = assignment.head()
    if head is None:
        raise UsageError("The Job is placed on ranks of its own, and no Ray head was leased for it.")
    host, _, port = head.address.rpartition(":")
    if not ports.listening(host, int(port)):  # Ray itself would try for a minute
        raise ClusterError(
            f"The Ray head at {head.address} does not answer.", hint="rlark doctor says what listens where"
        )
    if head.token_path:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": head.token_path}
    os.environ.setdefault(THREADS, str(max(1, int(assignment.lease.cpus))))  # this process exports at the end
    from rlark.runtime.group import RayGroup

    python = assignment.folder.fenced_python
    group = RayGroup(head, assignment.node_id, str(python) if python.exists() else "")
    stop.listen()  # Ray took the signals
    try:
        from rlark.runtime.cluster import Cluster

        with Cluster.of(assignment, group, engine.program) as cluster:
            make = _places_itself if engine.places_itself else _components
            workload, trainer = make(assignment, engine, cluster)
            cluster.gather()
            _write_ranks(assignment, fused=False, ranks=cluster.statuses())
            yield workload, trainer
            trainer.close()
    finally:
        group.close()


def _components(assignment: Assignment, engine: Engine, cluster: Cluster) -> tuple[Workload, Trainer]:
    """Env, Rollout and Actor on the ranks of their own."""
    from rlark.runtime.placed import PlacedTrainer

    trainer = PlacedTrainer(cluster)
    workload = _workload(assignment, engine)  # while the ranks load theirs
    trainer.gather(workload.shape, workload.stages)
    return workload, trainer


def _places_itself(assignment: Assignment, engine: Engine, cluster: Cluster) -> tuple[Workload, Trainer]:
    """What the engine itself launches."""
    workload = _workload(assignment, engine)
    program: Any = workload.program
    return workload, program.place(workload.config, cluster)


def _workload(assignment: Assignment, engine: Engine) -> Workload:
    from rlark.runtime.trainer import Workload

    try:
        program: Any = load_attribute(engine.program)
    except ImportError as error:
        raise UsageError(f"The engine {engine.id} cannot be loaded: {error}.") from error
    try:
        return Workload.of(program, assignment.plan)
    except ValueError as error:
        raise UsageError(f"The engine {engine.id} refuses its configuration: {error}") from error


def _train(assignment: Assignment, engine: Engine, workload: Workload, trainer: Trainer, stop: Stop) -> Run:
    from rlark.host.clock import SystemClock
    from rlark.runtime.report import Reporter
    from rlark.runtime.runner import Runner

    folder, clock = assignment.folder, SystemClock()
    board = Path(assignment.plan.tensorboard or folder.tensorboard)
    reporter = Reporter(
        folder,
        engine.id,
        iterations=workload.shape.iterations,
        tensorboard=board,
        progress=workload.program.progress,
        clock=clock,
    )
    try:
        origin = _origin(engine, assignment.plan.config)
        runner = Runner(
            trainer, workload.shape, folder=folder, reporter=reporter, clock=clock, stop=stop, origin=origin
        )
        _resume(assignment, runner, workload.shape.iterations)
        return runner.run(fused=assignment.plan.fused)
    finally:
        reporter.close()


def _origin(engine: Engine, config: Mapping[str, Any]) -> Origin:
    """What the run's checkpoints are of; a task stands there whole, or by its id."""
    from rlark.runtime.checkpoint import Origin

    task: Any = config
    for name in ("env", "train", "task"):
        task = task.get(name) if isinstance(task, Mapping) else None
    if isinstance(task, Mapping):
        task = task.get("id")
    return Origin(engine.id, task if isinstance(task, str) else "")


def _resume(assignment: Assignment, runner: Runner, iterations: int) -> None:
    """Go on from where the configuration says, or a failed attempt left off."""
    if assignment.lease.retry:
        if _go_on(assignment, runner):
            return
        runner.begin_anew()
    path = _checkpoint_of(assignment)
    if path is None:
        return
    try:
        runner.resume(path)
    except (ValueError, OSError) as error:
        if assignment.files:
            raise SpecError(f"resumeFrom: cannot continue from {path}: {error}") from error
        raise UsageError(f"runner.resume_dir: cannot continue from {path}: {error}") from error
    if runner.progress.iteration >= iterations:
        done = f"the checkpoint has {runner.progress.iteration} iterations, and {iterations} are asked for."
        if assignment.files:
            hint = "training.maxIterations counts from the very start: ask for more"
            raise SpecError(f"resumeFrom: {done}", hint=hint)
        _say(f"runner.resume_dir: {done} Nothing is left to train.")
    _say(f"continuing after iteration {runner.progress.iteration} from {path}")


def _checkpoint_of(assignment: Assignment) -> Path | None:
    """`runner.resume_dir`."""
    section = assignment.plan.config.get("runner")
    chosen = section.get("resume_dir") if isinstance(section, dict) else None
    return Path(assignment.plan.config_base, str(chosen)) if chosen else None


def _go_on(assignment: Assignment, runner: Runner) -> bool:
    """Go on from the newest checkpoint that a failed attempt of the Job left whole; False where there is none."""
    for path in reversed(saved(assignment.folder.checkpoints)):
        try:
            runner.resume(path)
        except (ValueError, OSError) as error:
            _say(f"{path.name} cannot be continued from: {error}")
            continue
        _say(f"continuing after iteration {runner.progress.iteration} from {path.name} of the attempt before")
        return True
    return False


def _tell_how_to_go_on(assignment: Assignment | None, engine: str) -> None:
    """A request names its checkpoint; that of a run which wrote no result has a name all the same."""
    from rlark.runtime.requested import reference

    if assignment is None or not assignment.files:
        return
    kept = saved(assignment.folder.checkpoints)
    if kept:
        named = {"checkpointId": kept[-1].name, "artifactRef": reference(engine, kept[-1])}
        _say(f"to go on, give a request resumeFrom: {json.dumps(named)}")


def _write_ranks(assignment: Assignment, *, fused: bool, ranks: list[RankStatus]) -> None:
    write_json(assignment.folder.ranks, {"fused": fused, "ranks": [rank.to_json() for rank in ranks]})


def _write_evidence(assignment: Assignment, result: Result, besides: Collection[str]) -> None:
    from rlark.evidence.manifest import write_manifest

    write_manifest(assignment.folder.artifacts, besides)
    write_json(assignment.result, result.to_json())


def _end(assignment: Assignment | None, cause: Cause, code: int) -> int:
    """Say why, for people and for the worker."""
    if assignment is None or assignment.folder.flat:  # without a Job there is no log to look into
        cause = replace(cause, log="")
    _say(f"error: {cause}")
    if assignment is not None:
        try:
            write_json(assignment.folder.failure, assignment.mask().tree(cause.to_json()))
        except OSError as error:
            _say(f"error: failure.json could not be written: {error.strerror}")
            if error.errno == errno.ENOSPC:
                return FAILED
    return code


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201  this is the run's log
