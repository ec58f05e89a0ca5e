"""All ranks of a run as its driver sees them: started, given orders, and the first failure told.

One thread listens to all of them, so that an answer is taken, a large order sent and a death noticed
whatever the driver does meanwhile.
"""

from __future__ import annotations

import os
import pickle
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from rlark.host import process
from rlark.host.clock import SystemClock
from rlark.host.memory import killed_for_memory
from rlark.host.process import ProcessId
from rlark.runtime.blame import first_cause, knows, silence
from rlark.runtime.call import Call
from rlark.runtime.failure import Cause, RunFailed, last_lines
from rlark.runtime.masked_log import MaskedLogs
from rlark.runtime.member import Member
from rlark.runtime.rank import Rank
from rlark.runtime.seat import CONTROL, Failed, Posting
from rlark.runtime.wire import Endpoint, PeerLost, new_run

START_S = 600.0
"""How long a rank may take to load its engine; heavy libraries on a cold disk take minutes."""
LOOK_S = 0.5
NAME_S = 3.0
"""How long a process that calls may take to say who it is."""
BLAME_S = 2.0
"""How long to look for the cause once a rank only knows that a peer is gone."""
END_S = 2.0
STACKS_S = 0.2
"""How long ranks that are late have to write down where they stand."""


class Group(Protocol):
    """Who starts the ranks' processes (`rlark.runtime.group` does it with Ray)."""

    def start(self, rank: Rank, run: str) -> None:
        """Start one rank's process; it reports to the run's control endpoint."""
        ...

    def why(self, rank: Rank) -> str | None:
        """Why a rank's process ended; None while it runs or nothing is known."""
        ...

    def end(self) -> None:
        """End every process it started."""
        ...


