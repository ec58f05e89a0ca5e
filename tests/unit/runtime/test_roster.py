"""What the driver of a run notices, whatever it does itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pickle import PicklingError

import pytest

from rlark.engine import load_attribute
from rlark.host import process
from rlark.runtime.cluster import Cluster
from rlark.runtime.failure import RunFailed
from rlark.runtime.placed import PlacedTrainer
from rlark.runtime.subprocesses import Subprocesses
from rlark.runtime.trainer import Workload
from rlark.runtime.wire import EXCHANGE

PROGRAM = "toy_engine.program:PROGRAM"
BIG = b"x" * 5_000_000
DRIVER = """
import os, signal, sys
from adding_workers import Adder
from rlark.runtime.cluster import Cluster
with Cluster.local(adders=1) as cluster:
    adders = Adder.create_group().launch(cluster, name="adders").ready(30)
    pid = adders.facts().wait(10)[0][0]
    adders.work(600)
    print(pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def gone(pid: int, within_s: float = 5.0) -> bool:
    """Whether a process ends in time."""
    until = time.monotonic() + within_s
    while process.identify(pid) is not None and time.monotonic() < until:
        time.sleep(0.01)
    return process.identify(pid) is None


def test_a_large_order_to_a_busy_rank_holds_nobody_back(cluster, adder):
    adders = adder.create_group().launch(cluster, name="adders").ready(30)
    others = adder.create_group().launch(cluster, name="others").ready(30)
    busy, large = adders.work(0.5), adders.echo(BIG)
    assert others.add(1).wait(10) == [1]
    assert not busy.done()
    assert large.wait(20) == [BIG, BIG]


def test_large_answers_and_large_orders_pass_each_other(cluster, adder):
    adders = adder.create_group().launch(cluster, name="adders").ready(30)
    echoes = [adders.echo(BIG) for _ in range(4)]
    assert [echo.wait(20) for echo in echoes] == [[BIG, BIG]] * 4


def test_an_order_that_does_not_pickle_disturbs_nothing(cluster, adder):
    adders = adder.create_group().launch(cluster, name="adders").ready(30)
    with pytest.raises((AttributeError, PicklingError), match="pickle"):
        adders.echo(lambda: 0)
    assert adders.add(1).wait(10) == [1, 2]


def test_a_rank_that_dies_ends_the_run_while_the_driver_does_something_else(cluster, adder):
    adders = adder.create_group().launch(cluster, name="adders").ready(30)
    others = adder.create_group().launch(cluster, name="others").ready(30)
    pids = [fact[0] for fact in (*adders.facts().wait(10), *others.facts().wait(10))]
    os.kill(pids[0], signal.SIGKILL)
    assert all(gone(pid) for pid in pids)  # nobody has waited for anything
    for late in (others.add, adders.add):
        with pytest.raises(RunFailed, match="adders rank 0: ProcessDied"):
            late(1)


def test_a_driver_that_waits_at_a_channel_is_told_what_ended_the_run(toys, adder, tmp_path):
    began = time.monotonic()
    with (
        pytest.raises(RunFailed, match="adders rank 0: ProcessDied"),
        Cluster.local(adders=1, logs=tmp_path) as cluster,
    ):
        adders = adder.create_group().launch(cluster, name="adders").ready(30)
        channel = cluster.create_channel("never filled")
        adders.fail(0, "kill")
        channel.get(timeout_s=60)
    assert time.monotonic() - began < 30


def test_what_is_raised_anew_because_a_peer_is_gone_is_no_cause(cluster, adder):
    adders = adder.create_group().launch(cluster, name="adders").ready(30)
    vain = adders.execute_on(0).meet_in_vain()
    adders.execute_on(1).fail(1, "kill")
    with pytest.raises(RunFailed, match="adders rank 1: ProcessDied"):
        vain.wait(20)


def test_a_process_that_never_reports_is_the_cause(cluster, adder, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    adders = adder.create_group().launch(cluster, name="adders")
    with pytest.raises(RunFailed, match=r"adders rank [01]: ProcessDied: it did not start: exit code 1"):
        adders.add(1).wait(10)


def test_a_method_that_the_group_would_hide_is_refused(cluster, toys):
    from adding_workers import Hider

    with pytest.raises(ValueError, match=r"Hider\.ready hides what every group has: give it another name"):
        Hider.create_group().launch(cluster, name="adders")


def test_ranks_end_with_a_driver_that_is_killed_whatever_they_do(toys):
    env = {**os.environ, "PYTHONPATH": str(toys)}
    done = subprocess.run(
        [sys.executable, "-c", DRIVER], env=env, stdout=subprocess.PIPE, text=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGKILL
    assert gone(int(done.stdout))


def test_a_rank_that_is_silent_is_the_cause_and_its_log_says_where_it_stands(assign, monkeypatch):
    fault = {"component": "env", "rank": 0, "iteration": 2, "how": "hang"}
    run = assign(toy={"fault": fault})
    run = replace(run, plan=run.plan.model_copy(update={"env": {EXCHANGE: "0.5"}}))
    monkeypatch.setenv(EXCHANGE, "0.5")
    with pytest.raises(RunFailed) as failed, Cluster.of(run, Subprocesses(), PROGRAM) as cluster:
        trainer = PlacedTrainer(cluster)
        workload = Workload.of(load_attribute(PROGRAM), run.plan)
        trainer.gather(workload.shape, workload.stages)
        trainer.iterate()
        began = time.monotonic()
        trainer.iterate()
    assert time.monotonic() - began < 5.5
    cause = failed.value.cause
    assert (cause.component, cause.rank, cause.exception, cause.log) == ("env", 0, "Timeout", "env-0.log")
    assert cause.message == "env-0 was silent for 0.5 s; where each stands is in its log: env-0"
    assert any("in pass_by" in line for line in cause.lines)
