from __future__ import annotations

import resource

import pytest

from rlark.host import open_files

NONE = resource.RLIM_INFINITY


@pytest.mark.parametrize(
    ("limits", "wanted"),
    [
        ((1024, 4096), (4096, 4096)),
        ((1024, 1_000_000), (open_files.ENOUGH, 1_000_000)),
        ((1024, NONE), (open_files.ENOUGH, NONE)),
        ((100_000, 1_000_000), None),
        ((NONE, NONE), None),
        ((4096, 4096), None),
    ],
)
def test_the_limit_rises_as_far_as_it_may_and_never_falls(monkeypatch, limits, wanted):
    set_to = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: set_to.append(new))
    open_files.allow_many()
    assert set_to == ([wanted] if wanted else [])
