"""Where what the run sees really lies."""

from __future__ import annotations

import pytest

from rlark.plan.mounts import covers, real_path, source_of
from rlark.plan.plan import PlannedMount

MOUNTS = [
    PlannedMount(path="/mnt/data", host="/disk/data", read_only=True),
    PlannedMount(path="/mnt/data/out", volume="results"),
    PlannedMount(path="/tmp/place", scratch=True),
    PlannedMount(path="/same", host="/same"),
]


@pytest.mark.parametrize(
    ("mount", "path", "covered"),
    [
        ("/mnt", "/mnt", True),
        ("/mnt/", "/mnt/x/../y", True),
        ("/mnt", "/mnt-2", False),
        ("/mnt/a", "/mnt", False),
        ("/", "/anything", True),
        ("/mnt", "/mnt/../etc", False),
    ],
)
def test_what_a_mount_covers(mount, path, covered):
    assert covers(mount, path) is covered


@pytest.mark.parametrize(
    ("index", "source"), [(0, "/disk/data"), (1, "/home/volumes/results"), (2, "/job/scratch/2"), (3, "/same")]
)
def test_what_lies_behind_a_mount(index, source):
    assert source_of(MOUNTS[index], index, volumes="/home/volumes", scratch="/job/scratch") == source


@pytest.mark.parametrize(
    ("seen", "lies"),
    [
        ("/mnt/data/train.h5", "/disk/data/train.h5"),
        ("/mnt/data", "/disk/data"),
        ("/mnt/data/out/*/policy.pt", "/home/volumes/results/*/policy.pt"),
        ("//mnt/data/out/tb/", "/home/volumes/results/tb"),
        ("/mnt/data/out/../x", "/disk/data/x"),
        ("/tmp/place/a", "/job/scratch/2/a"),
        ("/same/a", "/same/a"),
        ("/mnt/other", "/mnt/other"),
    ],
)
def test_the_deepest_mount_says_where_a_path_lies(seen, lies):
    for order in (MOUNTS, [*reversed(MOUNTS)]):
        expected = lies.replace("scratch/2", f"scratch/{order.index(MOUNTS[2])}")
        assert real_path(seen, order, volumes="/home/volumes", scratch="/job/scratch") == expected


def test_a_mount_of_everything():
    root = [PlannedMount(path="/", host="/disk")]
    assert real_path("/etc/x", root, volumes="/v", scratch="/s") == "/disk/etc/x"
