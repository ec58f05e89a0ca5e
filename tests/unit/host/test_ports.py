from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from rlark.host import ports


@pytest.fixture
def server():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_two_blocks_never_share_a_port():
    with ports.claim_block() as one, ports.claim_block() as other:
        mine = {one.take() for _ in range(12)} | set(range(one.rest()[0], one.rest()[1] + 1))
        theirs = {other.take() for _ in range(12)} | set(range(other.rest()[0], other.rest()[1] + 1))
    assert len(mine) > 400
    assert not mine & theirs


def test_a_closed_block_can_be_claimed_again():
    with ports.claim_block() as one:
        first = one.first
    with ports.claim_block() as again:
        assert again.first == first


def test_blocks_lie_below_the_ephemeral_range():
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    with ports.claim_block() as block:
        assert block.first >= ports.FIRST
        assert block.rest()[1] < max(lowest, ports.FIRST + ports.BLOCK)


def test_take_skips_a_port_that_is_in_use():
    with ports.claim_block() as block, socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of an ended head may linger there
        squatter.bind(("127.0.0.1", block.first))
        squatter.listen()
        assert not ports.free(block.first)
        assert block.take() == block.first + 1


def test_a_used_up_block_says_so():
    with ports.claim_block() as block:
        block._next = block.first + ports.BLOCK
        with pytest.raises(ports.ClusterError, match=f"between {block.first} and {block.first + 499}"):
            block.take()


def test_listening_tells_an_open_port_from_a_closed_one(server):
    assert ports.listening("127.0.0.1", server)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert not ports.listening("127.0.0.1", closed.getsockname()[1], timeout_s=0.2)


def test_the_holder_of_a_port_is_named_with_pid_and_command(server):
    named = ports.holder(server)
    assert named.startswith(f"process {os.getpid()} (")
    assert Path(sys.executable).name[:6] in named


def test_a_port_that_nobody_holds_has_no_holder():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # bound, not listening
        assert ports.holder(bound.getsockname()[1]) is None


def test_a_holder_that_cannot_be_seen_is_said_to_be_another_users(server, monkeypatch):
    monkeypatch.setattr(ports, "socket_owners", lambda inodes: [])
    assert ports.holder(server).startswith("a process of another user (")


def test_listeners_show_the_address_they_are_bound_to(server):
    assert [one.address for one in ports.listeners() if one.port == server] == ["127.0.0.1"]
    assert ports._readable("00000000000000000000000000000000") == "::"
    assert ports._readable("0100007F") == "127.0.0.1"
