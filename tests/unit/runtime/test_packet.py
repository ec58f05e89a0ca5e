from __future__ import annotations

import socket

import numpy as np

from rlark.runtime.packet import Packet
from rlark.runtime.wire import Wire


def test_packets_carry_arrays_without_a_copy_and_may_end_early():
    left, right = (Wire(end) for end in socket.socketpair())
    fields = {"seen": ((3, 2), np.float32), "done": ((3,), np.bool_), "extra": ((3, 2), np.float32)}
    ours, theirs = Packet(fields), Packet(fields)
    ours.arrays["seen"][...] = np.arange(6).reshape(3, 2)
    ours.arrays["done"][...] = [True, False, True]
    ours.arrays["extra"][...] = 9
    ours.send(left, upto="done")
    length = theirs.receive(right)
    assert (theirs.has(length, "done"), theirs.has(length, "extra")) == (True, False)
    assert theirs.arrays["seen"].tolist() == [[0, 1], [2, 3], [4, 5]]
    assert theirs.arrays["done"].tolist() == [True, False, True]
    assert theirs.arrays["extra"].sum() == 0
    ours.send(left)
    assert theirs.has(theirs.receive(right), "extra")
    assert theirs.arrays["extra"].tolist() == [[9, 9]] * 3
    left.close()
    right.close()
