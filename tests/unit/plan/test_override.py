"""Hydra overrides on the command lines of a run script."""

from __future__ import annotations

import pytest

from rlark.plan.override import at_override, for_configuration, overrides_of
from rlark.spec.finding import Finding

SCRIPT = """\
cd /workspace/RLinf  # cluster.num_nodes=9
export NODES=2
python examples/train.py --config-name maniskill_ppo_mlp \\
    cluster.num_nodes=2 \\
    'cluster.component_placement.actor=0-3,5' "+cluster.colour=red" runner.max_steps=3
cat <<EOF > note
python train.py cluster.num_nodes=8
EOF
make a.b=c && echo cluster.num_nodes=4
"""


def told(script, *sections):
    return [(one.text, one.line, one.column) for one in overrides_of(script, sections)]


def test_overrides_are_found_with_their_places_and_comments_and_documents_are_not():
    assert told(SCRIPT) == [
        ("cluster.num_nodes=2", 4, 5),
        ("cluster.component_placement.actor=0-3,5", 5, 5),
        ("+cluster.colour=red", 5, 47),
    ]
    assert [one.keys for one in overrides_of(SCRIPT)][1:] == [
        ("cluster", "component_placement", "actor"),
        ("cluster", "colour"),
    ]
    assert {one.config for one in overrides_of(SCRIPT)} == {"maniskill_ppo_mlp"}


def test_other_sections_are_overrides_where_a_configuration_is_named():
    assert ("runner.max_steps=3", 5, 69) in told(SCRIPT, "runner")
    assert told("python train.py runner.max_steps=3", "runner") == []
    assert told("python train.py -cn x runner.max_steps=3", "runner") == [("runner.max_steps=3", 1, 23)]
    assert told("python train.py -cn x other.max_steps=3", "runner") == []


@pytest.mark.parametrize(
    "script",
    [
        "python train.py cluster.num_nodes=$NODES",
        "python train.py cluster.num_nodes=${NODES:-1}",
        "python train.py cluster.num_nodes=`nodes`",
        "cluster.num_nodes=2",
        "# python train.py cluster.num_nodes=2",
        "printf '%s' cluster.num_nodes=2",
        "python train.py --cluster.num_nodes=2",
        "python train.py xcluster.num_nodes=2",
    ],
)
def test_what_only_the_shell_knows_and_what_is_none_is_left_out(script):
    assert overrides_of(script) == []


@pytest.mark.parametrize("option", ["--config-name walk", "--config-name=walk", "-cn walk", "-cn=walk.yaml"])
def test_the_configuration_of_a_command_line(option):
    (found,) = overrides_of(f"python train.py {option} cluster.num_nodes=2")
    assert for_configuration([found], ["/configs/walk.yaml"]) == [found]
    assert for_configuration([found], ["run"]) == []
    assert for_configuration([found], ["", ""]) == [found]
    assert for_configuration(overrides_of("python train.py cluster.num_nodes=2"), ["run"]) != []


def test_a_finding_is_told_at_the_last_override_that_made_it_so():
    found = overrides_of("run cluster.num_nodes=3\nrun cluster.num_nodes=2\n")
    about = Finding(code="RL151", path="c.cluster.num_nodes", message="num_nodes is 2")
    said = at_override(about, found, "c")
    assert (said.path, said.inside) == ("spec.tasks[0].runScript", (2, 5))
    assert said.message == "the override cluster.num_nodes=2: num_nodes is 2"
    elsewhere = Finding(code="RL151", path="c.env", message="m")
    assert at_override(elsewhere, found, "c") == elsewhere
    assert at_override(about.model_copy(update={"file": "a.yaml"}), found, "c").file == "a.yaml"
    numbered = Finding(code="RL452", path="o[1]", message="m")
    assert at_override(numbered, found, "o").inside == (2, 5)
