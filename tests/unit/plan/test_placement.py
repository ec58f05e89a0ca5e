"""From `component_placement` to ranks."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlark.plan.node import Node
from rlark.plan.placement import components, resolve
from rlark.plan.plan import Plan
from rlark.spec.finding import errors_of, exit_code
from rlark.spec.scalar import Unquoted


def place(component_placement, gpus=8, **more):
    cpus = more.pop("cpus", 64)
    cluster = {"component_placement": component_placement, "node_groups": more.pop("node_groups", None)}
    return resolve(cluster, Node(name="n", gpus=gpus, cpus=cpus), **more)


def codes(component_placement, gpus=8, **more):
    return [finding.code for finding in place(component_placement, gpus, **more)[1]]


def only(component_placement, gpus=8, **more):
    placement, (finding,) = place(component_placement, gpus, **more)
    assert (placement is None) == (finding.severity == "error")
    return finding


def test_a_rank_sees_its_own_gpus_and_knows_its_place():
    placement, found = place({"actor": "0-3:0-1", "env": 3}, 4)
    assert found == []
    assert [(r.rank, r.node, r.gpus, r.local_rank) for r in placement.ranks["actor"]] == [
        (0, 0, [0, 1], 0),
        (1, 0, [2, 3], 1),
    ]
    assert placement.world_size("env") == 1
    assert placement.world_size("reward") == 0
    assert placement.gpus("actor") == {0, 1, 2, 3}
    assert placement.gpus_required == 4


def test_names_that_share_a_key_are_placed_alike():
    placement, _ = place({"actor, rollout,": "0-1"}, 2)
    assert placement.ranks["actor"] == placement.ranks["rollout"]
    assert list(placement.ranks) == ["actor", "rollout"]


@pytest.mark.parametrize(
    ("rules", "gpus", "together"),
    [
        ({"actor,rollout,env": 0}, 0, True),
        ({"actor": 1, "rollout,env": "1"}, 2, True),
        ({"actor": "0-1:0", "env": "all:0"}, 2, True),
        ({"actor,rollout,env": "all"}, 2, False),
        ({"actor": 0, "env": 1}, 2, False),
        ({"actor": 0, "rollout": 0, "env": "0:0-1"}, 0, False),
        ({"actor": 0, "env": {"node_group": "node", "placement": 0}}, 1, False),
    ],
)
def test_components_with_one_rank_on_one_resource_are_together(rules, gpus, together):
    assert place(rules, gpus)[0].colocated is together


def test_what_a_rank_was_given_is_kept_beside_what_it_sees():
    placement, _ = place({"agent": {"node_group": "node", "placement": "0:0-1"}, "actor": "0"}, 2)
    assert [rank.gpus for rank in placement.ranks["agent"]] == [[0, 1], [0, 1]]
    assert {holding.kind for holding in placement.holdings["agent"]} == {"node"}
    assert placement.gpus("agent") == frozenset()
    assert placement.gpus_required == 1


def test_a_placement_fits_into_a_plan_and_comes_back():
    placement, _ = place({"actor": "0-1", "env": "0-1:0-3"}, 2)
    plan = Plan(job="j", node="n", placement=placement.ranks)
    assert Plan.model_validate_json(plan.model_dump_json(by_alias=True)) == plan
    assert plan.world_size("env") == 4


def test_a_rank_beyond_the_node_says_what_the_node_has_and_what_helps():
    finding = only({"actor": "0-1,4"}, 4)
    assert (finding.code, finding.path) == ("RL119", "cluster.component_placement.actor")
    assert finding.message == "actor: this node has GPUs 0-3; 4 is out of range\n    0-1,4\n        ^"
    assert finding.hint == "request gpu: 5 or place on 0-3"
    assert (finding.expected, finding.actual) == ("0-3", "4")
    assert finding.curable
    assert exit_code([finding]) == 4


@pytest.mark.parametrize(
    ("rules", "gpus", "more", "message", "hint", "curable"),
    [
        ({"a": "0-7"}, 0, {}, "no GPUs", "write 0:0-7 for 8 processes, or use a node with 8 GPUs", True),
        ({"a": 3}, 0, {}, "no GPUs", "write 0, or use a node with 4 GPUs", True),
        ({"a": "2-3"}, 2, {}, "has GPUs 0-1; 2-3 are out of range", "request gpu: 4 or place on 0-1", True),
        ({"a": 1}, 1, {}, "this node has GPU 0; 1 is", "request gpu: 2 or place on 0", True),
        ({"a": 4}, 8, {"requested": 2}, "this Job asks for gpu: 2", "request gpu: 5 or place on 0-1", False),
        ({"a": 1}, 8, {"requested": 0}, "this Job asks for gpu: 0", "write 0", False),
        (
            {"a": {"node_group": "node", "placement": "0-3"}},
            8,
            {},
            "there is only node 0",
            "write 0:0-3 for 4 processes",
            False,
        ),
    ],
)
def test_numbers_that_are_not_there(rules, gpus, more, message, hint, curable):
    finding = only(rules, gpus, **more)
    assert finding.code == "RL119"
    assert message in finding.message
    assert finding.hint.startswith(hint)
    assert finding.curable is curable


def test_the_requested_gpus_are_the_jobs():
    placement, _ = place({"actor": "all", "agent": {"node_group": "node", "placement": 0}}, 8, requested=2)
    assert placement.world_size("actor") == 2
    assert placement.ranks["agent"][0].gpus == [0, 1]


def test_an_integer_that_may_have_been_base_60_says_so():
    assert "if the file says 1:30, quote it" in only({"actor": 90}).hint
    assert "quote" not in only({"actor": "90"}).hint
    assert "quote" not in only({"actor": 9}).hint


def test_all_errors_come_at_once_with_their_components():
    _, found = place({"actor": "0-8", "rollout": "2-0", "env, reward": None, "critic": {"plcement": 0}})
    assert [
        (finding.code, finding.path.removeprefix("cluster.component_placement"), finding.message.split(":")[0])
        for finding in found
    ] == [
        ("RL119", ".actor", "actor"),
        ("RL107", ".rollout", "rollout"),
        ("RL118", '["env, reward"]', "env, reward"),
        ("RL114", ".critic.plcement", "critic"),
        ("RL115", ".critic", "critic"),
    ]
    assert exit_code(found) == 3


@pytest.mark.parametrize("value", [None, True, 1.5, [0, 1]])
def test_a_value_that_is_no_text_is_refused(value):
    finding = only({"actor": value})
    assert finding.code == "RL118"
    assert "^" in finding.message
    assert finding.hint


def test_a_list_is_shown_as_it_should_be_written():
    assert only({"actor": [0, 1]}).hint == 'write "0,1" instead of a list'


def test_an_unquoted_surprise_is_refused_and_a_quoted_one_read():
    finding = only({"rollout": Unquoted("1:0", 60)}, 2)
    assert finding.code == "RL117"
    assert "RLinf's loader reads this as 60" in finding.message
    assert finding.hint.startswith('quote it: "1:0"')
    assert place({"rollout": "1:0"}, 2)[0].ranks["rollout"][0].gpus == [1]


@pytest.mark.parametrize("cluster", [{}, {"component_placement": None}, {"component_placement": {}}])
def test_a_section_that_places_nothing_is_an_error(cluster):
    placement, (finding,) = resolve(cluster, Node(name="n"))
    assert placement is None
    assert finding.code == "RL100"


def test_a_misspelt_section_is_named():
    _, (finding,) = resolve({"componet_placement": {"actor": 0}}, Node(name="n"), path="x.cluster")
    assert (finding.code, finding.path) == ("RL100", "x.cluster.componet_placement")
    assert finding.hint == "did you mean component_placement?"


def test_an_entry_without_a_name_is_an_error():
    assert codes({" , ": 0, "actor": 0}) == ["RL100"]


def test_a_component_is_placed_once():
    assert only({"actor,rollout": "0-3", "rollout": "0-3"}).path == "cluster.component_placement.rollout"
    assert codes({"actor,actor": 0}, 1) == ["RL112"]


def test_an_unknown_group_names_the_near_one():
    groups = [{"label": "train", "node_ranks": 0}]
    finding = only({"actor": {"node_group": "trian", "placement": 0}}, node_groups=groups)
    assert (finding.code, finding.path) == ("RL113", "cluster.component_placement.actor.node_group")
    assert finding.hint == "did you mean train?"
    assert codes({"actor": {"node_group": ["train"], "placement": "0-7"}}, node_groups=groups) == []


def test_unknown_keys_beside_placement_are_refused():
    finding = only({"actor": {"placement": 0, "node_grup": "node"}}, 1)
    assert (finding.code, finding.hint) == ("RL114", "did you mean node_group?")


def test_a_process_holds_resources_of_one_kind():
    groups = [
        {"label": "gpu", "node_ranks": 0},
        {
            "label": "arm",
            "node_ranks": 0,
            "hardware": {"type": "Franka", "configs": [{"node_rank": 0, "robot_ip": "10.0.0.1"}]},
        },
    ]
    assert codes({"h": {"node_group": "gpu,arm", "placement": "0-1:0"}}, 1, node_groups=groups) == ["RL116"]
    assert codes({"h": {"node_group": "gpu,gpu", "placement": "0-1:0"}}, 1, node_groups=groups) == ["RL116"]
    assert codes({"h": {"node_group": "gpu,node", "placement": "0"}}, 1, node_groups=groups) == ["RL116"]
    placement, found = place({"h": {"node_group": "gpu, arm", "placement": "0-1"}}, 1, node_groups=groups)
    assert found == []
    assert [(h.kind, h.numbers, h.group) for h in placement.holdings["h"]] == [
        ("GPU", (0,), "gpu"),
        ("Franka", (0,), "arm"),
    ]


def test_too_many_processes_are_refused_even_when_they_fit():
    assert "RL104" in codes({"a": "0:0-9999,1:10000-19999"}, 2)


def test_unused_gpus_below_the_highest_are_a_warning():
    finding = only({"actor": 0, "env": "3"}, 8)
    assert (finding.code, finding.severity) == ("RL131", "warning")
    assert "no component uses GPUs 1, 2" in finding.message
    assert codes({"actor": "0-2", "env": 3}, 8) == []


def test_more_processes_than_cores_are_a_warning():
    finding = only({"actor,rollout": 0, "env": "0:0-1"}, 0, cpus=2)
    assert (finding.code, finding.severity) == ("RL132", "warning")
    assert finding.message == "4 processes share 2 CPU cores"
    assert codes({"actor,rollout": 0, "env": "0:0-1"}, 0, cpus=4) == []
    assert codes({"actor,rollout,env": 0}, 0, cpus=2) == []


def test_without_a_node_only_what_is_wrong_everywhere_is_found():
    cluster = {"component_placement": {"actor": "0-99", "env": "3-0", "rollout": "all:0-6"}}
    placement, found = resolve(cluster, None)
    assert placement is None
    assert [finding.code for finding in found] == ["RL107"]
    assert resolve({"component_placement": {"actor": "all"}}, None) == (None, [])


def test_components_are_known_even_where_nothing_resolves():
    assert components({"component_placement": {"actor, env": "nonsense", "rollout": 0}}) == {
        "actor": "actor, env",
        "env": "actor, env",
        "rollout": "rollout",
    }
    assert components({}) == {}


@given(st.integers(1, 16), st.sampled_from([1, 2, 3, 4]))
def test_all_shares_the_node_without_gap_or_overlap(gpus, share):
    placement, found = place({"actor": "all", "env": f"all:0-{gpus * share - 1}"}, gpus)
    assert errors_of(found) == []
    assert [rank.gpus for rank in placement.ranks["actor"]] == [[gpu] for gpu in range(gpus)]
    assert [rank.gpus[0] for rank in placement.ranks["env"]] == [gpu for gpu in range(gpus) for _ in range(share)]
    assert [rank.rank for rank in placement.ranks["env"]] == list(range(gpus * share))


@given(st.text(max_size=12), st.integers(0, 8))
def test_any_text_gives_a_placement_or_a_reason(text, gpus):
    placement, found = place({"actor": text}, gpus)
    assert (placement is None) == bool(errors_of(found))


def test_a_thousand_ranks_resolve_in_milliseconds():
    def once():
        start = time.perf_counter()
        placement, _ = place({"actor,rollout": "0-7", "env": "0-7:0-983"}, cpus=2000)
        assert sum(map(len, placement.ranks.values())) == 1000
        return time.perf_counter() - start

    assert min(once() for _ in range(20)) < 0.005
