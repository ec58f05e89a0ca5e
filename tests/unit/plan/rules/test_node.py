"""Why no node could be chosen, in words that fit the number of nodes."""

from __future__ import annotations

import pytest

from rlark.plan.node import Inventory, Node, default_labels
from rlark.plan.rules.node import choose_node
from rlark.spec.job import Job


def a_job(selector: dict[str, str]) -> Job:
    return Job.model_validate(
        {
            "apiVersion": "rlinf.io/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "demo"},
            "spec": {"tasks": [{"name": "worker", "head": True, "nodeSelector": selector}]},
        }
    )


def nodes(*names: str, **more: object) -> Inventory:
    return Inventory(nodes=[Node(name=name, labels=default_labels(name), **more) for name in names])


@pytest.mark.parametrize(
    ("selector", "inventory", "code", "message"),
    [
        ({"team": "x"}, nodes("a"), "RL201", "the selector does not hit the one node there is: a"),
        ({"team": "x"}, nodes("a", "b"), "RL201", "the selector hits none of the 2 nodes: a, b"),
        ({}, nodes("a", "b"), "RL204", "no selector is given, which means all nodes, and 2 are usable: a, b"),
        ({"rlark.io/node-category": "cloud"}, nodes("a", "b"), "RL202", "the selector hits 2 usable nodes: a, b;"),
        ({}, nodes("a", online=False), "RL203", "the selector hits no usable node, only a (offline)"),
        ({}, nodes(), "RL200", "there is no node at all"),
    ],
)
def test_why_there_is_no_node(selector, inventory, code, message):
    chosen, (finding,) = choose_node(a_job(selector), inventory)
    assert chosen is None
    assert (finding.code, finding.curable) == (code, True)
    assert finding.message.startswith(message)
    assert "1 Worker" in str(finding.hint)


def test_the_node_that_is_hit():
    inventory = nodes("a", "b")
    assert choose_node(a_job({"kubernetes.io/hostname": "b,c"}), inventory) == (inventory.nodes[1], [])
