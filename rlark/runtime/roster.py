"""All ranks of a run as its driver sees them: started, given orders, and the first failure told."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

from rlark.host import process
from rlark.host.clock import SystemClock
from rlark.host.process import ProcessId
from rlark.runtime.failure import Cause, RunFailed, last_lines
from rlark.runtime.masked_log import MaskedLogs
from rlark.runtime.rank import Rank
from rlark.runtime.seat import CONTROL, Done, Failed, Listening, Posting, Ready
from rlark.runtime.wire import Endpoint, PeerLost, Wire, new_run

START_S = 600.0
"""How long a rank may take to load its engine; heavy libraries on a cold disk take minutes."""
LOOK_S = 0.5
BLAME_S = 2.0
"""How long to look for the cause once a rank only knows that a peer is gone."""
END_S = 3.0


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
    posting: Posting
    control: Wire
    process: ProcessId | None


class Roster:
    """The ranks of one run, each behind a control wire."""

    def __init__(
        self,
        group: Group,
        postings: Iterable[tuple[Rank, Callable[[str], Posting]]],
        logs: MaskedLogs | None = None,
    ) -> None:
        """Start every rank's process; returns before they are up.

        Args:
            group: starts processes.
            postings: each rank, and its posting once the run's name is known.
            logs: those that are written for the ranks; none by default.

        Raises:
            Exception: what the group says when it cannot start one; nothing is left behind then.
        """
        self._group = group
        self._logs = logs
        self._members: dict[Rank, _Member] = {}
        run = new_run()
        self._endpoint = Endpoint(f"{run}/{CONTROL}")
        try:
            self._postings = {rank: make(run) for rank, make in postings}
            for rank in self._postings:
                group.start(rank, run)
        except BaseException:
            self.close()
            raise

    def gather(self) -> dict[Rank, Ready]:
        """Wait until every rank is built.

        Raises:
            RunFailed: one could not be.
        """
        awaited = {f"{rank.component}-{rank.rank}": rank for rank in self._postings}
        until = time.monotonic() + START_S
        while awaited:
            self._admit(awaited, until)
        self._collect(Listening)
        for member in self._members.values():
            self._tell(member, "meet")
        ready: dict[Rank, Ready] = self._collect(Ready)
        if self._logs is not None:
            self._logs.settle()
        return ready

    def order(self, verb: str, arguments: Mapping[Rank, tuple[Any, ...]] | None = None) -> dict[Rank, Any]:
        """Have every rank do something at the same time, and wait for all answers.

        Raises:
            RunFailed: one could not; says which was the first and why.
        """
        for rank, member in self._members.items():
            self._tell(member, (verb, (arguments or {}).get(rank, ())))
        return {rank: done.value for rank, done in self._collect(Done).items()}

    @property
    def processes(self) -> dict[Rank, ProcessId | None]:
        """The process of each rank."""
        return {rank: member.process for rank, member in self._members.items()}

    def close(self) -> list[ProcessId]:
        """End all ranks.

        Returns:
            Processes that could not be ended.
        """
        for member in self._members.values():
            try:
                member.control.send_object(None)
            except PeerLost:
                continue
        self._group.end()
        left = [member.process for member in self._members.values() if member.process is not None]
        until = time.monotonic() + END_S
        while any(process.alive(one) for one in left) and time.monotonic() < until:
            time.sleep(0.02)
        for member in self._members.values():
            member.control.close()
        self._endpoint.close()
        survivors = process.end(left, 0, SystemClock())
        if self._logs is not None:
            self._logs.finish(END_S)
        return survivors

    def _admit(self, awaited: dict[str, Rank], until: float) -> None:
        """Let one rank in, or find out that one will never come."""
        try:
            name, control = self._endpoint.accept(LOOK_S)
        except PeerLost:
            for name, rank in awaited.items():
                why = self._group.why(rank)
                if why is not None:
                    self._give_up(Cause(rank.component, rank.rank, "ProcessDied", f"it did not start: {why}"))
                if time.monotonic() > until:
                    self._give_up(Cause(rank.component, rank.rank, "Timeout", f"{name} did not start in {START_S:g} s"))
            return
        rank = awaited.pop(name)
        own = control.peer_pid == os.getpid()  # a group may run ranks as threads: those are not for us to kill
        member = _Member(self._postings[rank], control, None if own else process.identify(control.peer_pid))
        self._members[rank] = member
        self._tell(member, member.posting)

    def _tell(self, member: _Member, message: object) -> None:
        try:
            member.control.send_object(message)
        except PeerLost:  # it may have said why before it went
            self._blame({})

    def _collect(self, kind: type[Any]) -> dict[Rank, Any]:
        """One answer of a kind from every rank."""
        answers: dict[Rank, Any] = {}
        with selectors.DefaultSelector() as selector:
            for rank, member in self._members.items():
                selector.register(member.control, selectors.EVENT_READ, rank)
            while len(answers) < len(self._members):
                for key, _ in selector.select():
                    rank = key.data
                    answer = self._hear(rank)
                    if not isinstance(answer, kind):
                        self._blame({rank: answer})
                    answers[rank] = answer
                    selector.unregister(key.fileobj)
        return answers

    def _hear(self, rank: Rank) -> Any:
        """The next message of a rank; its death is one too."""
        try:
            return self._members[rank].control.receive_object()
        except PeerLost:
            return None

    def _blame(self, heard: dict[Rank, Any]) -> NoReturn:
        """Find the first cause among what ranks say, and end the run with it.

        A rank that only lost a peer is no cause unless nobody knows better.
        """
        until = time.monotonic() + BLAME_S
        with selectors.DefaultSelector() as selector:
            for rank, member in self._members.items():
                if rank not in heard:
                    selector.register(member.control, selectors.EVENT_READ, rank)
            while not _knows(heard) and selector.get_map() and time.monotonic() < until:
                for key, _ in selector.select(timeout=LOOK_S):
                    message = self._hear(key.data)
                    if message is None or isinstance(message, Failed):
                        heard[key.data] = message
                        selector.unregister(key.fileobj)
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
        return f" ({why})" if why else ""

    def _give_up(self, cause: Cause) -> NoReturn:
        log = next(
            (p.log for r, p in self._postings.items() if (r.component, r.rank) == (cause.component, cause.rank)), ""
        )
        self.close()
        raise RunFailed(cause.with_log(Path(log).name, last_lines(Path(log))) if log else cause)


def _knows(heard: Mapping[Rank, Any]) -> bool:
    """Whether somebody told a cause of its own, or died."""
    return any(message is None or (isinstance(message, Failed) and not message.lost) for message in heard.values())
