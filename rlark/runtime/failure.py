"""The first cause of a failed run, as `failure.json` tells it."""

from __future__ import annotations

import traceback
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rlark.runtime.wire import PeerLost

LINES = 20
_TAIL = 64 * 1024


@dataclass(frozen=True)
class Cause:
    """What went wrong first, and where.

    Attributes:
        component: `actor`, `rollout`, `env`, `actor+rollout+env` when fused; empty outside of any.
        rank: from 0 within the component.
        exception: the class's name; `ProcessDied` where the process ended without a word.
        message: its text.
        log: the log file that tells more, relative to the attempt's log folder.
        lines: the last lines of it.
    """

    component: str
    rank: int
    exception: str
    message: str
    log: str = ""
    lines: tuple[str, ...] = ()

    @classmethod
    def of(cls, error: BaseException, component: str, log: str) -> Cause:
        """The cause that an exception in this process is, with the end of its traceback."""
        lines = "".join(traceback.format_exception(error)).splitlines()
        return cls(component, 0, type(error).__name__, str(error), log, tuple(lines[-LINES:]))

    def with_log(self, log: str, lines: list[str]) -> Cause:
        """The same cause, with the log that tells more."""
        return replace(self, log=log, lines=tuple(lines))

    def to_json(self) -> dict[str, object]:
        """As it stands in `failure.json`."""
        return {**asdict(self), "lines": list(self.lines)}

    def __str__(self) -> str:
        where = f"{self.component} rank {self.rank}: " if self.component else ""
        log = f" (log: {self.log})" if self.log else ""
        return f"{where}{self.exception}: {self.message}{log}"


class RunFailed(Exception):
    """A rank failed, and the run with it."""

    def __init__(self, cause: Cause) -> None:
        """Take the first cause."""
        self.cause = cause
        super().__init__(str(cause))


def follows_from_a_loss(error: BaseException | None) -> bool:
    """Whether all that went wrong is that a peer is gone, however often that was raised anew."""
    while error is not None and not isinstance(error, PeerLost):
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return error is not None


def last_lines(path: Path) -> list[str]:
    """The last 20 lines of a log; none where there is no log."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - _TAIL))
            return file.read().decode(errors="replace").splitlines()[-LINES:]
    except OSError:
        return []
