"""What must divide what: both numbers are named, and the nearest that work."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlark.plan.node import Node
from rlark.plan.placement import resolve
from rlark.plan.rules.divisibility import check_divisibility
from rlark.plan.rules.numbers import Numbers


def config(**values):
    """A tree from dotted names, `env__train__total_num_envs` for env.train.total_num_envs."""
    tree = {}
    for name, value in values.items():
        *path, last = name.split("__")
        branch = tree
        for key in path:
            branch = branch.setdefault(key, {})
        branch[last] = value
    return tree


def check(values, *, actor=1, rollout=1, env=1, ours=True, defaults=None):
    rules = {name: f"0:0-{n - 1}" for name, n in {"actor": actor, "rollout": rollout, "env": env}.items()}
    placement, _ = resolve({"component_placement": rules}, Node(name="n", cpus=99))
    assert placement is not None
    settled = None if defaults is None else config(**(defaults | values))
    written = config(**values)
    return check_divisibility(Numbers(written if settled is None else settled, written, placement, "config", ours))


def only(values, **ranks):
    (finding,) = check(values, **ranks)
    return finding


SOUND = {
    "env__train__total_num_envs": 48,
    "env__train__rollout_steps": 32,
    "env__train__group_size": 2,
    "rollout__pipeline_stage_num": 2,
    "actor__global_batch_size": 384,
    "actor__micro_batch_size": 32,
    "actor__model__num_action_chunks": 4,
    "runner__save_interval": 20,
    "runner__val_check_interval": 10,
}


def test_numbers_that_all_divide():
    assert check(SOUND, actor=2, rollout=3, env=4) == []


ROWS = [
    # code, what is set, ranks, path, both numbers in the message, values in the hint
    ("RL170", {"env__train__total_num_envs": 0}, {}, "env.train.total_num_envs", ["0"], ["1"]),
    ("RL171", {"env__train__total_num_envs": 10}, {"env": 4}, "env.train.total_num_envs", ["10", "4"], ["8", "12"]),
    (
        "RL172",
        {"env__train__total_num_envs": 12, "rollout__pipeline_stage_num": 2},
        {"env": 4},
        "env.train.total_num_envs",
        ["3", "2"],
        ["8", "16"],
    ),
    (
        "RL173",
        {"env__train__total_num_envs": 4, "rollout__pipeline_stage_num": 2},
        {"env": 4},
        "env.train.total_num_envs",
        ["1", "2"],
        ["8"],
    ),
    (
        "RL174",
        {"env__train__total_num_envs": 64, "env__train__group_size": 5},
        {"env": 4},
        "env.train.total_num_envs",
        ["16", "5"],
        ["60", "80"],
    ),
    (
        "RL175",
        {"env__train__max_steps_per_rollout_epoch": 50, "actor__model__num_action_chunks": 4},
        {},
        "env.train.max_steps_per_rollout_epoch",
        ["50", "4"],
        ["48", "52"],
    ),
    (
        "RL175",
        {"env__train__rollout_steps": 50, "actor__model__num_action_chunks": 4},
        {},
        "env.train.rollout_steps",
        ["50", "4"],
        ["48", "52"],
    ),
    (
        "RL176",
        {"env__train__total_num_envs": 9},
        {"env": 3, "rollout": 2},
        "env.train.total_num_envs",
        ["9", "2"],
        ["6", "12"],
    ),
    (
        "RL177",
        {"actor__global_batch_size": 100, "actor__micro_batch_size": 16},
        {"actor": 2},
        "actor.global_batch_size",
        ["100", "16", "2"],
        ["96", "128"],
    ),
    (
        "RL178",
        {
            "env__train__total_num_envs": 64,
            "env__train__rollout_steps": 64,
            "actor__global_batch_size": 768,
            "actor__micro_batch_size": 64,
        },
        {},
        "actor.global_batch_size",
        ["4096", "768"],
        ["512", "1024"],
    ),
    (
        "RL179",
        {"runner__save_interval": 25, "runner__val_check_interval": 10},
        {},
        "runner.save_interval",
        ["25", "10"],
        ["20", "30"],
    ),
    (
        "RL180",
        {"runner__enable_decoupled_mode": True},
        {"env": 2, "rollout": 3},
        "runner.enable_decoupled_mode",
        ["2", "3"],
        ["3", "2"],
    ),
]


@pytest.mark.parametrize(("code", "values", "ranks", "path", "numbers", "nearest"), ROWS, ids=lambda row: str(row)[:24])
def test_numbers_that_do_not_divide(code, values, ranks, path, numbers, nearest):
    finding = only(values, **ranks)
    assert (finding.code, finding.path) == (code, f"config.{path}")
    assert all(number in finding.message for number in numbers)
    assert all(number in finding.hint for number in nearest)
    assert finding.expected


def test_environments_that_an_engines_actors_cannot_share():
    values = {"env__train__total_num_envs": 6}
    finding = only(values, actor=4, env=2)
    assert (finding.code, finding.path) == ("RL181", "config.env.train.total_num_envs")
    assert finding.message == "6 environments cannot be shared evenly by 4 Actor ranks"
    assert finding.hint.startswith("use 4 or 8:")
    assert check(values, actor=4, env=2, ours=False) == []  # RLinf counts samples there


def test_the_engines_defaults_count_and_are_named():
    defaults = {"env__train__total_num_envs": 8, "env__train__rollout_steps": 16}
    assert check({}, env=3) == []
    finding = only({}, env=3, defaults=defaults)
    assert (finding.code, finding.path, finding.actual) == ("RL171", "config.env.train.total_num_envs", "8")
    assert finding.message == (
        "8 environments cannot be shared evenly by 3 Env ranks; env.train.total_num_envs 8 is the engine's default"
    )
    assert check({"env__train__total_num_envs": 9}, env=3, defaults=defaults) == []
    assert "default" not in only({"env__train__total_num_envs": 10}, env=3, defaults=defaults).message


def test_defaults_that_another_number_rests_on_are_named():
    defaults = {"env__train__total_num_envs": 8, "env__train__rollout_steps": 16, "actor__micro_batch_size": 1}
    finding = only({"actor__global_batch_size": 100}, defaults=defaults)
    assert finding.code == "RL178"
    assert finding.message.endswith(
        "; env.train.total_num_envs 8 and env.train.rollout_steps 16 are the engine's defaults"
    )
    written = {"actor__global_batch_size": 100, "env__train__rollout_steps": 16}
    assert only(written, defaults=defaults).message.endswith("; env.train.total_num_envs 8 is the engine's default")


def test_evaluation_is_checked_when_there_is_one():
    wrong = {"env__eval__total_num_envs": 5}
    assert check(wrong, env=2) == []
    assert only(wrong | {"runner__val_check_interval": 10}, env=2).path == "config.env.eval.total_num_envs"
    assert only(wrong | {"runner__only_eval": True}, env=2).code == "RL171"
    assert only(wrong | {"runner__task_type": "embodied_eval"}, env=2).code == "RL171"


def test_training_is_not_checked_where_only_evaluation_runs():
    assert check({"env__train__total_num_envs": 5, "runner__only_eval": True}, env=2) == []


def test_other_kinds_of_task_have_other_rules():
    assert check({"env__train__total_num_envs": 5, "runner__task_type": "reasoning"}, env=2) == []
    robots = {"runner__task_type": "embodied", "rollout__backend": "huggingface"}
    assert only({"env__train__total_num_envs": 5} | robots, env=2).code == "RL171"


def test_without_a_placement_only_pure_numbers_are_checked():
    wrong = config(
        env__train__total_num_envs=5,
        env__train__rollout_steps=5,
        actor__model__num_action_chunks=2,
        actor__global_batch_size=7,
        actor__micro_batch_size=2,
    )
    assert [finding.code for finding in check_divisibility(Numbers(wrong, wrong, None, "", True))] == ["RL175"]


def test_a_loss_that_draws_from_a_buffer_need_not_use_up_the_rollout():
    values = {"env__train__total_num_envs": 64, "env__train__rollout_steps": 1, "actor__global_batch_size": 512}
    assert only(values).code == "RL178"
    assert check(values | {"algorithm__loss_type": "embodied_sac"}) == []


def test_the_rollout_counts_epochs_and_chunks():
    values = {
        "env__train__total_num_envs": 8,
        "env__train__rollout_steps": 16,
        "actor__model__num_action_chunks": 4,
        "actor__global_batch_size": 96,
    }
    assert only(values).code == "RL178"  # 8 x 16 / 4 = 32 samples
    assert check(values | {"env__train__rollout_epoch": 3}) == []


def test_a_rollout_that_no_batch_divides_asks_for_other_steps():
    values = {
        "env__train__total_num_envs": 7,
        "env__train__rollout_steps": 3,
        "actor__global_batch_size": 16,
        "actor__micro_batch_size": 16,
    }
    assert only(values).hint == "make steps times environments a multiple of 16"


def test_megatron_has_batches_of_its_own():
    values = {"actor__global_batch_size": 100, "actor__micro_batch_size": 16}
    assert check(values | {"actor__training_backend": "megatron"}) == []
    assert only(values | {"actor__training_backend": "fsdp"}).code == "RL177"


def test_saving_never_is_no_fault():
    assert check({"runner__save_interval": -1, "runner__val_check_interval": 10}) == []
    assert check({"runner__save_interval": 5, "runner__val_check_interval": -1}) == []


@pytest.mark.parametrize("value", ["64", 6.5, None, True, {"a": 1}])
def test_what_is_no_integer_is_left_to_the_engines_model(value):
    assert check({"env__train__total_num_envs": value, "actor__global_batch_size": value}, env=3) == []


small = st.integers(1, 6)


@given(st.integers(1, 400), small, small, small, small)
def test_the_nearest_environments_really_work(total, ranks, rollouts, stages, group):
    values = {
        "env__train__total_num_envs": total,
        "env__train__group_size": group,
        "rollout__pipeline_stage_num": stages,
    }
    for finding in check(values, rollout=rollouts, env=ranks):
        numbers = finding.hint.removeprefix("use ").split(":")[0].split(" or ")
        for number in numbers:
            assert check(values | {"env__train__total_num_envs": int(number)}, rollout=rollouts, env=ranks) == []


@given(st.integers(1, 600), small, small, st.integers(1, 40), st.integers(1, 40))
def test_the_nearest_batches_really_work(batch, micro, actors, envs, steps):
    values = {
        "env__train__total_num_envs": envs,
        "env__train__rollout_steps": steps,
        "actor__global_batch_size": batch,
        "actor__micro_batch_size": micro,
    }
    for finding in check(values, actor=actors, ours=False):
        if not finding.hint.startswith("use "):
            assert (envs * steps) % (micro * actors)
            continue
        for number in finding.hint.removeprefix("use ").split(" or "):
            found = check(values | {"actor__global_batch_size": int(number)}, actor=actors, ours=False)
            assert finding.code not in [again.code for again in found]
            assert found == [] or (envs * steps) % (micro * actors)


@given(st.integers(1, 60), small, st.integers(1, 40), st.integers(1, 300))
def test_environments_that_rlinf_leaves_out_give_no_samples(envs, stages, steps, batch):
    values = {
        "env__train__total_num_envs": envs,
        "env__train__rollout_steps": steps,
        "rollout__pipeline_stage_num": stages,
        "actor__global_batch_size": batch,
    }
    used = envs // stages * stages
    stops = bool(used and used * steps % batch)
    assert ("RL178" in [finding.code for finding in check(values, ours=False)]) == stops
