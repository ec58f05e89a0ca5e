"""Where the channels of a run are: one thread of its driver.

It keeps what was put and not yet taken, and whoever waits. Of large items it holds a descriptor
only. Every wait is the host's, so that an answer always comes; and the host waits for nobody: a
rank that stands still in the middle of a message, or does not read its answer, holds up nobody else.
"""

from __future__ import annotations

import errno
import os
import pickle
import selectors
import sys
import threading
import time
from collections.abc import Callable, Hashable, MutableSequence
from contextlib import suppress

from rlark.host.open_files import allow_many
from rlark.runtime.caller import Caller
from rlark.runtime.channel import HOST, Answer, ChannelClosed, ChannelEmpty, ChannelFull, Request
from rlark.runtime.hosted import Asked, Held, Hosted, Queue, take
from rlark.runtime.wire import Endpoint, PeerLost

_LONG_S = 3600.0
_NAME_S = 3.0
"""How long a process that calls may take to say who it is."""
_WORDS = {
    "connect": "nobody created the channel {name}; there are {others}",
    "barrier": "{there} of {number:.0f} ranks of {name} came to the barrier",
    "put": "the channel {name} had no room",
    "get": "nothing came to the channel {name}",
    "batch": "not enough came to the channel {name}",
}
"""What those who waited too long waited for."""


