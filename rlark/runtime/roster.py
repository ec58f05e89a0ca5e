"""All ranks of a run as its driver sees them: started, given orders, and the first failure told."""

from __future__ import annotations

import os
import selectors
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn, Protocol

from rlark.host import process
from rlark.host.clock import SystemClock
from rlark.host.memory import killed_for_memory
from rlark.host.process import ProcessId
from rlark.runtime.failure import Cause, RunFailed, last_lines
from rlark.runtime.masked_log import MaskedLogs
from rlark.runtime.rank import Rank
from rlark.runtime.seat import CONTROL, STACKS, Failed, Posting
from rlark.runtime.wire import Endpoint, PeerLost, Wire, new_run

START_S = 600.0
"""How long a rank may take to load its engine; heavy libraries on a cold disk take minutes."""
LOOK_S = 0.5
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
        """End every process it started; harmless when they are gone."""
        ...


@dataclass
class _Member:
    """One rank: what it is to be told, how it is reached, and the calls that it still owes an answer, in order."""

    posting: Posting
    owes: deque[Call]
    control: Wire | None = None
    process: ProcessId | None = None


@dataclass(eq=False)
class Call:
    """Something that ranks are doing.

    Attributes:
        what: it, for messages.
        answers: what those that are done have answered.
    """

    roster: Roster
    what: str
    ranks: tuple[Rank, ...]
    answers: dict[Rank, Any] = field(default_factory=dict)

    def done(self) -> bool:
        """Whether all have answered; does not wait.

        Raises:
            RunFailed: a rank failed, any rank of the run.
        """
        self.roster.look()
        return self.finished

    @property
    def finished(self) -> bool:
        """Whether all answers that are known now are all."""
        return len(self.answers) == len(self.ranks)

    def wait(self, timeout_s: float | None = None) -> dict[Rank, Any]:
        """All answers, by rank in the order of the call.

        Args:
            timeout_s: how long they may take; None for as long as it takes.

        Raises:
            RunFailed: a rank failed, any rank of the run, or the time is over; says which was the first and why.
        """
        self.roster.wait(self, timeout_s)
        return {rank: self.answers[rank] for rank in self.ranks}


