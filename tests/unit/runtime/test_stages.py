"""Placed runs of every split against a plain loop, environment by environment."""

from __future__ import annotations

import numpy as np
import pytest

from rlark.errors import UsageError

PROGRAM = "counting_engine:PROGRAM"


def by_hand(iterations: int) -> dict[int, list[dict]]:
    """What each environment goes through: environment -> its steps, of the last iteration."""
    from counting_engine import CUT, NUM_ENVS, STEPS

    told = {}
    for env in range(NUM_ENVS):
        age, steps, rows = env % 3, 0, []
        for _ in range(iterations * STEPS):
            seen = [env, age, steps]
            steps, age = steps + 1, age + 1
            odd = env % 2 == 1
            ended = age >= (3 + env % 3 if odd else CUT)
            total = env + age + steps
            row = {"observation": seen, "action": [sum(seen)], "value": 3 * sum(seen), "reward": total}
            row |= {"terminated": ended and odd, "truncated": ended and not odd}
            row["bootstrap"] = 3 * total if row["truncated"] else 0
            age = 0 if ended else age
            rows.append(row)
        told[env] = [*rows[-STEPS:], {"last_value": 3 * (env + age + steps)}]
    return told


@pytest.mark.parametrize(
    ("stages", "ranks"),
    [
        (1, (1, 1, 1)),
        (1, (1, 2, 4)),
        (2, (1, 1, 1)),
        (2, (1, 2, 1)),
        (2, (1, 1, 4)),
        (2, (1, 4, 2)),
        (4, (1, 1, 1)),
        (4, (1, 2, 2)),
        (8, (1, 1, 1)),
    ],
)
def test_every_split_gives_each_environment_what_a_plain_loop_does(placed, assign, stages, ranks):
    assignment = assign(ranks=ranks, rollout={"pipeline_stage_num": stages})
    with placed(assignment, program=PROGRAM) as (trainer, _):
        first = trainer.iterate()
        trainer.iterate()
        state = trainer.state()
    assert first == {"episodes": ranks[2] * stages, "steps": 7.0, "updates": 1.0}
    assert len(state["env"]) == ranks[2] * stages
    given, expected = state["actor"][0]["given"], by_hand(2)
    ids = given["observation"][0, :, 0].astype(int)
    assert sorted(ids) == list(range(8))
    for column, env in enumerate(ids):
        for t, row in enumerate(expected[env][:-1]):
            for name, value in row.items():
                assert np.array_equal(given[name][t, column], value), (name, t, env)
        assert given["last_value"][column] == expected[env][-1]["last_value"]
    assert (given["log_prob"] == -1).all()  # decided with the weights of the first update
    assert (state["observation"][:, 0] == ids).all()


@pytest.mark.parametrize(("stages", "ranks"), [(2, (1, 1, 1)), (2, (1, 2, 2))])
def test_a_restored_run_with_stages_goes_on(placed, assign, stages, ranks):
    assignment = assign(ranks=ranks, rollout={"pipeline_stage_num": stages})
    with placed(assignment, program=PROGRAM) as (trainer, _):
        trainer.iterate()
        state = trainer.state()
        trainer.iterate()
        expected = trainer.state()
    with placed(assignment, program=PROGRAM) as (trainer, _):
        trainer.restore(state)
        trainer.iterate()
        got = trainer.state()
    for name, array in expected["actor"][0]["given"].items():
        assert np.array_equal(got["actor"][0]["given"][name], array), name
    assert np.array_equal(got["observation"], expected["observation"])


@pytest.mark.parametrize(
    ("stages", "ranks", "said"),
    [
        (3, (1, 1, 1), "rollout.pipeline_stage_num: 8 environments cannot be shared evenly by 3 pipeline stages"),
        (4, (1, 1, 4), "env: 2 environments cannot be shared evenly by 4 ranks (those of one of 4 pipeline stages)"),
        (1, (3, 1, 1), "actor: 8 environments cannot be shared evenly by 3 ranks"),
    ],
)
def test_what_cannot_be_shared_is_refused_before_anything_is_built(placed, assign, stages, ranks, said):
    assignment = assign(ranks=ranks, rollout={"pipeline_stage_num": stages})
    with pytest.raises(UsageError) as refused, placed(assignment, program=PROGRAM):
        pass
    assert refused.value.message == said
