from __future__ import annotations

import socket

import numpy as np

from rlark.runtime.weights import Publisher, Subscriber
from rlark.runtime.wire import Wire


def passed(value):
    ours, theirs = (Wire(end) for end in socket.socketpair())
    Publisher([ours]).publish(value)
    got = Subscriber(theirs).receive()
    ours.close()
    theirs.close()
    return got


def test_weights_arrive_as_they_were_and_are_the_receivers_own():
    sent = {"mean": np.arange(5, dtype=np.float64), "layers": [np.ones((3, 7), np.float32), np.zeros(0)], "n": 3}
    got = passed(sent)
    assert got["n"] == 3
    assert got["mean"].tolist() == [0, 1, 2, 3, 4]
    assert got["layers"][0].shape == (3, 7)
    assert got["layers"][1].shape == (0,)
    got["mean"][0] = 9
    assert sent["mean"][0] == 0
    assert all(array.flags.aligned for array in (got["mean"], got["layers"][0]))


def test_a_snapshot_is_packed_once_and_sent_to_many():
    pairs = [[Wire(end) for end in socket.socketpair()] for _ in range(2)]
    Publisher([ours for ours, _ in pairs]).publish({"w": np.zeros(4)})
    seen = [Subscriber(theirs).receive()["w"].tolist() for _, theirs in pairs]
    assert seen == [[0, 0, 0, 0]] * 2
    for pair in pairs:
        for wire in pair:
            wire.close()


def test_anything_that_pickles_can_be_weights():
    assert passed(None) is None
    assert passed(("a", 1.5)) == ("a", 1.5)
