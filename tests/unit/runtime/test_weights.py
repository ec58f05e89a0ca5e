from __future__ import annotations

import socket

import numpy as np

from rlark.runtime import weights
from rlark.runtime.channel import Channel


def passed(value):
    ours, theirs = (Channel(end) for end in socket.socketpair())
    weights.Packed(value).send(ours)
    got = weights.receive(theirs)
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
    array = np.zeros(4)
    packed = weights.Packed({"w": array})
    seen = []
    for _ in range(2):
        ours, theirs = (Channel(end) for end in socket.socketpair())
        packed.send(ours)
        seen.append(weights.receive(theirs)["w"].tolist())
        ours.close()
        theirs.close()
    assert seen == [[0, 0, 0, 0]] * 2


def test_anything_that_pickles_can_be_weights():
    assert passed(None) is None
    assert passed(("a", 1.5)) == ("a", 1.5)
