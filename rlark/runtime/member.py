"""One rank as its driver knows it."""

from __future__ import annotations

import os
import pickle
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlark.host import process
from rlark.host.process import ProcessId
from rlark.runtime.call import Call
from rlark.runtime.mailbox import Mailbox
from rlark.runtime.seat import STACKS, Posting
from rlark.runtime.wire import PeerLost, Wire


@dataclass(eq=False)
class Member:
    """One rank of a run.

    Attributes:
        posting: what it is told first.
        owes: the calls that it still owes an answer, in order.
        early: what it is to be told once it has reported.
        mailbox: the way to it, once it has.
        process: its process, once it has; None where it is a thread of this one.
    """

    posting: Posting
    owes: deque[Call]
    early: list[bytes] = field(default_factory=list)
    mailbox: Mailbox | None = None
    process: ProcessId | None = None

    @property
    def log(self) -> Path | None:
        """Its log, where it has one."""
        return Path(self.posting.log) if self.posting.log else None

    def meet(self, control: Wire) -> Mailbox:
        """It has reported: tell it who it is, and what it has been told meanwhile."""
        own = control.peer_pid == os.getpid()  # a group may run ranks as threads: those are not for us to kill
        self.process = None if own else process.identify(control.peer_pid)
        self.mailbox = Mailbox(control)
        early, self.early = self.early, []
        for frame in (pickle.dumps(self.posting, protocol=5), *early):
            self.post(frame)
        return self.mailbox

    def post(self, frame: bytes) -> None:
        """Send it a pickled message, or keep it until it can be sent."""
        if self.mailbox is None:
            self.early.append(frame)
            return
        with suppress(PeerLost):  # its end is heard by itself, and it may have said why before it went
            self.mailbox.post(frame)

    def hear(self) -> list[Any]:
        """Its messages that are there; its death is one too: None."""
        heard: list[Any] = []
        try:
            for word in self.mailbox.collect() if self.mailbox is not None else ():
                heard.append(word)  # noqa: PERF402  what came before the end counts
        except PeerLost:
            heard.append(None)
        return heard

    def show_stacks(self) -> bool:
        """Have it write to its log where it stands; False where it has no process."""
        if self.process is None:
            return False
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, STACKS)
        return True
