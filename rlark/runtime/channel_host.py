"""Where the channels of a run are: one thread of its driver.

It keeps what was put and not yet taken, and whoever waits. Of large items it holds a descriptor
only. Every wait is the host's, so that an answer always comes, and no message is left half read.
"""

from __future__ import annotations

import os
import selectors
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from rlark.runtime.channel import HOST, Answer, ChannelClosed, ChannelEmpty, ChannelFull, Parcel, Request
from rlark.runtime.wire import Endpoint, PeerLost, Wire

_LONG_S = 3600.0


class _Held(NamedTuple):
    """An item in a queue: what is said of it, and the descriptor of its block, if it has one."""

    parcel: Parcel
    descriptor: int | None


@dataclass(eq=False)
class _Waiting:
    """Somebody whose answer has to wait."""

    wire: Wire
    request: Request
    until: float
    held: _Held | None = None


@dataclass
class _Queue:
    items: deque[_Held] = field(default_factory=deque)
    putters: deque[_Waiting] = field(default_factory=deque)
    takers: deque[_Waiting] = field(default_factory=deque)


@dataclass
class _Hosted:
    """One channel."""

    maxsize: int
    closed: bool = False
    queues: dict[Hashable, _Queue] = field(default_factory=dict)

    def queue(self, key: Hashable) -> _Queue:
        return self.queues.setdefault(key, _Queue())

    def full(self, queue: _Queue) -> bool:
        return 0 < self.maxsize <= len(queue.items)


