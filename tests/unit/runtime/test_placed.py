from __future__ import annotations

import pickle
import threading
import time
from pathlib import Path

import pytest

from rlark.engine import load_attribute
from rlark.errors import ClusterError, UsageError
from rlark.runtime import seat
from rlark.runtime.cluster import Cluster
from rlark.runtime.failure import RunFailed
from rlark.runtime.placed import PlacedTrainer
from rlark.runtime.trainer import FusedTrainer, Workload

PROGRAM = "toy_engine.program:PROGRAM"


def vanishing(rank, run):
    """A rank that goes without a word once it knows who it is."""
    control, posting = seat.take(run, rank.component, rank.rank)
    if rank.name == "demo/env:1":
        control.close()
    else:
        seat.serve(control, posting)


def test_one_rank_each_gives_the_bytes_of_the_fused_run(placed, assign):
    assignment = assign()
    fused = FusedTrainer(Workload.of(load_attribute(PROGRAM), assignment.plan), threads=2)
    expected = [fused.iterate() for _ in range(4)]
    with placed(assignment) as (trainer, _):
        assert [trainer.iterate() for _ in range(4)] == expected
        ours, theirs = trainer.state(), fused.state()
    assert {name: pickle.dumps(ours[name]) for name in ours} == {name: pickle.dumps(theirs[name]) for name in theirs}


@pytest.mark.parametrize("ranks", [(4, 2, 2), (1, 1, 2), (1, 2, 1), (2, 1, 4), (1, 4, 2)])
def test_any_number_of_ranks_exchanges_every_environment(placed, assign, ranks):
    with placed(assign(ranks=ranks)) as (trainer, statuses):
        first, second = trainer.iterate(), trainer.iterate()
        state = trainer.state()
    assert len(statuses) == sum(ranks)
    assert first["columns"] == 8 / ranks[0]
    assert first != second
    assert [len(state[name]) for name in ("actor", "rollout", "env")] == [1, *ranks[1:]]
    assert state["observation"].shape == (8, 2)
    assert state["actor"][0]["updates"] == 2


def test_a_restored_run_goes_on_as_if_it_had_never_stopped(placed, assign):
    assignment = assign(ranks=(1, 2, 2))
    with placed(assignment) as (trainer, _):
        trainer.iterate()
        state = pickle.loads(pickle.dumps(trainer.state()))
        expected = [trainer.iterate() for _ in range(2)]
    with placed(assignment) as (trainer, _):
        trainer.restore(state)
        assert [trainer.iterate() for _ in range(2)] == expected
    with placed(assign(ranks=(1, 1, 2))) as (trainer, _), pytest.raises(ValueError, match="2 rollout ranks"):
        trainer.restore(state)


def test_each_rank_says_how_it_runs(placed, assign):
    with placed(assign(ranks=(1, 1, 2), gpus=2)) as (trainer, statuses):
        device = trainer.device()
    assert [(s.component, s.rank, s.log) for s in statuses] == [
        ("actor", 0, "actor-0.log"),
        ("rollout", 0, "rollout-0.log"),
        ("env", 0, "env-0.log"),
        ("env", 1, "env-1.log"),
    ]
    assert (device.device, device.name) == ("cpu", "numpy")


@pytest.mark.parametrize("component", ["actor", "rollout", "env"])
@pytest.mark.parametrize("how", ["raise", "exit"])
def test_the_first_cause_is_told_and_not_those_that_follow_from_it(placed, assign, component, how):
    fault = {"component": component, "rank": 1, "iteration": 2, "how": how}
    assignment = assign(ranks=(2, 2, 2), toy={"fault": fault})
    log = assignment.folder.logs(1) / f"{component}-1.log"
    log.write_text("".join(f"line {number}\n" for number in range(30)))
    began = time.monotonic()
    with pytest.raises(RunFailed) as raised, placed(assignment) as (trainer, _):
        for _ in range(3):
            trainer.iterate()
    cause = raised.value.cause
    assert (cause.component, cause.rank, cause.log) == (component, 1, f"{component}-1.log")
    assert (cause.exception, cause.message) == (
        ("RuntimeError", "a fault of the test") if how == "raise" else ("SystemExit", "7")
    )
    assert cause.lines == tuple(f"line {number}" for number in range(10, 30))
    assert time.monotonic() - began < 5


def test_a_rank_that_cannot_be_built_is_the_cause(placed, assign):
    fault = {"component": "rollout", "rank": 0, "iteration": 1}  # it loads its first weights before it is ready
    with (
        pytest.raises(RunFailed, match="rollout rank 0: RuntimeError: a fault of the test"),
        placed(assign(toy={"fault": fault})),
    ):
        pass


def test_a_rank_that_ends_without_a_word_is_the_cause(placed, assign):
    with (
        pytest.raises(RunFailed, match="env rank 1: ProcessDied: its process ended without a word"),
        placed(assign(ranks=(1, 1, 2)), rank=vanishing),
    ):
        pass


def test_a_rank_that_never_starts_is_the_cause(placed, assign):
    with (
        pytest.raises(RunFailed, match="actor rank 0: ProcessDied: it did not start: no room for it"),
        placed(assign(), missing="demo/actor:0"),
    ):
        pass


def named_sockets() -> set[str]:
    """The names of runs at which somebody of this machine listens."""
    words = Path("/proc/net/unix").read_text().split()
    return {word for word in words if word.startswith("@rlark-")}


def test_a_rank_that_is_refused_leaves_nothing_behind(assign):
    class Refusing:
        ended = False

        def start(self, rank, run):
            if rank.component == "env":
                raise ClusterError("Ray does not start a rank")

        def end(self):
            self.ended = True

    group, before = Refusing(), named_sockets()
    with pytest.raises(ClusterError, match="does not start"):
        PlacedTrainer(Cluster.of(assign(), group, PROGRAM))
    assert (group.ended, named_sockets()) == (True, before)


def test_environments_that_cannot_be_shared_out_say_what_to_change(placed, assign):
    with (
        pytest.raises(UsageError, match="env: 8 environments cannot be shared evenly by 3 ranks"),
        placed(assign(ranks=(1, 1, 3))),
    ):
        pass


def test_nothing_is_left_behind(placed, assign):
    names = named_sockets()
    before = len(list(Path("/proc/self/fd").iterdir()))
    with placed(assign()) as (trainer, _):
        trainer.iterate()
        assert named_sockets() > names
    assert named_sockets() == names
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert not [
        thread for thread in threading.enumerate() if thread is not threading.current_thread() and not thread.daemon
    ]
