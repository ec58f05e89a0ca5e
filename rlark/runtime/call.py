"""Something that ranks of a run are doing, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rlark.runtime.rank import Rank

if TYPE_CHECKING:
    from rlark.runtime.roster import Roster


@dataclass(eq=False)
class Call:
    """Something that ranks are doing.

    Attributes:
        roster: those ranks among others.
        what: it, for messages.
        ranks: who.
        answers: what those that are done have answered.
    """

    roster: Roster
    what: str
    ranks: tuple[Rank, ...]
    answers: dict[Rank, Any] = field(default_factory=dict)

    def done(self) -> bool:
        """Whether all have answered; does not wait.

        Raises:
            RunFailed: the run is over, whichever rank failed, and not all have.
        """
        if not self.finished:
            self.roster.require_open()
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
