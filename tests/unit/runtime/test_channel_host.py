"""The host of the channels, and callers that misbehave: it waits for nobody, loses nothing and keeps nothing."""

from __future__ import annotations

import gc
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rlark.runtime.channel import HOST, INLINE, Channel, ChannelClosed, ChannelEmpty, Request
from rlark.runtime.channel_host import ChannelHost
from rlark.runtime.wire import HEADER, PeerLost, connect, new_run

LARGE = np.zeros(INLINE // 8 + 1)


@pytest.fixture
def host() -> Iterator[ChannelHost]:
    made = ChannelHost(new_run())
    yield made
    made.close()


@pytest.fixture
def run(host) -> str:
    return host._endpoint._name.partition("/")[0]


@pytest.fixture
def channel(run) -> Iterator[Callable[..., Channel]]:
    """`channel(maxsize)` creates the channel `c`, `channel()` afterwards gives another end of it."""
    made: list[Channel] = []

    def make(maxsize: int | None = None) -> Channel:
        name = f"rank-{len(made)}"
        made.append(Channel.connect(run, "c", name) if maxsize is None else Channel.create(run, "c", name, maxsize))
        return made[-1]

    yield make
    for one in made:
        one.disconnect()


def until(true: Callable[[], object]) -> None:
    limit = time.monotonic() + 10
    while not true():
        assert time.monotonic() < limit
        time.sleep(0.001)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_a_caller_that_stands_still_in_the_middle_of_a_message_holds_up_nobody(run, channel):
    ours = channel(0)
    wire = connect(f"{run}/{HOST}", "env-0", "the host")
    wire._socket.sendall(HEADER.pack(1000) + b"half")
    ours.put(1)
    assert ours.get() == 1
    wire.close()


def test_a_caller_that_does_not_read_its_answer_holds_up_nobody(run, host, channel):
    ours = channel(0)
    for _ in range(100):
        ours.put(np.zeros(INLINE // 8 - 100), weight=1)
    ours.put(LARGE, weight=1)
    stuck = connect(f"{run}/{HOST}", "env-0", "the host")
    stuck.send_object(Request("batch", "c", number=101, wait_s=60))
    until(lambda: any(key.events > 1 for key in host._selector.get_map().values()))  # more than its socket takes
    assert ours.empty()
    ours.put("others", key=2)
    assert ours.get(key=2) == "others"
    assert len(stuck.receive_object().parcels) == 101  # and once it reads, it has all
    os.close(stuck.receive_descriptor())
    stuck.close()


def test_a_message_that_cannot_be_read_ends_its_senders_wire_and_no_other(run, channel, capsys):
    ours = channel(0)
    wire = connect(f"{run}/{HOST}", "env-0", "the host", 10)
    wire.send(b"no pickle")
    with pytest.raises(PeerLost):
        wire.receive()
    assert "channels: env-0 sent what cannot be used: UnpicklingError" in capsys.readouterr().err
    wire.close()
    ours.put(1)
    assert ours.get() == 1


def test_a_batch_larger_than_the_room_comes_together(channel, later):
    ours, theirs = channel(2), channel()
    taking, found = later(lambda: theirs.get_batch(5))
    for item in range(5):
        ours.put(item, weight=1, timeout_s=10)
    taking.join(10)
    assert found == [[0, 1, 2, 3, 4]]


def test_what_a_batch_had_so_far_goes_back_when_it_gives_up(channel):
    ours, theirs = channel(2), channel()
    ours.put(0, weight=1)
    with pytest.raises(TimeoutError, match=r"not enough came to the channel c within 0\.01 s"):
        theirs.get_batch(5, timeout_s=0.01)
    ours.put(1, weight=1)
    assert (theirs.get(), theirs.get()) == (0, 1)


def test_who_comes_behind_a_batch_is_served_when_that_gives_up(channel, later):
    ours, batching, single = channel(0), channel(), channel()
    ours.put(0, weight=1)
    first, late = later(lambda: batching.get_batch(5, timeout_s=0.3))
    until(ours.empty)  # the batch has it
    second, found = later(lambda: single.get(timeout_s=10))
    first.join(10)
    second.join(10)
    assert (type(late[0]), found) == (TimeoutError, [0])


def test_a_closed_channel_gives_a_batch_what_it_had(channel, later):
    ours, theirs = channel(2), channel()
    taking, found = later(lambda: theirs.get_batch(5))
    ours.put(LARGE, weight=1)
    until(ours.empty)
    ours.close()
    taking.join(10)
    assert len(found[0][0]) == len(LARGE)
    with pytest.raises(ChannelClosed):
        theirs.get_batch(5)


def test_an_item_for_a_taker_that_is_gone_goes_to_the_next(run, host, channel):
    ours, theirs = channel(0), channel()
    gone = connect(f"{run}/{HOST}", "env-0", "the host")
    host._forget = lambda caller: None  # the host has not yet heard of its end
    gone.send_object(Request("get", "c", wait_s=60))
    until(lambda: host._waiting)
    gone._socket.shutdown(socket.SHUT_RD)
    ours.put(LARGE)
    assert len(theirs.get(timeout_s=10)) == len(LARGE)
    del host._forget
    gone.close()


def test_a_queue_that_holds_nothing_is_forgotten(host, channel):
    ours = channel(1)
    for key in range(100):
        ours.put(key, key=key)
        assert ours.get(key=key) == key
        assert ours.qsize(key=(key, "asked")) == 0
        with pytest.raises(ChannelEmpty):
            ours.get_nowait(key=(key, "asked"))
        with pytest.raises(TimeoutError):
            ours.get(key=(key, "waited"), timeout_s=0.0001)
    until(lambda: not host._channels["c"].queues)


def test_large_items_that_are_not_arrays_pass_the_host_as_a_descriptor(host, channel):
    ours = channel(0)
    ours.put({"text": b"x" * 300_000, "crossed": np.zeros((300, 400))[:, ::2]})
    (held,) = host._channels["c"].queues["default"].items
    assert (held.parcel.inline, held.descriptor is not None) == (None, True)
    assert len(pickle.dumps(held.parcel)) < 500
    got = ours.get()
    assert (len(got["text"]), got["crossed"].shape) == (300_000, (300, 200))


def test_where_no_more_files_can_be_opened_the_producer_is_told(host, channel):
    ours = channel(0)
    ours.put(1, key="small")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_files() + 3, limits[1]))
    try:  # the producer needs two for a moment, here in the same process
        with pytest.raises(OSError, match="Too many open files"):
            for _ in range(5):
                ours.put(LARGE)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert ours.get(key="small") == 1


def test_an_interrupted_get_takes_nothing_and_confuses_nobody(channel):
    ours, theirs = channel(0), channel()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(KeyboardInterrupt):
            theirs.get()
    finally:
        signal.signal(signal.SIGALRM, before)
    until(lambda: not theirs.qsize("another"))  # it is connected again
    ours.put("later")
    assert theirs.get(timeout_s=10) == "later"


def test_an_end_that_another_thread_is_using_says_so(host, channel, later):
    ours = channel(0)
    taking, found = later(ours.get)
    until(lambda: host._waiting)
    with pytest.raises(RuntimeError, match="another thread is using this end of the channel c"):
        ours.put(1)
    channel().put(2)
    taking.join(10)
    assert found == [2]


@pytest.mark.parametrize("seconds", [-1, None, float("nan"), "3"])
def test_what_is_no_number_of_seconds_is_refused(channel, seconds):
    ours = channel(0)
    with pytest.raises(ValueError, match=r"timeout_s is .* where it has to be a number of seconds"):
        ours.get(timeout_s=seconds)


def test_waiting_for_ever_is_possible(channel, later):
    ours, theirs = channel(0), channel()
    taking, found = later(lambda: theirs.get(timeout_s=float("inf")))
    taking.join(0.02)
    ours.put(1)
    taking.join(10)
    assert found == [1]


def test_a_barrier_that_one_gives_up_is_over_for_all(run, host, later):
    def meet(wait_s: float) -> object:
        wire = connect(f"{run}/{HOST}", "env", "the host", 10)
        wire.send_object(Request("barrier", "env", number=3, wait_s=wait_s))
        answer = wire.receive_object()
        wire.close()
        return answer.error

    patient, told = later(lambda: meet(60))
    until(lambda: host._waiting)
    assert str(meet(0.01)) == "2 of 3 ranks of env came to the barrier within 0.01 s"
    patient.join(10)
    assert str(told[0]) == "2 of 3 ranks of env came to the barrier within 0.01 s"
    until(lambda: not host._meetings)


PRODUCER = """
import sys, numpy as np
from rlark.runtime.channel import Channel
channel = Channel.connect(sys.argv[1], "c", f"env-{sys.argv[2]}")
for i in range(int(sys.argv[3])):
    channel.put((int(sys.argv[2]), i, np.full(20_000 if i % 5 == 0 else 10, i)), key=i % 3)
"""
CONSUMER = """
import sys
from rlark.runtime.channel import Channel, ChannelClosed
channel = Channel.connect(sys.argv[1], "c", "taker")
try:
    while True:
        who, i, array = channel.get(key=int(sys.argv[2]), timeout_s=60)
        assert (array == i).all() and i % 3 == int(sys.argv[2])
        print(who, i, flush=True)
except ChannelClosed:
    pass
"""


def test_several_producers_and_consumers_in_processes_of_their_own(run, channel):
    ours = channel(4)
    producers = [subprocess.Popen([sys.executable, "-c", PRODUCER, run, str(i), "60"]) for i in range(2)]
    consumers = [
        subprocess.Popen([sys.executable, "-c", CONSUMER, run, str(key)], stdout=subprocess.PIPE, text=True)
        for key in range(3)
    ]
    assert [one.wait(60) for one in producers] == [0, 0]
    ours.close()
    lines = [one.communicate(timeout=60)[0].split("\n")[:-1] for one in consumers]
    assert [one.returncode for one in consumers] == [0, 0, 0]
    for key, told in enumerate(lines):
        for who in range(2):  # each producer's items in its order
            assert [line for line in told if line.startswith(f"{who} ")] == [f"{who} {i}" for i in range(key, 60, 3)]


def test_a_killed_taker_takes_nothing_with_it_that_it_had_not_been_given(run, host, channel):
    ours = channel(0)
    taker = subprocess.Popen([sys.executable, "-c", CONSUMER, run, "0"], stdout=subprocess.PIPE)
    until(lambda: host._waiting)
    taker.kill()
    taker.wait(10)
    taker.stdout.close()
    ours.put(LARGE, key=0)
    assert len(ours.get(key=0, timeout_s=10)) == len(LARGE)


def test_closing_leaves_no_file_open_whatever_is_under_way(later):
    gc.collect()
    before = open_files()
    run = new_run()
    host = ChannelHost(run)
    ours = Channel.create(run, "c", "driver", 1)
    ours.put(LARGE)
    others = [Channel.connect(run, "c", f"rank-{i}") for i in range(2)]
    threads = [
        later(lambda: others[0].put(LARGE)),
        later(lambda: others[1].get(key="empty")),
    ]
    until(lambda: len(host._waiting) == 2)
    host.close()
    for thread, found in threads:
        thread.join(10)
        assert isinstance(found[0], PeerLost)
    ours.disconnect()
    assert open_files() == before
