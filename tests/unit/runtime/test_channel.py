from __future__ import annotations

import dataclasses
import gc
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rlark.runtime.channel import INLINE, Channel, ChannelClosed, ChannelEmpty, ChannelFull
from rlark.runtime.channel_host import ChannelHost
from rlark.runtime.wire import PeerLost, new_run

LARGE = INLINE // 4 + 1


@dataclasses.dataclass
class Batch:
    observation: np.ndarray
    step: int


@pytest.fixture
def run() -> Iterator[str]:
    """A run whose channels are hosted."""
    name = new_run()
    host = ChannelHost(name)
    yield name
    host.close()
    host.close()


@pytest.fixture
def channel(run: str) -> Iterator[Callable[..., Channel]]:
    """`channel(maxsize)` creates the channel `c`, `channel()` afterwards gives another end of it."""
    made: list[Channel] = []

    def make(maxsize: int | None = None) -> Channel:
        caller = f"rank-{len(made)}"
        first = Channel.connect(run, "c", caller) if maxsize is None else Channel.create(run, "c", caller, maxsize)
        made.append(first)
        return first

    yield make
    for one in made:
        one.disconnect()


@pytest.mark.parametrize("size", [3, LARGE])
def test_items_come_in_order_with_their_arrays_as_the_takers_own(channel, size):
    ours = channel(0)
    theirs = channel()
    batch = Batch(np.full(size, 7, np.float32), 1)
    ours.put(batch)
    batch.observation[:] = 0  # a snapshot was taken
    ours.put({"step": 2, "nothing": np.zeros(0)})
    first, second = theirs.get(), theirs.get()
    assert (first.observation == 7).all()
    first.observation[0] = 1
    assert (first.step, second["step"], second["nothing"].shape) == (1, 2, (0,))


def test_torch_tensors_pass(channel):
    torch = pytest.importorskip("torch")
    ours = channel(0)
    ours.put([torch.arange(LARGE), torch.ones(2, dtype=torch.bfloat16)])
    whole, half = channel().get()
    assert (whole[-1].item(), half.dtype) == (LARGE - 1, torch.bfloat16)


def test_each_key_is_a_queue_of_its_own(channel):
    ours = channel(1)
    for key in ("default", 3, ("env", 1)):
        ours.put_nowait(key, key=key)
    assert [ours.get_nowait(key=key) for key in (("env", 1), 3, "default")] == [("env", 1), 3, "default"]


def test_a_bounded_channel_holds_its_producers_back(channel, later):
    ours, theirs = channel(2), channel()
    ours.put(1)
    assert (ours.full(), ours.empty(), ours.qsize()) == (False, False, 1)
    ours.put(2)
    assert ours.full()
    with pytest.raises(ChannelFull, match="the channel c holds 2 items"):
        ours.put_nowait(3)
    with pytest.raises(TimeoutError, match=r"the channel c had no room within 0\.01 s"):
        ours.put(3, timeout_s=0.01)
    putting, _ = later(lambda: ours.put(np.zeros(LARGE)))
    putting.join(0.05)
    assert putting.is_alive()
    assert theirs.get() == 1
    putting.join(5)
    assert not putting.is_alive()
    assert (theirs.get(), len(theirs.get())) == (2, LARGE)


def test_who_waits_longest_is_served_first(later):
    run = new_run()
    host = ChannelHost(run)
    ours = Channel.create(run, "c", "driver")
    waiting, ends = [], []
    for count in (1, 2, 3):
        ends.append(Channel.connect(run, "c", f"rank-{count}"))
        waiting.append(later(ends[-1].get))
        until = time.monotonic() + 5
        while len(host._waiting) < count:  # the host has heard of each before the next
            assert time.monotonic() < until
    for item in range(3):
        ours.put(item)
    for thread, _ in waiting:
        thread.join(5)
    assert [found for _, found in waiting] == [[0], [1], [2]]
    for end in (ours, *ends):
        end.disconnect()
    host.close()


def test_what_cannot_name_a_queue_is_refused_and_harms_nobody(channel):
    ours = channel(0)
    for use in (lambda: ours.put(1, key=[1]), lambda: ours.get_nowait(key={}), lambda: ours.qsize([1])):
        with pytest.raises(TypeError, match="cannot be the key of a queue"):
            use()
    ours._wire.send(b"no request at all")  # the host lets go of who sends that, and of nobody else
    theirs = channel()
    theirs.put(1)
    assert theirs.get() == 1
    with pytest.raises(PeerLost):
        ours.get(timeout_s=1)


