from __future__ import annotations

import socket
import threading

import numpy as np
import pytest

from rlark.runtime.packet import SHARED_FROM, Incoming, Outgoing
from rlark.runtime.wire import PeerLost, Wire


@pytest.fixture
def wires():
    ours, theirs = (Wire(end, name) for end, name in zip(socket.socketpair(), ("rollout-0", "env-0"), strict=True))
    yield ours, theirs
    ours.close()
    theirs.close()


def fields(rows):
    return {"seen": ((rows, 2), np.float32), "done": ((rows,), np.bool_), "extra": ((rows, 2), np.float32)}


@pytest.mark.parametrize("rows", [3, SHARED_FROM // 8])
def test_packets_carry_arrays_and_may_end_early(wires, rows):
    ours = Outgoing(wires[0], fields(rows))
    theirs = Incoming(wires[1], fields(rows))
    seen = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2)
    arrays = ours.open()
    arrays["seen"][...] = seen
    arrays["done"][...] = True
    ours.send(upto="done")
    length = theirs.receive()
    assert (theirs.has(length, "done"), theirs.has(length, "extra")) == (True, False)
    assert (theirs.arrays["seen"] == seen).all()
    assert theirs.arrays["done"].all()
    theirs.release()
    ours.open()["extra"][...] = 9
    ours.send()
    assert theirs.has(theirs.receive(), "extra")
    assert (theirs.arrays["extra"] == 9).all()


def test_a_large_packet_is_not_copied(wires):
    ours = Outgoing(wires[0], fields(SHARED_FROM))
    theirs = Incoming(wires[1], fields(SHARED_FROM))
    ours.open()["seen"][-1] = 7
    assert theirs.arrays["seen"][-1].tolist() == [7, 7]


def test_what_the_peer_still_reads_is_not_written_over(wires):
    ours = Outgoing(wires[0], fields(SHARED_FROM))
    theirs = Incoming(wires[1], fields(SHARED_FROM))
    ours.open()
    ours.send()
    theirs.receive()
    with pytest.raises(RuntimeError, match="rollout-0 has read 0 of 1 packets: the two sides are out of step"):
        ours.open()
    theirs.release()
    ours.open()


def test_sides_that_agreed_on_other_fields_notice(wires):
    Outgoing(wires[0], fields(SHARED_FROM))
    with pytest.raises(ValueError, match="env-0 lays out"):
        Incoming(wires[1], fields(2 * SHARED_FROM))


@pytest.mark.parametrize("rows", [3, SHARED_FROM])
def test_a_peer_that_ends_is_noticed_on_both_sides(wires, rows):
    ours = Outgoing(wires[0], fields(rows))
    theirs = Incoming(wires[1], fields(rows))
    waiting = threading.Timer(0.01, wires[0].close)
    waiting.start()
    with pytest.raises(PeerLost, match="env-0 hung up"):
        theirs.receive()
    waiting.join()
    with pytest.raises(PeerLost):
        ours.send()
