"""Language models that are split over GPUs: the sizes that are proposed work."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlark.plan.node import Node
from rlark.plan.placement import resolve
from rlark.plan.rules.numbers import Numbers
from rlark.plan.rules.rlinf_modes import check_modes
from rlark.spec.finding import Finding


def check(gpus: int, actor: int, rollout: int) -> list[Finding]:
    """Actor and Rollout on all GPUs of a node, each split over so many."""
    section = {"num_nodes": 1, "component_placement": {"actor,rollout,reward": "all"}}
    config = {
        "cluster": section,
        "runner": {"task_type": "reasoning"},
        "actor": {"model": {"tensor_model_parallel_size": actor}},
        "rollout": {"tensor_parallel_size": rollout},
    }
    placement, _ = resolve(section, Node(name="n", gpus=gpus))
    assert placement is not None
    keys = dict.fromkeys(("actor", "rollout", "reward"), "actor,rollout,reward")
    return list(check_modes(Numbers(config, config, placement, "", ours=False), keys))


def test_of_six_gpus_four_leave_two():
    (found,) = check(6, 4, 2)
    assert (found.code, found.path, found.hint) == ("RL148", "rollout.tensor_parallel_size", "use 6")


@given(st.integers(1, 16), st.integers(1, 16), st.integers(1, 16))
def test_every_size_that_is_proposed_works(gpus, actor, rollout):
    for found in check(gpus, actor, rollout):
        if found.path == "rollout.tensor_parallel_size" and max(actor, rollout) <= gpus:
            for size in str(found.hint).removeprefix("use ").split(" or "):
                assert check(gpus, actor, int(size)) == []
