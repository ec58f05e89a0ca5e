from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlark.spec.composer import Reading, compose_file
from rlark.spec.emit import emit
from rlark.spec.override import NotPlain, apply_plain

DATA: dict[str, Any] = {
    "algorithm": {"seed": 1, "lr": 0.5, "name": "ppo", "on": True, "none": None, "dims": [64], "inner": {"x": 1}},
    "runner": {"epochs": 3},
}
KEYS = [
    "algorithm.seed",
    "algorithm.lr",
    "algorithm.name",
    "algorithm.on",
    "algorithm.none",
    "algorithm.inner.x",
    "runner.epochs",
]
WORDS = [
    "true",
    "false",
    "True",
    "null",
    "on",
    "yes",
    "nan",
    "inf",
    "auto",
    "starter-ppo",
    "a_b",
    "x1",
    "E",
    "e5",
    "0x1f",
]
VALUES = (
    st.integers(-(10**18), 10**18).map(str)
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.sampled_from(
        [*WORDS, "007", "1_000", "1e5", "1e-05", "-1.5", "1.", ".5", "+3", "-x", "a-1", "a.b", "1-2", "--", "-"]
    )
    | st.text(st.sampled_from("aeE019.-+_"), min_size=1, max_size=6)
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(KEYS), VALUES), min_size=1, max_size=4))
def test_a_plain_override_means_what_it_means_to_hydra(tmp_path_factory, pairs):
    overrides = [f"{key}={value}" for key, value in pairs]
    try:
        ours = apply_plain(DATA, overrides)
    except NotPlain:
        return
    file = tmp_path_factory.mktemp("config") / "base.yaml"
    file.write_text(emit(DATA))
    hydras = compose_file(file, overrides, Reading(), lenient=False)
    assert ours == hydras
    assert [type(ours["algorithm"][key]) for key in DATA["algorithm"]] == [
        type(hydras["algorithm"][key]) for key in DATA["algorithm"]
    ]


def test_the_given_configuration_is_not_changed():
    assert apply_plain(DATA, ["algorithm.inner.x=5", "algorithm.inner.x=6"])["algorithm"]["inner"] == {"x": 6}
    assert DATA["algorithm"]["inner"] == {"x": 1}


@pytest.mark.parametrize(
    "override",
    [
        "algorithm.new=1",
        "algorithm.dims=1",
        "algorithm.inner=1",
        "algorithm.seed.x=1",
        "+algorithm.seed=1",
        "~algorithm.seed",
        "algorithm=1",
        "model=small",
        "algorithm.seed=",
        "algorithm.seed=[1]",
        "algorithm.seed=1,2",
        "algorithm.seed='1'",
        "algorithm.seed=${runner.epochs}",
        "algorithm.seed=007",
        "algorithm.seed=nan",
        "algorithm.seed = 1",
        "a/b.c=1",
    ],
)
def test_everything_else_is_hydras(override):
    with pytest.raises(NotPlain):
        apply_plain(DATA, [override])
