"""Whose turn it is, and why not."""

from __future__ import annotations

from rlark.control.queue import Held, Waiting, turns
from rlark.plan.node import Inventory
from rlark.plan.plan import Ask
from rlark.testing import GIB, a_node


def waiting(job: str, seq: int, *, gpus: int = 1, priority: int = 0, node: str = "node-0", **more) -> Waiting:
    return Waiting(job, job, node, Ask(gpus=gpus, **more.pop("ask", {})), priority, seq, **more)


def reasons(jobs, held=(), nodes=None, refused=None) -> dict[str, str]:
    inventory = Inventory(nodes=nodes or [a_node(gpus=2)])
    return {turn.job: turn.reason for turn in turns(jobs, held, inventory, refused)}


def test_first_in_first_out_within_a_priority():
    line = turns(
        [waiting("c", 3), waiting("a", 1), waiting("b", 2), waiting("urgent", 9, priority=5)],
        [],
        Inventory(nodes=[a_node(gpus=8)]),
    )
    assert [turn.job for turn in line] == ["urgent", "a", "b", "c"]
    assert [turn.position for turn in line] == [1, 2, 3, 4]
    assert all(turn.ready for turn in line)


def test_a_held_gpu_is_named_with_its_holder():
    found = reasons([waiting("b", 2, gpus=2)], [Held("x", "node-0", 1, 0, ("0",))])
    assert found == {"b": "GPU 0 (faked) leased by job x; 2 are needed"}
    real = [a_node(gpus=2, gpus_faked=False)]
    assert reasons([waiting("b", 2)], [Held("x", "node-0", 1, 0, ("0", "1"))], real) == {"b": "GPU 0,1 leased by job x"}
    two = [Held(job, "node-0", 1, 0, (gpu,)) for job, gpu in (("x", "1"), ("y", "0"))]
    assert reasons([waiting("b", 2, gpus=2)], two, real) == {"b": "GPU 1 leased by job x, GPU 0 leased by job y"}


def test_a_small_job_does_not_overtake_a_big_one():
    found = reasons([waiting("big", 1, gpus=2), waiting("small", 2, gpus=0)], [Held("x", "node-0", 1, 0, ("0",))])
    assert found["small"] == "waits behind job big"


def test_another_node_has_a_line_of_its_own():
    found = reasons(
        [waiting("big", 1, gpus=2), waiting("other", 2, node="node-1")],
        [Held("x", "node-0", 1, 0, ("0",))],
        [a_node(gpus=2), a_node("node-1", gpus=1)],
    )
    assert found["other"] == ""


def test_what_may_start_now_is_counted_for_those_behind():
    found = reasons([waiting("a", 1, gpus=2), waiting("b", 2, gpus=1), waiting("c", 3, gpus=1)])
    assert found["a"] == ""
    assert "next for job a" in found["b"]
    assert found["c"] == "waits behind job b"


def test_cpus_and_memory_count():
    node = a_node(cpus=4, memory=8 * GIB)
    held = [Held("x", "node-0", 3, 6 * GIB)]
    cpus = reasons([waiting("a", 1, gpus=0, ask={"cpus": 2})], held, [node])["a"]
    assert cpus == "2 CPUs wanted, 1 of 4 free on node node-0; leased by job x"
    memory = reasons([waiting("a", 1, gpus=0, ask={"memory": 4 * GIB})], held, [node])["a"]
    assert memory == "4Gi of memory wanted, 2Gi of 8Gi free on node node-0; leased by job x"


def test_nodes_that_take_no_job():
    assert reasons([waiting("a", 1)], nodes=[a_node(gpus=1, online=False)])["a"] == "node node-0 is offline"
    assert reasons([waiting("a", 1)], nodes=[a_node(gpus=1, unschedulable=True)])["a"] == "node node-0 is cordoned"
    assert reasons([waiting("a", 1, node="gone")])["a"] == "node gone is not there"


def test_the_previous_attempt_and_the_cluster_have_a_say():
    found = reasons([waiting("a", 1, ending=True), waiting("b", 2)])
    assert found == {"a": "the previous attempt is still ending", "b": "waits behind job a"}
    assert reasons([waiting("a", 1)], refused={"a": "GPU 0 is used by another user"})["a"].startswith("GPU 0 is used")


def test_half_cpus_add_up():
    held = [Held(f"x{i}", "node-0", 0.1) for i in range(9)]
    node = a_node(cpus=1)
    assert reasons([waiting("a", 1, gpus=0, ask={"cpus": 0.1})], held, [node])["a"] == ""
