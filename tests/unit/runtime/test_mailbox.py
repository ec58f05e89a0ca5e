from __future__ import annotations

import pickle
import socket
import threading

import pytest

from rlark.runtime.mailbox import Mailbox
from rlark.runtime.wire import PeerLost, Wire

BIG = b"x" * 5_000_000


@pytest.fixture
def ends() -> tuple[Mailbox, Wire]:
    left, right = socket.socketpair()
    return Mailbox(Wire(left)), Wire(right, patience_s=10)


def test_what_does_not_fit_waits_and_goes_out_in_order(ends):
    box, peer = ends
    box.post(pickle.dumps(BIG))
    box.post(pickle.dumps("after"))
    assert box.waiting
    heard = []
    reader = threading.Thread(target=lambda: heard.extend(peer.receive_object() for _ in range(2)))
    reader.start()
    while box.waiting:
        box.flush()
    reader.join(10)
    assert heard == [BIG, "after"]


def test_a_message_is_read_once_it_is_there_as_a_whole(ends):
    box, peer = ends
    frame = pickle.dumps(["a", "message"])
    whole = len(frame).to_bytes(8, "little") + frame
    for i in range(len(whole)):
        assert list(box.collect()) == []
        peer.send_some(memoryview(whole[i : i + 1]))
    peer.send_object("another")
    assert list(box.collect()) == [["a", "message"], "another"]


def test_what_was_said_before_the_end_comes_before_it(ends):
    box, peer = ends
    peer.send_object("last words")
    peer.close()
    words = box.collect()
    assert next(words) == "last words"
    with pytest.raises(PeerLost):
        next(words)
    with pytest.raises(PeerLost):
        box.post(b"nobody takes it")