class ChannelHost:
    """Hosts the channels of one run, and the meetings of its groups, until it is closed."""

    def __init__(self, run: str) -> None:
        """Listen, and serve in a thread of its own.

        Args:
            run: the run's part of its endpoints' names.
        """
        self._endpoint = Endpoint(f"{run}/{HOST}")
        self._channels: dict[str, _Hosted] = {}
        self._seekers: list[_Waiting] = []
        self._meetings: dict[str, list[_Waiting]] = {}
        self._verbs: dict[str, Callable[[_Waiting], None]] = {
            "create": self._create,
            "connect": self._connect,
            "put": self._put,
            "get": self._get,
            "batch": self._get,
            "size": self._size,
            "close": self._close,
            "barrier": self._barrier,
        }
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._endpoint, selectors.EVENT_READ)
        self._wake, self._bell = os.pipe()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="channels", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End: whoever waits learns that the run is over. Closing twice is harmless."""
        if self._thread.is_alive():
            os.write(self._bell, b"\0")
            self._thread.join()

    def _serve(self) -> None:
        try:
            while self._turn():
                pass
        finally:
            self._hang_up()

    def _turn(self) -> bool:
        """Wait for something to do and do it; False when it is over."""
        for key, _ in self._selector.select(timeout=max(0.0, self._next_deadline() - time.monotonic())):
            if key.fileobj == self._wake:
                return False
            if key.fileobj is self._endpoint:
                self._admit()
            elif isinstance(key.fileobj, Wire):
                self._hear(key.fileobj)
        self._expire(time.monotonic())
        return True

    def _admit(self) -> None:
        with suppress(PeerLost):
            _, wire = self._endpoint.accept(1.0)
            self._selector.register(wire, selectors.EVENT_READ)

    def _hear(self, wire: Wire) -> None:
        """Take one request; a caller that is gone takes what it waits for with it."""
        try:
            request: Request = wire.receive_object()
            blocky = request.parcel is not None and request.parcel.inline is None
            descriptor = wire.receive_descriptor() if blocky else None
        except PeerLost:
            self._forget(wire)
            return
        except Exception as error:  # noqa: BLE001  what one caller sends must not end the others' channels
            print(f"channels: {wire.peer} sent what cannot be read here: {error}", file=sys.stderr)  # noqa: T201  a log
            self._forget(wire)
            return
        held = _Held(request.parcel, descriptor) if request.parcel is not None else None
        self._verbs[request.verb](_Waiting(wire, request, time.monotonic() + request.wait_s, held))

    def _create(self, asked: _Waiting) -> None:
        name, maxsize = asked.request.name, int(asked.request.number)
        there = self._channels.get(name)
        if there is not None and there.maxsize != maxsize:
            told = f"the channel {name} is there already, with room for {there.maxsize or 'any number of'} items"
            self._answer(asked, Answer(ValueError(told)))
            return
        self._channels.setdefault(name, _Hosted(maxsize))
        self._answer(asked, Answer())
        found = [seeker for seeker in self._seekers if seeker.request.name == name]
        self._seekers = [seeker for seeker in self._seekers if seeker.request.name != name]
        for seeker in found:
            self._answer(seeker, Answer())

    def _connect(self, asked: _Waiting) -> None:
        if asked.request.name in self._channels:
            self._answer(asked, Answer())
        else:
            self._seekers.append(asked)

    def _put(self, asked: _Waiting) -> None:
        channel, held = self._channels.get(asked.request.name), asked.held
        if channel is None or held is None:
            self._refuse(asked, ValueError(f"there is no channel {asked.request.name}"))
            return
        queue = channel.queue(asked.request.key)
        if channel.closed:
            self._refuse(asked, ChannelClosed(f"the channel {asked.request.name} is closed"))
        elif not channel.full(queue):
            queue.items.append(held)
            self._answer(asked, Answer())
            self._serve_takers(channel, queue)
        elif asked.request.wait_s > 0:
            queue.putters.append(asked)
        else:
            self._refuse(asked, ChannelFull(f"the channel {asked.request.name} holds {channel.maxsize} items"))

    def _get(self, asked: _Waiting) -> None:
        channel = self._channels.get(asked.request.name)
        if channel is None:
            self._answer(asked, Answer(ValueError(f"there is no channel {asked.request.name}")))
            return
        queue = channel.queue(asked.request.key)
        queue.takers.append(asked)
        self._serve_takers(channel, queue)
        if asked in queue.takers and asked.request.wait_s <= 0:
            queue.takers.remove(asked)
            self._answer(asked, Answer(ChannelEmpty(f"the channel {asked.request.name} is empty")))

    def _size(self, asked: _Waiting) -> None:
        channel = self._channels.get(asked.request.name)
        if channel is None:
            self._answer(asked, Answer(ValueError(f"there is no channel {asked.request.name}")))
            return
        queue = channel.queue(asked.request.key)
        value = float(channel.full(queue)) if asked.request.number else float(len(queue.items))
        self._answer(asked, Answer(value=value))

    def _close(self, asked: _Waiting) -> None:
        channel = self._channels.get(asked.request.name)
        if channel is not None:
            channel.closed = True
            closed = ChannelClosed(f"the channel {asked.request.name} is closed")
            for queue in channel.queues.values():
                while queue.putters:
                    self._refuse(queue.putters.popleft(), closed)
                self._serve_takers(channel, queue)
        self._answer(asked, Answer())

    def _barrier(self, asked: _Waiting) -> None:
        name, size = asked.request.name, int(asked.request.number)
        here = self._meetings.setdefault(name, [])
        here.append(asked)
        if len(here) == size:
            del self._meetings[name]
            for one in here:
                self._answer(one, Answer())

    def _serve_takers(self, channel: _Hosted, queue: _Queue) -> None:
        """Give what there is to those who waited longest, and let in who waits for room."""
        while queue.takers:
            asked = queue.takers[0]
            count = _enough(asked.request, queue.items, closed=channel.closed)
            if not count:
                if not channel.closed:
                    return
                queue.takers.popleft()
                self._answer(asked, Answer(ChannelClosed(f"the channel {asked.request.name} is closed and empty")))
                continue
            queue.takers.popleft()
            self._give(asked, [queue.items.popleft() for _ in range(count)])
            while queue.putters and not channel.full(queue):
                putter = queue.putters.popleft()
                if putter.held is not None:
                    queue.items.append(putter.held)
                self._answer(putter, Answer())

    def _give(self, asked: _Waiting, items: list[_Held]) -> None:
        self._answer(asked, Answer(parcels=tuple(held.parcel for held in items)))
        for held in items:
            if held.descriptor is not None:
                with suppress(PeerLost):
                    asked.wire.send_descriptor(held.descriptor)
                os.close(held.descriptor)

    def _refuse(self, asked: _Waiting, error: Exception) -> None:
        """Say no, and let what was to be put go."""
        if asked.held is not None and asked.held.descriptor is not None:
            os.close(asked.held.descriptor)
        self._answer(asked, Answer(error))

    def _answer(self, asked: _Waiting, answer: Answer) -> None:
        with suppress(PeerLost):  # its end is heard by itself
            asked.wire.send_object(answer)

    def _all_waiting(self) -> Iterator[tuple[list[_Waiting] | deque[_Waiting], str]]:
        """Every list of those who wait, and what they wait for."""
        yield self._seekers, "nobody created the channel {name}; there are " + (", ".join(self._channels) or "none")
        for here in self._meetings.values():
            yield here, "{there} of {number:.0f} ranks of {name} came to the barrier"
        for channel in self._channels.values():
            for queue in channel.queues.values():
                yield queue.putters, "the channel {name} had no room"
                yield queue.takers, "nothing came to the channel {name}"

    def _next_deadline(self) -> float:
        deadlines = [asked.until for waiting, _ in self._all_waiting() for asked in waiting]
        return min(deadlines, default=time.monotonic() + _LONG_S)

    def _expire(self, now: float) -> None:
        """Tell those whose time is up."""
        for waiting, words in self._all_waiting():
            there = len(waiting)
            for asked in [asked for asked in waiting if asked.until <= now]:
                told = words.format(name=asked.request.name, number=asked.request.number, there=there)
                waiting.remove(asked)
                self._refuse(asked, TimeoutError(f"{told} within {asked.request.wait_s:g} s"))

    def _forget(self, wire: Wire) -> None:
        """Let go of a caller that is gone."""
        for waiting, _ in self._all_waiting():
            for asked in [asked for asked in waiting if asked.wire is wire]:
                waiting.remove(asked)
                self._refuse(asked, PeerLost("it is gone"))
        self._selector.unregister(wire)
        wire.close()

    def _hang_up(self) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, Wire):
                key.fileobj.close()
        for channel in self._channels.values():
            for queue in channel.queues.values():
                for held in (*queue.items, *(asked.held for asked in queue.putters)):
                    if held is not None and held.descriptor is not None:
                        os.close(held.descriptor)
        self._endpoint.close()
        self._selector.close()
        os.close(self._wake)
        os.close(self._bell)


def _enough(request: Request, items: deque[_Held], *, closed: bool) -> int:
    """How many items answer a request; 0 while it has to wait."""
    if request.verb == "get" or not items:
        return min(1, len(items))
    total, count = 0.0, 0
    for held in items:
        if count and total + held.parcel.weight > request.number:
            return count
        total, count = total + held.parcel.weight, count + 1
        if total >= request.number:
            return count
    return count if closed or request.wait_s <= 0 else 0