class ChannelHost:
    """Hosts the channels of one run, and the meetings of its groups, until it is closed."""

    def __init__(self, run: str) -> None:
        """Listen, and serve in a thread of its own.

        Args:
            run: the run's part of its endpoints' names.
        """
        allow_many()
        self._endpoint = Endpoint(f"{run}/{HOST}", _NAME_S)
        self._channels: dict[str, Hosted] = {}
        self._seekers: list[Asked] = []
        self._meetings: dict[str, list[Asked]] = {}
        self._waiting: dict[Asked, MutableSequence[Asked]] = {}
        self._verbs: dict[str, Callable[[Asked], None]] = {
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
        self._closing = threading.Lock()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="channels", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End: whoever waits learns that the run is over. Closing twice is harmless."""
        with self._closing:
            if self._bell >= 0:
                os.write(self._bell, b"\0")
                self._thread.join()
                os.close(self._wake)
                os.close(self._bell)
                self._bell = -1

    def _serve(self) -> None:
        try:
            while self._turn():
                pass
        finally:
            self._hang_up()

    def _turn(self) -> bool:
        """Wait for something to do and do it; False when it is over."""
        next_deadline = min((asked.until for asked in self._waiting), default=_LONG_S + time.monotonic())
        patience = min(max(0.0, next_deadline - time.monotonic()), _LONG_S)
        for key, mask in self._selector.select(patience):
            if key.fileobj == self._wake:
                return False
            if key.fileobj is self._endpoint:
                self._admit()
            elif isinstance(key.fileobj, Caller):
                self._attend(key.fileobj, mask)
        self._expire(time.monotonic())
        return True

    def _admit(self) -> None:
        with suppress(PeerLost, OSError):  # it gave up, or there is no descriptor left for it now
            _, wire = self._endpoint.accept(_NAME_S)
            self._selector.register(Caller(wire), selectors.EVENT_READ)

    def _attend(self, caller: Caller, mask: int) -> None:
        """Send what waits and hear what is asked; a caller that is gone takes what it waits for with it."""
        try:
            if mask & selectors.EVENT_WRITE:
                caller.flush()
                self._watch(caller)
            if mask & selectors.EVENT_READ:
                request = next(caller.collect(), None)  # one: it says nothing more before it is answered
                if request is not None:
                    self._hear(caller, request)
        except PeerLost:
            self._forget(caller)
        except Exception as error:  # noqa: BLE001  what one caller sends must not end the others' channels
            print(f"channels: {caller.wire.peer} sent what cannot be used: {error!r}", file=sys.stderr)  # noqa: T201  a log
            self._forget(caller)

    def _hear(self, caller: Caller, request: Request) -> None:
        parcel, held = request.parcel, None
        if parcel is not None:
            held = Held(parcel, caller.arrived.popleft() if caller.arrived else None)
        asked = Asked(caller, request, time.monotonic() + request.wait_s, held)
        if held is not None and held.descriptor is None and parcel is not None and parcel.inline is None:
            told = f"{os.strerror(errno.EMFILE)} in the driver, where large items wait to be taken"
            self._answer(asked, Answer(OSError(errno.EMFILE, told)))
            return
        self._verbs[request.verb](asked)

    def _create(self, asked: Asked) -> None:
        name, maxsize = asked.request.name, int(asked.request.number)
        there = self._channels.get(name)
        if there is not None and there.maxsize != maxsize:
            told = f"the channel {name} is there already, with room for {there.maxsize or 'any number of'} items"
            self._answer(asked, Answer(ValueError(told)))
            return
        self._channels.setdefault(name, Hosted(maxsize))
        self._answer(asked, Answer())
        for seeker in [seeker for seeker in self._seekers if seeker.request.name == name]:
            self._stop_waiting(seeker)
            self._answer(seeker, Answer())

    def _connect(self, asked: Asked) -> None:
        if asked.request.name in self._channels:
            self._answer(asked, Answer())
        else:
            self._wait(asked, self._seekers)

    def _found(self, asked: Asked) -> tuple[Hosted, Queue] | None:
        """What is asked for; where there is no such channel the caller is told."""
        channel = self._channels.get(asked.request.name)
        if channel is None:
            self._refuse(asked, ValueError(f"there is no channel {asked.request.name}"))
            return None
        return channel, channel.queues.setdefault(asked.request.key, Queue())

    def _put(self, asked: Asked) -> None:
        found = self._found(asked)
        if found is None or asked.held is None:
            return
        channel, queue = found
        if channel.closed:
            self._refuse(asked, ChannelClosed(f"the channel {asked.request.name} is closed"))
        elif not channel.full(queue):
            queue.items.append(asked.held)
            self._answer(asked, Answer())
            self._serve_takers(channel, queue)
        elif asked.request.wait_s > 0:
            self._wait(asked, queue.putters)
        else:
            self._refuse(asked, ChannelFull(f"the channel {asked.request.name} holds {channel.maxsize} items"))
        self._tidy(channel, asked.request.key)

    def _get(self, asked: Asked) -> None:
        found = self._found(asked)
        if found is None:
            return
        channel, queue = found
        self._wait(asked, queue.takers)
        self._serve_takers(channel, queue)
        if asked in self._waiting and asked.request.wait_s <= 0:
            self._stop_waiting(asked)
            self._answer(asked, Answer(ChannelEmpty(f"the channel {asked.request.name} is empty")))
        self._tidy(channel, asked.request.key)

    def _size(self, asked: Asked) -> None:
        found = self._found(asked)
        if found is not None:
            channel, queue = found
            value = float(channel.full(queue)) if asked.request.number else float(len(queue.items))
            self._answer(asked, Answer(value=value))
            self._tidy(channel, asked.request.key)

    def _close(self, asked: Asked) -> None:
        channel = self._channels.get(asked.request.name)
        if channel is not None:
            channel.closed = True
            closed = ChannelClosed(f"the channel {asked.request.name} is closed")
            for key, queue in list(channel.queues.items()):
                for putter in list(queue.putters):
                    self._stop_waiting(putter)
                    self._refuse(putter, closed)
                self._serve_takers(channel, queue)
                self._tidy(channel, key)
        self._answer(asked, Answer())

    def _barrier(self, asked: Asked) -> None:
        here = self._meetings.setdefault(asked.request.name, [])
        self._wait(asked, here)
        if len(here) >= int(asked.request.number):
            del self._meetings[asked.request.name]
            for one in list(here):
                self._stop_waiting(one)
                self._answer(one, Answer())

    def _serve_takers(self, channel: Hosted, queue: Queue) -> None:
        """Give what there is to those who waited longest, and let in who waits for room."""
        while queue.takers:
            asked = queue.takers[0]
            enough = take(asked, queue.items, closed=channel.closed)
            let_in = self._let_in(channel, queue)
            if enough:
                self._stop_waiting(asked)
                self._give(asked, queue)
            elif channel.closed:
                self._stop_waiting(asked)
                self._answer(asked, Answer(ChannelClosed(f"the channel {asked.request.name} is closed and empty")))
            elif not let_in:
                return

    def _let_in(self, channel: Hosted, queue: Queue) -> bool:
        """Put what there is room for now; whether there was anything."""
        found = False
        while queue.putters and not channel.full(queue):
            putter = queue.putters[0]
            self._stop_waiting(putter)
            if putter.held is not None:
                queue.items.append(putter.held)
            self._answer(putter, Answer())
            found = True
        return found

    def _give(self, asked: Asked, queue: Queue) -> None:
        """Hand over what was taken; a taker that is gone leaves it to the next."""
        items, asked.taken = asked.taken, []
        try:
            self._post(asked.caller, Answer(parcels=tuple(held.parcel for held in items)))
        except PeerLost:
            queue.items.extendleft(reversed(items))
            return
        with suppress(PeerLost):  # it read a part: the items are its own, and go with it
            for held in items:
                if held.descriptor is not None:
                    asked.caller.hand_over(held.descriptor)
        self._watch(asked.caller)

    def _refuse(self, asked: Asked, error: Exception) -> None:
        """Say no, and let what was to be put go."""
        if asked.held is not None:
            asked.held.let_go()
        self._answer(asked, Answer(error))

    def _answer(self, asked: Asked, answer: Answer) -> None:
        with suppress(PeerLost):  # its end is heard by itself
            self._post(asked.caller, answer)

    def _post(self, caller: Caller, answer: Answer) -> None:
        caller.post(pickle.dumps(answer, protocol=5))
        self._watch(caller)

    def _watch(self, caller: Caller) -> None:
        """Wake when there is room for what waits to be sent."""
        if caller.watched != caller.waiting:
            caller.watched = caller.waiting
            self._selector.modify(caller, selectors.EVENT_READ | (selectors.EVENT_WRITE if caller.watched else 0))

    def _wait(self, asked: Asked, where: MutableSequence[Asked]) -> None:
        where.append(asked)
        self._waiting[asked] = where

    def _stop_waiting(self, asked: Asked) -> None:
        self._waiting.pop(asked).remove(asked)

    def _expire(self, now: float) -> None:
        """Tell those whose time is up; a barrier that one gave up is over for all who came."""
        for asked in [asked for asked in self._waiting if asked.until <= now]:
            here = self._waiting.get(asked, [])
            together = list(here) if asked.request.verb == "barrier" else [asked] if here else []
            names, there = ", ".join(self._channels) or "none", len(together)
            for one in together:
                words = _WORDS[one.request.verb].format(
                    name=one.request.name, number=one.request.number, there=there, others=names
                )
                self._withdraw(one, TimeoutError(f"{words} within {asked.request.wait_s:g} s"))

    def _withdraw(self, asked: Asked, error: Exception) -> None:
        """End somebody's waiting without what it waited for; what it had taken goes back to where it was."""
        self._stop_waiting(asked)
        self._refuse(asked, error)
        verb, name, key = asked.request.verb, asked.request.name, asked.request.key
        if verb == "barrier":
            if not self._meetings.get(name, [asked]):
                del self._meetings[name]
        elif verb != "connect":
            channel = self._channels[name]
            queue = channel.queues[key]
            queue.items.extendleft(reversed(asked.taken))
            self._serve_takers(channel, queue)
            self._tidy(channel, key)

    def _tidy(self, channel: Hosted, key: Hashable) -> None:
        """Forget a queue that holds nothing and nobody: keys come and go."""
        queue = channel.queues.get(key)
        if queue is not None and not (queue.items or queue.putters or queue.takers):
            del channel.queues[key]

    def _forget(self, caller: Caller) -> None:
        """Let go of a caller that is gone."""
        for asked in [asked for asked in self._waiting if asked.caller is caller]:
            self._withdraw(asked, PeerLost("it is gone"))
        self._selector.unregister(caller)
        caller.close()

    def _hang_up(self) -> None:
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, Caller):
                key.fileobj.close()
        for asked in self._waiting:
            for held in (*asked.taken, *([asked.held] if asked.held else [])):
                held.let_go()
        for channel in self._channels.values():
            for queue in channel.queues.values():
                for held in queue.items:
                    held.let_go()
        self._endpoint.close()
        self._selector.close()