class Roster:
    """The ranks of one run, each behind a control wire. Any thread may call it.

    Attributes:
        run: the run's part of its endpoints' names.
    """

    def __init__(self, group: Group, logs: MaskedLogs | None = None, at_end: Callable[[], None] = lambda: None) -> None:
        """Nobody yet.

        Args:
            group: starts processes.
            logs: those that are written for the ranks; none by default.
            at_end: called when a failure has ended the run, by whoever noticed it.
        """
        self.run = new_run()
        self._group, self._logs, self._at_end = group, logs, at_end
        self._members: dict[Rank, Member] = {}
        self._awaited: dict[str, Rank] = {}
        self._until = 0.0
        self._killed_before = killed_for_memory()
        self._over = False
        self._cause: Cause | None = None
        self._news = threading.Condition()
        self._endpoint = Endpoint(f"{self.run}/{CONTROL}", NAME_S)
        self._wake, self._bell = os.pipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._endpoint, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._listen, name="ranks", daemon=True)
        self._thread.start()

    def start(
        self, postings: Iterable[tuple[Rank, Callable[[str], Posting]]], words: Sequence[str] = ("start",)
    ) -> list[Call]:
        """Start processes; returns before they are up.

        Args:
            postings: each rank, and its posting once the run's name is known.
            words: what each answers unasked, in this order, for messages.

        Returns:
            A call for each of the words.

        Raises:
            Exception: what the group says when it cannot start one; nothing is left behind then.
        """
        made = [(rank, make(self.run)) for rank, make in postings]
        calls = [Call(self, word, tuple(rank for rank, _ in made)) for word in words]
        try:
            for rank, posting in made:
                with self._news:  # one at a time with the end, so that none is started after it
                    if self._over:
                        break  # whoever waits is told
                    self._until = time.monotonic() + START_S
                    self._members[rank] = Member(posting, deque(calls))
                    self._awaited[_name(rank)] = rank
                    self._group.start(rank, self.run)
                    self._ring()  # from now on it may be missed
        except BaseException:
            self.close()
            raise
        return calls

    def order(
        self,
        verb: str,
        arguments: Mapping[Rank, tuple[Any, ...]] | None = None,
        named: Mapping[Rank, Mapping[str, Any]] | None = None,
        *,
        ranks: Collection[Rank] | None = None,
    ) -> Call:
        """Have ranks do something, after what they do already; does not wait.

        Args:
            verb: a method of what each rank holds.
            arguments: of each rank; none by default.
            named: its named arguments.
            ranks: who; all by default.

        Raises:
            RunFailed: the run is over.
            Exception: an argument does not pickle; nobody has been told anything then.
        """
        chosen = tuple(self._members if ranks is None else ranks)
        return self.tell(
            verb,
            {rank: (verb, (arguments or {}).get(rank, ()), dict((named or {}).get(rank, {}))) for rank in chosen},
        )

    def tell(self, what: str, messages: Mapping[Rank, object]) -> Call:
        """Send ranks something that each will answer; does not wait, not even for room to send it.

        Args:
            what: they will be doing, for messages.
            messages: what each is sent.

        Raises:
            RunFailed: the run is over.
            Exception: a message does not pickle; nobody has been told anything then.
        """
        frames = {rank: pickle.dumps(message, protocol=5) for rank, message in messages.items()}
        call = Call(self, what, tuple(frames))
        with self._news:
            self.require_open()
            for rank, frame in frames.items():
                self._members[rank].owes.append(call)
                self._members[rank].post(frame)
                self._watch(rank)
        return call

    def settled(self) -> None:
        """Every rank writes its log: names that were only needed to get there may go."""
        if self._logs is not None:
            self._logs.settle()

    def wait(self, call: Call, timeout_s: float | None = None) -> None:
        """Wait for a call's answers.

        Raises:
            RunFailed: a rank failed, or the time is over.
        """
        with self._news:
            self._news.wait_for(lambda: call.finished or self._over, timeout_s)
            if call.finished:
                return
            if not self._over:
                self._overdue(call, timeout_s or 0.0)
            self.require_open()

    def require_open(self) -> None:
        """Whoever comes after the end is told what ended the run.

        Raises:
            RunFailed: it is over.
        """
        with self._news:  # so that who sees the end sees its cause
            if self._over:
                raise RunFailed(self._cause or Cause("", 0, "Closed", "the ranks of the run were ended already"))

    @property
    def cause(self) -> Cause | None:
        """What ended the run; None while it goes on and where nothing went wrong."""
        return self._cause

    @property
    def processes(self) -> dict[Rank, ProcessId | None]:
        """The process of each rank; None for one that has not reported."""
        return {rank: member.process for rank, member in self._members.items()}

    def close(self) -> list[ProcessId]:
        """End all ranks. Closing twice is harmless.

        Returns:
            Processes that could not be ended.
        """
        with self._news:
            survivors = self._end()
        self._thread.join()
        with self._news:
            if self._bell >= 0:
                os.close(self._bell)
                self._bell = -1
        return survivors

    def _listen(self) -> None:
        """Take in what happens until it is over."""
        try:
            while not self._over:
                events = self._selector.select(LOOK_S if self._awaited else None)
                with self._news:
                    if not self._over:
                        self._take_in(events)
        except Exception as error:  # noqa: BLE001  whoever waits has to be told, or would wait for ever
            with self._news:
                self._give_up(Cause.of(error, "", ""))
        finally:
            self._selector.close()
            self._endpoint.close()
            os.close(self._wake)

    def _take_in(self, events: list[tuple[selectors.SelectorKey, int]]) -> None:
        for key, mask in events:
            if key.fileobj is self._endpoint:
                self._admit()
            elif key.fileobj == self._wake:
                os.read(self._wake, 1)
            else:
                self._attend(key.data, mask)
            if self._over:
                return
        if self._awaited and not events:
            self._look_for_the_missing()

    def _attend(self, rank: Rank, mask: int) -> None:
        """Send a rank what waits for it, and take in what it has said."""
        member = self._members[rank]
        if mask & selectors.EVENT_WRITE and member.mailbox is not None:
            with suppress(PeerLost):  # its end is heard by itself
                member.mailbox.flush()
            self._watch(rank)
        for word in member.hear() if mask & selectors.EVENT_READ else ():
            if word is None or isinstance(word, Failed):
                self._blame(rank, word)
                return
            call = member.owes.popleft()
            call.answers[rank] = word.value
            if call.finished:
                self._news.notify_all()

    def _admit(self) -> None:
        """Let one rank in."""
        with suppress(PeerLost):
            name, control = self._endpoint.accept(LOOK_S)
            rank = self._awaited.pop(name)
            self._selector.register(self._members[rank].meet(control), selectors.EVENT_READ, rank)
            self._watch(rank)

    def _watch(self, rank: Rank) -> None:
        """Wake when there is room for what waits to be sent."""
        mailbox = self._members[rank].mailbox
        if mailbox is not None:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if mailbox.waiting else 0)
            if self._selector.get_key(mailbox).events != wanted:
                self._selector.modify(mailbox, wanted, rank)

    def _ring(self) -> None:
        with suppress(OSError):  # it listens no more
            if self._bell >= 0:
                os.write(self._bell, b"\0")

    def _look_for_the_missing(self) -> None:
        """Find out that a rank will never come."""
        for name, rank in self._awaited.items():
            why = self._group.why(rank)
            if why is not None:
                self._give_up(Cause(rank.component, rank.rank, "ProcessDied", f"it did not start: {why}"))
                return
            if time.monotonic() > self._until:
                self._give_up(Cause(rank.component, rank.rank, "Timeout", f"{name} did not start in {START_S:g} s"))
                return

    def _overdue(self, call: Call, timeout_s: float) -> None:
        """A call took too long: have those that are late write down where they stand, and end."""
        late = [rank for rank in call.ranks if rank not in call.answers]
        self._show_stacks(late)
        first, names = late[0], ", ".join(_name(rank) for rank in late)
        told = f"{names} did not answer {call.what} within {timeout_s:g} s; where each stands is in its log"
        self._give_up(Cause(first.component, first.rank, "Timeout", told))

    def _show_stacks(self, ranks: Iterable[Rank]) -> None:
        asked = [self._members[rank].show_stacks() for rank in ranks]
        if any(asked):
            time.sleep(STACKS_S)

    def _blame(self, rank: Rank, word: Failed | None) -> None:
        """A rank has ended: find the first cause among what all say, and end the run with it."""
        heard, until = {rank: word}, time.monotonic() + BLAME_S
        with selectors.DefaultSelector() as selector:
            for other, member in self._members.items():
                if other != rank and member.mailbox is not None:
                    selector.register(member.mailbox, selectors.EVENT_READ, other)
            while not knows(heard) and selector.get_map() and time.monotonic() < until:
                for key, _ in selector.select(timeout=LOOK_S):
                    ends = [one for one in self._members[key.data].hear() if one is None or isinstance(one, Failed)]
                    if ends:
                        heard[key.data] = ends[0]
                        selector.unregister(key.fileobj)
        silent = [other for other, member in self._members.items() if other not in heard and member.owes]
        if not knows(heard) and silent:  # alive, and so the cause: where it stands is all that there is to know
            self._show_stacks(silent)
            self._give_up(silence(heard, silent))
        else:
            self._give_up(first_cause(heard, self._why))

    def _why(self, rank: Rank) -> str:
        """What is known about a death; Ray needs a moment to notice one."""
        until = time.monotonic() + LOOK_S
        while (why := self._group.why(rank)) is None and time.monotonic() < until:
            time.sleep(0.02)
        known = f" ({why})" if why else ""
        if killed_for_memory() > self._killed_before:
            known += "; the kernel has killed a process here for want of memory since the run began"
        return known

    def _give_up(self, cause: Cause) -> None:
        """End the run with its first cause."""
        told = (cause.component, cause.rank)
        log = next((member.log for rank, member in self._members.items() if (rank.component, rank.rank) == told), None)
        self._end()
        self._cause = cause.with_log(log.name, last_lines(log)) if log else cause
        self._at_end()
        self._news.notify_all()

    def _end(self) -> list[ProcessId]:
        """End every rank; whom it could not end."""
        if self._over:
            return []
        self._over = True
        self._ring()
        boxes = [member.mailbox for member in self._members.values() if member.mailbox is not None]
        for box in boxes:
            with suppress(PeerLost):
                box.post(pickle.dumps(None))
        self._group.end()
        left = [member.process for member in self._members.values() if member.process is not None]
        until = time.monotonic() + END_S
        while any(process.alive(one) for one in left) and time.monotonic() < until:
            time.sleep(0.02)
        for box in boxes:
            box.wire.close()
        survivors = process.end(left, 0, SystemClock())
        if self._logs is not None:
            self._logs.finish(END_S)
        self._news.notify_all()
        return survivors


def _name(rank: Rank) -> str:
    return f"{rank.component}-{rank.rank}"
