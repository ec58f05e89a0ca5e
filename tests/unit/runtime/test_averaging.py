"""Ranks that learn together, in processes of their own."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from rlark.runtime.averaging import Together

pytest.importorskip("torch")
ONE = """
import sys
from pathlib import Path
import numpy as np, torch
from rlark.runtime.averaging import Together
from rlark.runtime.wire import PeerLost
rank, size, then = int(sys.argv[1]), int(sys.argv[2]), sys.argv[4]
team = Together(rank, size, Path(sys.argv[3]), patience_s=20)
tensor = torch.full((3,), float(rank)) if size > 1 else torch.zeros(3)
with torch.inference_mode():
    team.mean_(tensor)
print(tensor.tolist(), team.gather(np.array([rank, 2.5])).tolist(), flush=True)
if then == "die" and rank == 1:
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
if then == "die":
    try:
        team.mean_(tensor)
    except PeerLost as error:
        print(str(error).partition(":")[0])
assert torch.distributed.get_backend() == "gloo"
team.close()
"""
LATE = """
import sys
from pathlib import Path
import numpy as np
from rlark.runtime.averaging import Together
from rlark.runtime.wire import PeerLost
try:
    Together(0, 2, Path(sys.argv[1]), patience_s=0.5).gather(np.zeros(1))
except PeerLost as error:
    print(str(error).partition(":")[0])
"""


def run(size: int, meeting: Path, then: str = "") -> list[str]:
    """What each rank prints."""
    command = [sys.executable, "-c", ONE]
    ranks = [
        subprocess.Popen([*command, str(rank), str(size), str(meeting), then], stdout=subprocess.PIPE, text=True)
        for rank in range(size)
    ]
    return [rank.communicate(timeout=60)[0] for rank in ranks]


def test_means_and_numbers_are_the_same_on_every_rank(tmp_path: Path):
    said = run(2, tmp_path / "meeting")
    assert list(tmp_path.iterdir()) == []
    assert said == ["[0.5, 0.5, 0.5] [[0.0, 2.5], [1.0, 2.5]]\n"] * 2


def test_a_rank_that_dies_is_lost_and_no_fault_of_the_others(tmp_path: Path):
    survivor, _ = run(2, tmp_path / "meeting", "die")
    assert survivor.splitlines()[-1] == "another Actor rank is gone or silent"


def test_a_rank_that_never_comes_is_told(tmp_path: Path):
    command = [sys.executable, "-c", LATE, str(tmp_path / "meeting")]
    said = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    assert said.strip() == "the other Actor ranks cannot be met"


def test_four_ranks_get_the_same_bytes(tmp_path: Path):
    said = run(4, tmp_path / "meeting")
    assert said == [f"[1.5, 1.5, 1.5] {[[float(rank), 2.5] for rank in range(4)]}\n"] * 4


class OnHost:
    """A number."""

    is_cuda = False

    def __init__(self, number: float) -> None:
        self.number = number

    def div_(self, size: int) -> None:
        self.number /= size


class OnGpu(OnHost):
    """A number on a GPU that is not there."""

    is_cuda = True

    def cpu(self) -> OnHost:
        return OnHost(self.number)

    def copy_(self, here: OnHost) -> None:
        self.number = here.number


@pytest.mark.parametrize(("apart", "group"), [(True, "nccl"), (False, None)])
def test_the_device_of_a_tensor_says_how_it_goes(tmp_path: Path, apart, group):
    """What there is one GPU too few for: with GPUs of their own NCCL is made once, else the host carries it."""
    team, made, reduced = Together(0, 2, tmp_path / "meeting", gpus_apart=apart), [], []

    def new_group(backend: str, timeout: object) -> str:
        made.append(backend)
        return backend

    def all_reduce(tensor: object, group: str | None) -> None:
        reduced.append((tensor.is_cuda, group))
        tensor.number = 6.0

    @contextmanager
    def together():
        yield SimpleNamespace(new_group=new_group, all_reduce=all_reduce)

    team._together = together
    tensor = OnGpu(1.0)
    team.mean_(tensor)
    team.mean_(tensor)
    assert made == ([group] if group else [])
    assert reduced == [(apart, group)] * 2
    assert tensor.number == 3.0