class Roster:
    """The ranks of one run, each behind a control wire.

    Attributes:
        run: the run's part of its endpoints' names.
    """

    def __init__(self, group: Group, logs: MaskedLogs | None = None) -> None:
        """Nobody yet.

        Args:
            group: starts processes.
            logs: those that are written for the ranks; none by default.
        """
        self.run = new_run()
        self._group = group
        self._logs = logs
        self._members: dict[Rank, _Member] = {}
        self._awaited: dict[str, Rank] = {}
        self._endpoint = Endpoint(f"{self.run}/{CONTROL}")
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._endpoint, selectors.EVENT_READ)
        self._until = 0.0
        self._killed_before = killed_for_memory()
        self._closed = False

    def start(self, postings: Iterable[tuple[Rank, Callable[[str], Posting]]]) -> Call:
        """Start processes; returns before they are up.

        Args:
            postings: each rank, and its posting once the run's name is known.

        Returns:
            The call that each answers with its first word.

        Raises:
            Exception: what the group says when it cannot start one; nothing is left behind then.
        """
        made = [(rank, make(self.run)) for rank, make in postings]
        call = Call(self, "start", tuple(rank for rank, _ in made))
        self._until = time.monotonic() + START_S
        try:
            for rank, posting in made:
                self._members[rank] = _Member(posting, deque([call]))
                self._awaited[_name(rank)] = rank
                self._group.start(rank, self.run)
        except BaseException:
            self.close()
            raise
        return call

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
            RunFailed: one is gone.
        """
        chosen = tuple(self._members if ranks is None else ranks)
        call = Call(self, verb, chosen)
        for rank in chosen:
            order = (verb, (arguments or {}).get(rank, ()), dict((named or {}).get(rank, {})))
            self.tell(rank, order, call)
        return call

    def tell(self, rank: Rank, message: object, call: Call) -> None:
        """Send a rank something that it will answer.

        Raises:
            RunFailed: it is gone.
        """
        member = self._members[rank]
        while member.control is None:  # it has not reported yet
            self._pump(LOOK_S)
        member.owes.append(call)
        try:
            member.control.send_object(message)
        except PeerLost:  # it may have said why before it went
            self._blame({})

    def expect(self, ranks: Collection[Rank], what: str) -> Call:
        """The call that ranks answer with their next word, unasked.

        Args:
            ranks: who.
            what: they are doing, for messages.
        """
        call = Call(self, what, tuple(ranks))
        for rank in ranks:
            self._members[rank].owes.append(call)
        return call

    def settled(self) -> None:
        """Every rank writes its log: names that were only needed to get there may go."""
        if self._logs is not None:
            self._logs.settle()

    def look(self) -> None:
        """Take what ranks have said, without waiting.

        Raises:
            RunFailed: one failed.
        """
        self._pump(0.0)

    def wait(self, call: Call, timeout_s: float | None = None) -> None:
        """Wait for a call's answers.

        Raises:
            RunFailed: a rank failed, or the time is over.
        """
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while not call.finished:
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                self._overdue(call, timeout_s)
            self._pump(left)

    @property
    def processes(self) -> dict[Rank, ProcessId | None]:
        """The process of each rank."""
        return {rank: member.process for rank, member in self._members.items()}

    def close(self) -> list[ProcessId]:
        """End all ranks. Closing twice is harmless.

        Returns:
            Processes that could not be ended.
        """
        if self._closed:
            return []
        self._closed = True
        wires = [member.control for member in self._members.values() if member.control is not None]
        for wire in wires:
            with suppress(PeerLost):
                wire.send_object(None)
        self._group.end()
        left = [member.process for member in self._members.values() if member.process is not None]
        until = time.monotonic() + END_S
        while any(process.alive(one) for one in left) and time.monotonic() < until:
            time.sleep(0.02)
        for wire in wires:
            wire.close()
        self._selector.close()
        self._endpoint.close()
        survivors = process.end(left, 0, SystemClock())
        if self._logs is not None:
            self._logs.finish(END_S)
        return survivors

    def _pump(self, timeout_s: float | None) -> None:
        """Wait for something to happen, at most so long, and take it in."""
        if self._awaited:
            timeout_s = LOOK_S if timeout_s is None else min(timeout_s, LOOK_S)
        events = self._selector.select(timeout_s)
        for key, _ in events:
            if key.fileobj is self._endpoint:
                self._admit()
            else:
                self._take(key.data)
        if self._awaited and not events:
            self._look_for_the_missing()

    def _take(self, rank: Rank) -> None:
        message = self._hear(rank)
        if message is None or isinstance(message, Failed):
            self._blame({rank: message})
        member = self._members[rank]
        member.owes.popleft().answers[rank] = message.value

    def _admit(self) -> None:
        """Let one rank in."""
        with suppress(PeerLost):
            name, control = self._endpoint.accept(LOOK_S)
            rank = self._awaited.pop(name)
            member = self._members[rank]
            own = control.peer_pid == os.getpid()  # a group may run ranks as threads: those are not for us to kill
            member.control, member.process = control, None if own else process.identify(control.peer_pid)
            self._selector.register(control, selectors.EVENT_READ, rank)
            control.send_object(member.posting)

    def _look_for_the_missing(self) -> None:
        """Find out that a rank will never come."""
        for name, rank in self._awaited.items():
            why = self._group.why(rank)
            if why is not None:
                self._give_up(Cause(rank.component, rank.rank, "ProcessDied", f"it did not start: {why}"))
            if time.monotonic() > self._until:
                self._give_up(Cause(rank.component, rank.rank, "Timeout", f"{name} did not start in {START_S:g} s"))

    def _hear(self, rank: Rank) -> Any:
        """The next message of a rank; its death is one too."""
        control = self._members[rank].control
        try:
            return control.receive_object() if control is not None else None
        except PeerLost:
            return None

    def _overdue(self, call: Call, timeout_s: float | None) -> NoReturn:
        """A call took too long: have those that are late write down where they stand, and end."""
        late = [rank for rank in call.ranks if rank not in call.answers]
        self._show_stacks(late)
        first, names = late[0], ", ".join(_name(rank) for rank in late)
        told = f"{names} did not answer {call.what} within {timeout_s:g} s; where each stands is in its log"
        self._give_up(Cause(first.component, first.rank, "Timeout", told))

    def _show_stacks(self, ranks: Iterable[Rank]) -> None:
        asked = [one for rank in ranks if (one := self._members[rank].process) is not None]
        for one in asked:
            with suppress(ProcessLookupError):
                os.kill(one.pid, STACKS)
        if asked:
            time.sleep(STACKS_S)

    def _blame(self, heard: dict[Rank, Any]) -> NoReturn:
        """Find the first cause among what ranks say, and end the run with it.

        A rank that only lost a peer is no cause unless nobody knows better.
        """
        until = time.monotonic() + BLAME_S
        with selectors.DefaultSelector() as selector:
            for rank, member in self._members.items():
                if rank not in heard and member.control is not None:
                    selector.register(member.control, selectors.EVENT_READ, rank)
            while not _knows(heard) and selector.get_map() and time.monotonic() < until:
                for key, _ in selector.select(timeout=LOOK_S):
                    message = self._hear(key.data)
                    if message is None or isinstance(message, Failed):
                        heard[key.data] = message
                        selector.unregister(key.fileobj)
        if not _knows(heard):  # somebody is silent and alive: where it stands is all that there is to know
            self._show_stacks(rank for rank in self._members if rank not in heard)
        self._give_up(self._cause(heard))

    def _cause(self, heard: Mapping[Rank, Any]) -> Cause:
        told = {rank: message for rank, message in heard.items() if isinstance(message, Failed)}
        own = {rank: message for rank, message in told.items() if not message.lost}
        died = [rank for rank, message in heard.items() if message is None]
        if own or (told and not died):
            rank, failed = min((own or told).items(), key=lambda item: item[1].at)
            return Cause(rank.component, rank.rank, failed.exception, failed.message)
        if died:
            rank = died[0]
            why = self._why(rank)
            return Cause(rank.component, rank.rank, "ProcessDied", f"its process ended without a word{why}")
        return Cause("", 0, "PeerLost", "the ranks stopped answering")

    def _why(self, rank: Rank) -> str:
        """What is known about a death; Ray needs a moment to notice one."""
        until = time.monotonic() + LOOK_S
        while (why := self._group.why(rank)) is None and time.monotonic() < until:
            time.sleep(0.02)
        known = f" ({why})" if why else ""
        if killed_for_memory() > self._killed_before:
            known += "; the kernel has killed a process here for want of memory since the run began"
        return known

    def _give_up(self, cause: Cause) -> NoReturn:
        logs = (
            m.posting.log for r, m in self._members.items() if (r.component, r.rank) == (cause.component, cause.rank)
        )
        log = next(logs, "")
        self.close()
        raise RunFailed(cause.with_log(Path(log).name, last_lines(Path(log))) if log else cause)


def _name(rank: Rank) -> str:
    return f"{rank.component}-{rank.rank}"


def _knows(heard: Mapping[Rank, Any]) -> bool:
    """Whether somebody told a cause of its own, or died."""
    return any(message is None or (isinstance(message, Failed) and not message.lost) for message in heard.values())
