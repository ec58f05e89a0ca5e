from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from rlark.runtime.weights import INLINE, Publisher, Subscriber
from rlark.runtime.wire import PeerLost, Wire

LARGE = INLINE // 4 + 1


class Publication:
    """A publisher and its subscribers, each taking what comes in a thread of its own."""

    def __init__(self, count: int, bucket: int) -> None:
        pairs = [socket.socketpair() for _ in range(count)]
        self.ours = [Wire(ours, f"rollout-{i}") for i, (ours, _) in enumerate(pairs)]
        self.theirs = [Wire(theirs, "actor-0") for _, theirs in pairs]
        self.publisher = Publisher(self.ours, bucket=bucket)
        self.subscribers = [Subscriber(wire) for wire in self.theirs]
        self.seen: list[object] = []

    def publish(self, weights: object) -> list[object]:
        """What each subscriber got; their arrays are still the subscribers' own."""
        got: list[object] = [None] * len(self.subscribers)

        def take(index: int) -> None:
            got[index] = self.subscribers[index].receive()
            self.subscribers[index].done()

        takers = [threading.Thread(target=take, args=(i,)) for i in range(len(got))]
        for taker in takers:
            taker.start()
        self.publisher.publish(weights)
        for taker in takers:
            taker.join(5)
        return got

    def close(self) -> None:
        for wire in (*self.ours, *self.theirs):
            wire.close()


@pytest.fixture
def path() -> Iterator[Callable[..., Publication]]:
    made: list[Publication] = []

    def make(count: int = 1, bucket: int = 1 << 20) -> Publication:
        made.append(Publication(count, bucket))
        return made[-1]

    yield make
    for one in made:
        one.close()


def layers(size: int) -> dict[str, object]:
    return {"mean": np.arange(5, dtype=np.float64), "layers": [np.ones((3, size), np.float32), np.zeros(0)], "n": 3}


@pytest.mark.parametrize("size", [7, LARGE])
def test_weights_arrive_as_they_were_and_are_the_receivers_own(path, size):
    sent = layers(size)
    (got,) = path().publish(sent)
    assert got["n"] == 3
    assert got["mean"].tolist() == [0, 1, 2, 3, 4]
    assert [array.shape for array in got["layers"]] == [(3, size), (0,)]
    assert (got["layers"][0] == 1).all()
    got["mean"][0] = 9
    assert sent["mean"][0] == 0
    assert all(array.flags.aligned and array.flags.writeable for array in (got["mean"], got["layers"][0]))


@pytest.mark.parametrize("size", [7, LARGE])
def test_everybody_gets_every_version(path, size):
    run = path(count=3)
    for version in (1, 2, 3):
        got = run.publish(np.full(size, version, np.float32))
        assert [array.tolist() for array in got] == [[version] * size] * 3
        assert {run.publisher.version, *(one.version for one in run.subscribers)} == {version}


def test_only_what_changed_is_written(path):
    run, weights = path(), layers(LARGE)
    run.publish(weights)
    assert run.publisher.written == 40 + 12 * LARGE
    run.publish(weights)
    assert run.publisher.written == 0
    weights["mean"][4] = 7
    (got,) = run.publish(weights)
    assert run.publisher.written == 40
    assert got["mean"].tolist() == [0, 1, 2, 3, 7]
    assert (got["layers"][0] == 1).all()
    weights["layers"][0][2, -1] = np.nan  # not equal to itself, but the same bytes
    run.publish(weights)
    assert run.publisher.written == 12 * LARGE
    run.publish(weights)
    assert run.publisher.written == 0


def test_memory_is_reserved_in_buckets(path):
    run = path(bucket=4 * LARGE)
    got = run.publish([np.full(LARGE, i, np.float32) for i in range(3)] + [np.zeros(4 * LARGE, np.float32)])
    sizes = [len(block.view) for block in run.publisher._blocks]
    assert len(sizes) == 4
    assert max(sizes[:3]) < 4 * LARGE + 64 <= sizes[3]  # one that is larger than a bucket has its own
    assert [array[0] for array in got[0]] == [0, 1, 2, 0]


def test_weights_of_another_shape_are_laid_out_anew(path):
    run = path()
    run.publish(np.zeros(LARGE, np.float32))
    (got,) = run.publish([np.ones(2 * LARGE, np.float32), "more"])
    assert (got[0] == 1).all()
    assert run.publish(np.ones(2, np.float32))[0].tolist() == [1, 1]
    assert (run.publish(np.full(LARGE, 2.0, np.float32))[0] == 2).all()


def test_anything_that_pickles_can_be_weights(path):
    assert path().publish(None) == [None]
    assert path().publish(("a", 1.5)) == [("a", 1.5)]


def test_the_actor_waits_until_the_weights_are_in_use(path):
    run = path()
    publishing = threading.Thread(target=run.publisher.publish, args=(np.zeros(LARGE, np.float32),))
    publishing.start()
    run.subscribers[0].receive()
    publishing.join(0.05)
    assert publishing.is_alive()
    run.subscribers[0].done()
    publishing.join(5)
    assert not publishing.is_alive()


def test_a_rollout_that_is_gone_is_named(path):
    run = path(count=2)
    run.theirs[1].close()
    with pytest.raises(PeerLost, match="rollout-1"):  # what the other was sent stays in its socket
        run.publisher.publish(np.zeros(LARGE, np.float32))


def test_a_rollout_that_is_silent_is_named():
    ours, theirs = socket.socketpair()
    wire, other = Wire(ours, "rollout-1", patience_s=0.05), Wire(theirs, "actor-0")
    with pytest.raises(PeerLost, match="rollout-1"):
        Publisher([wire]).publish(np.zeros(LARGE, np.float32))
    wire.close()
    other.close()


def test_a_version_that_was_left_out_is_noticed(path):
    run = path()
    run.publish(1)
    run.publisher.version += 1
    publishing = threading.Thread(target=run.publisher.publish, args=(2,))
    publishing.start()
    with pytest.raises(RuntimeError, match="actor-0 published version 3 after 1"):
        run.subscribers[0].receive()
    run.subscribers[0].done()
    publishing.join(5)


def test_a_thousand_publications_open_no_file_and_take_no_memory(path):
    run = path()

    def held() -> tuple[int, int]:
        files = sum(1 for _ in Path("/proc/self/fd").iterdir())
        return files, sum(1 for line in Path("/proc/self/maps").read_text().splitlines() if "memfd:rlark" in line)

    def some(count: int) -> None:
        for i in range(count):
            run.publish(np.full(LARGE, i % 7, np.float32))
            if i % 100 == 0:
                run.publish(np.full(LARGE + 1 + i, i, np.float32))

    some(101)
    before = held()
    some(1000)
    assert held() == before
