"""The ranks' processes as plain children of this one: no Job, no Ray."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from contextlib import suppress

from rlark.runtime import seat
from rlark.runtime.rank import Rank
from rlark.runtime.wire import Wire

GRACE_S = 1.0
"""How long a rank has to end by itself when its driver is gone."""


class Subprocesses:
    """Starts ranks as children (`rlark.runtime.roster.Group`)."""

    def __init__(self) -> None:
        """None yet."""
        self._children: dict[Rank, subprocess.Popen[bytes]] = {}

    @property
    def processes(self) -> dict[Rank, int]:
        """The process of each rank that was started, by number."""
        return {rank: child.pid for rank, child in self._children.items()}

    def start(self, rank: Rank, run: str) -> None:
        """Start one rank's process."""
        command = [sys.executable, "-m", __name__, run, rank.component, str(rank.rank)]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._children[rank] = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL)

    def why(self, rank: Rank) -> str | None:
        """How its process ended; None while it runs."""
        code = self._children[rank].poll()
        if code is None:
            return None
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def end(self) -> None:
        """End every process it started."""
        for child in self._children.values():
            if child.poll() is None:
                child.kill()
        for child in self._children.values():
            with suppress(subprocess.TimeoutExpired):
                child.wait(5)


def main(run: str, component: str, rank: str) -> None:
    """Be one rank."""
    control, posting = seat.take(run, component, int(rank))
    over = threading.Event()
    threading.Thread(target=_outlive_nobody, args=(control, over), daemon=True).start()
    seat.settle(posting)
    seat.serve(control, posting)
    over.set()


def _outlive_nobody(control: Wire, over: threading.Event) -> None:
    """End with the driver, whatever this rank is doing then; with Ray that is Ray's work."""
    hung_up = select.poll()
    hung_up.register(control, select.POLLRDHUP)
    hung_up.poll()
    if not over.wait(GRACE_S):
        os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
