from __future__ import annotations

import pytest

import rlark.runtime
from rlark.runtime import component


@pytest.mark.parametrize(
    "name", ["Actor", "Context", "Decision", "DeviceUse", "Env", "Program", "Rollout", "Run", "Shape", "Step"]
)
def test_an_engines_author_finds_the_components(name: str):
    assert getattr(rlark.runtime, name) is getattr(component, name)


def test_the_rest_of_what_an_engine_needs():
    from rlark.runtime import Trajectory, load_actor

    assert (Trajectory.__name__, load_actor.__name__) == ("Trajectory", "load_actor")


def test_nothing_else_is_there():
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        rlark.runtime.nonsense  # noqa: B018
