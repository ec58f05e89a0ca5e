from __future__ import annotations

import os
import socket
from pathlib import Path

import numpy as np
import pytest

from rlark.runtime.shared_memory import Block
from rlark.runtime.wire import PeerLost, Wire


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@pytest.fixture
def wires():
    ours, theirs = (Wire(end) for end in socket.socketpair())
    yield ours, theirs
    ours.close()
    theirs.close()


def test_both_ends_see_the_same_bytes(wires):
    block = Block.new(4096)
    block.send(wires[0])
    other = Block.receive(wires[1])
    np.frombuffer(block.view, np.float32)[:3] = [1, 2, 3]
    assert np.frombuffer(other.view, np.float32)[:4].tolist() == [1, 2, 3, 0]
    for held in (block, other):
        held.close()


def test_it_cannot_be_shrunk_under_the_other():
    block = Block.new(4096)
    with pytest.raises(PermissionError):
        os.ftruncate(block._descriptor, 0)
    block.close()


def test_it_has_no_name_and_leaves_nothing_open():
    before = open_files()
    block = Block.new(1 << 20)
    block.close()
    assert open_files() == before


def test_a_peer_that_hangs_up_shares_nothing(wires):
    wires[0].close()
    with pytest.raises(PeerLost, match="hung up"):
        Block.receive(wires[1])
