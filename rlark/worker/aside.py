"""Work that is only for the record: done in the background, while the run and its end go on."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable


class Aside:
    """Pieces of work, each in a thread of its own."""

    def __init__(self) -> None:
        """Nothing was begun yet."""
        self._threads: dict[str, threading.Thread] = {}

    def once(self, name: str, work: Callable[[], None]) -> None:
        """Begin a piece of work, unless one of this name was begun before. Its failure is told and fails nothing."""
        if name in self._threads:
            return

        def do() -> None:
            try:
                work()
            except Exception:  # noqa: BLE001  a record is no condition of the run
                traceback.print_exc()

        self._threads[name] = threading.Thread(target=do, name=name, daemon=True)
        self._threads[name].start()

    def finish(self, patience_s: float) -> None:
        """Wait until all is done, for so many seconds each at most."""
        for thread in self._threads.values():
            thread.join(patience_s)
