from __future__ import annotations

import pytest

from rlark.runtime.columns import Link, columns, peers


def test_environments_are_shared_in_consecutive_blocks():
    assert [list(columns(6, rank, 3)) for rank in range(3)] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(("num_envs", "ranks"), [(7, 2), (2, 4), (0, 1)])
def test_environments_that_cannot_be_shared_evenly_are_refused(num_envs, ranks):
    with pytest.raises(ValueError, match=f"{num_envs} environments cannot be shared evenly by {ranks} ranks"):
        columns(num_envs, 0, ranks)


@pytest.mark.parametrize(
    ("own", "world_size", "found"),
    [
        (range(12), 1, {0: range(12)}),
        (range(6), 3, {0: range(4), 1: range(4, 6)}),
        (range(4, 8), 2, {0: range(4, 6), 1: range(6, 8)}),
        (range(9, 12), 4, {3: range(9, 12)}),
    ],
)
def test_ranks_are_linked_where_their_blocks_meet(own, world_size, found):
    assert peers(12, own, world_size) == found


@pytest.mark.parametrize(("ours", "theirs"), [(1, 1), (2, 3), (4, 2), (3, 4)])
def test_every_environment_passes_exactly_once_between_two_components(ours, theirs):
    passed = [
        column
        for rank in range(ours)
        for both in peers(12, columns(12, rank, ours), theirs).values()
        for column in both
    ]
    assert passed == list(range(12))


def test_a_link_knows_its_rows_in_the_arrays_of_its_own_side():
    link = Link.over(None, own=range(4, 8), both=range(6, 8))
    assert (link.rows, link.count) == (slice(2, 4), 2)