def test_nothing_comes(channel):
    ours = channel(0)
    with pytest.raises(ChannelEmpty, match="the channel c is empty"):
        ours.get_nowait()
    with pytest.raises(TimeoutError, match=r"nothing came to the channel c within 0\.01 s"):
        ours.get(timeout_s=0.01)
    ours.put(1)  # the one that gave up takes nothing away
    assert ours.get() == 1


def test_a_closed_channel_is_emptied_and_then_says_so(channel, later):
    ours, theirs, third = channel(2), channel(), channel()
    ours.put(1)
    ours.put(2)
    putting, refused = later(lambda: third.put(3))
    putting.join(0.05)
    ours.close()
    putting.join(5)
    assert isinstance(refused[0], ChannelClosed)
    assert [theirs.get(), theirs.get_nowait()] == [1, 2]
    for take in (theirs.get, theirs.get_nowait, lambda: theirs.get_batch(1)):
        with pytest.raises(ChannelClosed, match="the channel c is closed and empty"):
            take()
    with pytest.raises(ChannelClosed, match="the channel c is closed"):
        ours.put(4)


def test_closing_wakes_who_waits(channel, later):
    ours, theirs = channel(0), channel()
    taking, found = later(theirs.get)
    taking.join(0.05)
    ours.close()
    taking.join(5)
    assert isinstance(found[0], ChannelClosed)


def test_a_batch_is_taken_up_to_its_weight(channel, later):
    ours, theirs = channel(0), channel()
    for item, weight in enumerate((2, 3, 4)):
        ours.put(item, weight=weight)
    assert theirs.get_batch(6) == [0, 1]  # the next would pass it
    taking, found = later(lambda: theirs.get_batch(5))
    taking.join(0.05)
    assert taking.is_alive()  # 4 are not 5, and more may come
    ours.put(3, weight=1)
    taking.join(5)
    assert found == [[2, 3]]
    ours.put(4, weight=100)
    assert theirs.get_batch(1) == [4]  # at least one
    ours.put(5, weight=1)
    ours.close()
    assert theirs.get_batch(10) == [5]


def test_connecting_waits_for_the_channel_and_names_those_there_are(run):
    made = Channel.create(run, "one", "driver")
    with pytest.raises(TimeoutError, match=r"nobody created the channel two; there are one within 0\.01 s"):
        Channel.connect(run, "two", "env-0", timeout_s=0.01)
    found = []
    connecting = threading.Thread(target=lambda: found.append(Channel.connect(run, "three", "env-0")))
    connecting.start()
    connecting.join(0.05)
    third = Channel.create(run, "three", "driver")
    connecting.join(5)
    found[0].put("here")
    assert third.get() == "here"
    with pytest.raises(ValueError, match="the channel one is there already, with room for any number of items"):
        Channel.create(run, "one", "driver", maxsize=3)
    for one in (made, third, *found):
        one.disconnect()


def test_the_end_of_the_run_is_told_to_who_waits(later):
    name = new_run()
    host = ChannelHost(name)
    ours = Channel.create(name, "c", "env-0")
    taking, found = later(ours.get)
    taking.join(0.05)
    host.close()
    taking.join(5)
    assert isinstance(found[0], PeerLost)
    ours.disconnect()


DYING = """
import sys, numpy as np
from rlark.runtime.channel import Channel
channel = Channel.connect(sys.argv[1], "c", "env-0")
channel.put(np.zeros(100_000))
print("put", flush=True)
channel.put(np.zeros(100_000))
"""


def test_what_a_killed_producer_has_put_is_there_and_what_it_waited_with_is_not(run):
    ours = Channel.create(run, "c", "driver", maxsize=1)
    child = subprocess.Popen([sys.executable, "-c", DYING, run], stdout=subprocess.PIPE)
    assert child.stdout.readline() == b"put\n"
    child.send_signal(signal.SIGKILL)
    child.wait(10)
    child.stdout.close()
    assert len(ours.get()) == 100_000
    with pytest.raises(ChannelEmpty):
        ours.get_nowait()
    ours.disconnect()


def test_ten_thousand_items_leave_nothing_open(channel):
    ours, theirs = channel(4), channel()

    def held() -> tuple[int, int]:
        files = sum(1 for _ in Path("/proc/self/fd").iterdir())
        return files, Path("/proc/self/maps").read_text().count("memfd:rlark")

    def pass_on(count: int) -> None:
        for i in range(count):
            ours.put(np.full(LARGE if i % 10 == 0 else 4, i, np.float32))
            assert theirs.get()[0] == i

    pass_on(10)
    gc.collect()
    before = held()
    pass_on(10_000)
    assert held() == before
