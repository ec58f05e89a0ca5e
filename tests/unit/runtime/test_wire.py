from __future__ import annotations

import os
import resource
import socket
import threading

import numpy as np
import pytest

from rlark.runtime.wire import Endpoint, PeerLost, Wire, connect, new_run


@pytest.fixture
def pair():
    left, right = (Wire(end, peer=name) for end, name in zip(socket.socketpair(), ("right", "left"), strict=True))
    yield left, right
    left.close()
    right.close()


def test_frames_arrive_whole_and_in_order(pair):
    left, right = pair
    left.send(b"first", b" half")
    left.send(b"")
    left.send(b"last")
    assert [bytes(right.receive()) for _ in range(3)] == [b"first half", b"", b"last"]


def test_a_frame_larger_than_the_socket_waits_for_its_reader(pair):
    left, right = pair
    data = os.urandom(8 << 20)
    sender = threading.Thread(target=left.send, args=(data, data[:3]))
    sender.start()
    assert right.receive() == data + data[:3]
    sender.join(5)
    assert not sender.is_alive()


def test_objects_pass(pair):
    left, right = pair
    left.send_object({"verb": "iterate", "array": np.arange(3)})
    assert right.receive_object()["array"].tolist() == [0, 1, 2]


def test_the_end_of_a_peer_is_told_with_its_name(pair):
    left, right = pair
    left.close()
    with pytest.raises(PeerLost, match="left hung up: its process ended"):
        right.receive()
    with pytest.raises(PeerLost, match="left is gone"):
        right.send(b"x" * (4 << 20))


def test_a_peer_that_dies_within_a_frame_is_lost_too():
    ours, theirs = socket.socketpair()
    wire = Wire(ours, peer="env-0")
    theirs.sendall((100).to_bytes(8, "little") + b"only this")
    theirs.close()
    with pytest.raises(PeerLost, match="env-0 hung up"):
        wire.receive()
    wire.close()


def test_a_silent_peer_is_not_waited_for_without_end():
    ours, theirs = socket.socketpair()
    wire = Wire(ours, peer="actor-0", patience_s=0.05)
    with pytest.raises(PeerLost, match=r"actor-0 was silent for 0\.05 s"):
        wire.receive()
    wire.close()
    theirs.close()


def test_a_frame_that_was_not_agreed_is_refused(pair):
    left, right = pair
    left.send(b"12345")
    with pytest.raises(ValueError, match="left sent 5 bytes where at most 4 were agreed"):
        right.receive_into(memoryview(bytearray(4)))


def test_peers_meet_by_name_and_the_kernel_says_who_calls():
    run = new_run()
    endpoint = Endpoint(f"{run}/rollout-0")
    caller = connect(f"{run}/rollout-0", "env-3", "rollout-0")
    name, wire = endpoint.accept()
    assert (name, wire.peer, caller.peer) == ("env-3", "env-3", "rollout-0")
    assert (wire.peer_pid, wire.peer_user, caller.peer_user) == (os.getpid(), os.getuid(), os.getuid())
    endpoint.close()
    caller.send(b"still there")
    assert wire.receive() == b"still there"
    caller.close()
    wire.close()


def test_nobody_comes_and_nobody_listens():
    run = new_run()
    endpoint = Endpoint(f"{run}/control")
    with pytest.raises(PeerLost, match=r"nobody came to control within 0\.01 s"):
        endpoint.accept(0.01)
    endpoint.close()
    with pytest.raises(PeerLost, match="the driver does not answer at control: Connection refused"):
        connect(f"{run}/control", "env-0", "the driver")


def test_another_users_process_is_not_let_in_and_not_believed(monkeypatch):
    run = new_run()
    endpoint = Endpoint(f"{run}/control")
    monkeypatch.setattr("os.getuid", lambda: 4711)
    with pytest.raises(PeerLost, match="another user's process does"):
        connect(f"{run}/control", "env-0", "the driver")
    with pytest.raises(PeerLost, match="nobody came"):
        endpoint.accept(0.01)
    endpoint.close()


def test_runs_have_names_that_nobody_guesses():
    assert len({new_run() for _ in range(100)}) == 100
    assert len(new_run()) > 32


def test_open_files_are_handed_over(pair):
    left, right = pair
    read, write = os.pipe()
    left.send_descriptor(write)
    left.send(b"after it")
    theirs = right.receive_descriptor()
    os.close(write)
    os.write(theirs, b"through")
    os.close(theirs)
    assert right.receive() == b"after it"
    assert os.read(read, 100) == b"through"
    assert os.read(read, 100) == b""
    os.close(read)


def test_an_open_file_comes_with_the_first_byte_of_a_frame(pair):
    left, right = pair
    read, write = os.pipe()
    left.send(b"take", b" it", descriptor=write)
    os.close(write)
    room = memoryview(bytearray(64))
    count, descriptor = right.receive_some_and_descriptor(room)
    assert bytes(room[8:count]) == b"take it"
    assert not os.get_inheritable(descriptor)
    os.write(descriptor, b"x")
    os.close(descriptor)
    assert os.read(read, 2) == b"x"
    os.close(read)
    assert right.receive_some_and_descriptor(room) == (0, None)
    left.close()
    with pytest.raises(PeerLost, match="left hung up"):
        right.receive_some_and_descriptor(room)


def test_an_open_file_waits_for_room(pair):
    left, right = pair
    sent = 0
    while left.send_descriptor_at_once(left.fileno()):
        sent += 1
    assert sent > 100
    os.close(right.receive_descriptor())
    for _ in range(sent - 1):
        os.close(right.receive_descriptor())
    assert left.send_descriptor_at_once(left.fileno())


def test_patience_can_change(pair):
    left, _ = pair
    left.have_patience(0.01)
    with pytest.raises(PeerLost, match=r"right was silent for 0\.01 s"):
        left.receive()


def test_a_file_that_finds_no_number_is_told_as_that(pair):
    left, right = pair
    left.send_descriptor(left.fileno())
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    try:
        with pytest.raises(OSError, match="Too many open files; what left handed over is lost"):
            right.receive_descriptor()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
