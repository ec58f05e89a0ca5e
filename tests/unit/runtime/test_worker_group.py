"""Groups of workers in real processes, without Ray."""

from __future__ import annotations

import os
import time

import pytest

from rlark.runtime.failure import RunFailed
from rlark.runtime.worker import Worker
from rlark.runtime.worker_group import PerRank


def test_calls_reach_all_ranks_or_some_and_answer_in_their_order(cluster, adder):
    adders = adder.create_group(10).launch(cluster, name="adders").ready(30)
    assert adders.world_size == 2
    assert adders.add(1).wait(10) == [11, 12]
    assert adders.execute_on(1).add(1, twice=True).wait(10) == [14]
    assert adders.add(PerRank([5, 6]), twice=PerRank([False, True])).wait(10) == [16, 26]
    facts = adders.facts().wait(10)
    assert [fact[1:4] for fact in facts] == [(0, 2, "adders"), (1, 2, "adders")]
    assert [fact[5] for fact in facts] == ["0", "1"]
    assert len({os.getpid(), *(fact[0] for fact in facts)}) == 3


def test_what_holds_for_all_is_told_once_and_claimed_gpus_are_none(cluster, adder, tmp_path):
    adders = adder.create_group().launch(cluster, name="adders").ready(30)
    assert adders.tell().wait(20) == ["cpu", "cpu"]
    logs = [(tmp_path / f"adders-{rank}.log").read_text() for rank in (0, 1)]
    assert ["all 2 are here, on cpu" in log for log in logs] == [True, False]


def test_groups_work_at_the_same_time_and_calls_wait_their_turn(cluster, adder):
    adders = adder.create_group().launch(cluster, name="adders")
    others = adder.create_group().launch(cluster, name="others")
    slow, also = adders.work(0.3), others.work(0.3)
    queued = adders.add(1)
    assert not slow.done()
    began = time.monotonic()
    also.wait(20)
    slow.wait(20)
    assert time.monotonic() - began < 20
    assert queued.wait(10) == [1, 2]
    (times, _) = adders.pop_execution_times().wait(10)
    assert times["work"] >= times["inner"] >= 0.3
    assert adders.pop_execution_times().wait(10) == [{}, {}]


def test_a_barrier_waits_for_the_last(cluster, adder):
    adders = adder.create_group().launch(cluster, name="adders").ready(30)
    waited = adders.meet(late=0.2).wait(20)
    assert waited[0] > max(0.1, waited[1])
    assert len(adders.meet().wait(10)) == 2  # and can be met at again


def test_a_barrier_that_not_all_reach_says_how_many_did(cluster, adder):
    adders = adder.create_group().launch(cluster, name="adders").ready(30)
    with pytest.raises(RunFailed, match=r"1 of 2 ranks of adders came to the barrier within 0\.05 s") as failed:
        adders.execute_on(0).meet(timeout_s=0.05).wait(10)
    assert failed.value.cause.exception == "TimeoutError"


def test_channels_join_groups_and_the_driver(cluster, adder):
    adders = adder.create_group().launch(cluster, name="adders").ready(30)
    others = adder.create_group().launch(cluster, name="others").ready(30)
    made, taken = adders.execute_on(0).produce("c", 6), others.consume("c", 6)
    assert taken.wait(10) == [[0, 1, 2, 3, 4, 5]]
    made.wait(10)
    here = cluster.create_channel("c", maxsize=2)
    others.produce("c", 1).wait(10)
    assert here.get(key=0)["from"] == 0
    here.put({"array": [7.0]})
    here.put({"array": [8.0]}, key=0)
    assert others.consume(here, 1).wait(10) == [[8.0]]  # a channel can be handed over
    here.disconnect()


def test_weights_of_one_reach_all_who_subscribe(cluster, adder):
    adders = adder.create_group().launch(cluster, name="adders")
    others = adder.create_group().launch(cluster, name="others")
    seen, published = adders.subscribe(3), others.publish(3, subscribers=2)
    assert published.wait(20) == [(3, 200_000)]
    assert seen.wait(20) == [[(1, 1), (2, 2), (3, 3)]] * 2


@pytest.mark.parametrize(
    ("how", "exception", "said"),
    [
        ("raise", "ValueError", "a fault of the test"),
        ("memory", "MemoryError", "no room for 9 TiB"),
        ("kill", "ProcessDied", "its process ended without a word (signal 9)"),
    ],
)
def test_the_first_failure_ends_the_run_with_its_cause_and_log(cluster, adder, how, exception, said):
    adders = adder.create_group().launch(cluster, name="adders").ready(30)
    others = adder.create_group().launch(cluster, name="others").ready(30)
    adders.fail(1, how)
    began = time.monotonic()
    with pytest.raises(RunFailed) as failed:
        others.work(60).wait(30)  # whoever waits is told
    assert time.monotonic() - began < 5
    cause = failed.value.cause
    assert (cause.component, cause.rank, cause.exception, cause.log) == ("adders", 1, exception, "adders-1.log")
    assert cause.message.startswith(said)
    assert any("rank 1 of 2 starts" in line or said in line for line in cause.lines)


def test_a_constructor_that_raises_is_the_cause(cluster, adder):
    adders = adder.create_group(broken_on=1).launch(cluster, name="adders")
    with pytest.raises(RunFailed, match="adders rank 1: RuntimeError: a constructor of the test"):
        adders.ready(30)


def test_a_rank_that_is_late_is_named_and_its_log_says_where_it_stands(cluster, adder, tmp_path):
    adders = adder.create_group().launch(cluster, name="adders").ready(30)
    with pytest.raises(RunFailed) as failed:
        adders.fail(1, "hang").wait(0.2)
    cause = failed.value.cause
    assert (cause.component, cause.rank, cause.exception) == ("adders", 1, "Timeout")
    assert cause.message == "adders-1 did not answer fail within 0.2 s; where each stands is in its log"
    assert "in fail" in (tmp_path / "adders-1.log").read_text()


def test_what_cannot_be_is_refused_in_words(cluster, adder):
    class Local(Worker):
        """Nobody can import it."""

    with pytest.raises(ValueError, match="define the class at the top of a module of its own"):
        Local.create_group().launch(cluster, name="adders")
    with pytest.raises(ValueError, match="no component adder is placed; there are adders, others"):
        adder.create_group().launch(cluster, name="adder")
    adders = adder.create_group().launch(cluster, name="adders")
    with pytest.raises(ValueError, match="the component adders was launched already"):
        adder.create_group().launch(cluster, name="adders")
    with pytest.raises(AttributeError, match="Adder has no public method 'subtract'"):
        adders.subtract(1)
    with pytest.raises(ValueError, match=r"adders has no rank \[2\]; it has \[0, 1\]"):
        adders.execute_on(2)
    with pytest.raises(ValueError, match="3 values were given for 2 ranks"):
        adders.add(PerRank([1, 2, 3]))
    adders.ready(30)
