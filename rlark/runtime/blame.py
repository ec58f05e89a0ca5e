"""Which failure was the first, among what the ranks of a run say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rlark.runtime.failure import Cause
from rlark.runtime.rank import Rank
from rlark.runtime.seat import Failed

Heard = Mapping[Rank, Failed | None]
"""The last word of each rank that has said one; None where its process ended."""


def knows(heard: Heard) -> bool:
    """Whether somebody told a cause of its own, or died."""
    return any(word is None or not word.lost for word in heard.values())


def first_cause(heard: Heard, why: Callable[[Rank], str]) -> Cause:
    """The first cause.

    A rank that only lost a peer is no cause unless nobody knows better.

    Args:
        heard: what ranks say.
        why: what is known about a process that ended.
    """
    told = {rank: word for rank, word in heard.items() if word is not None}
    own = {rank: word for rank, word in told.items() if not word.lost}
    died = [rank for rank, word in heard.items() if word is None]
    if own or (told and not died):
        rank, failed = min((own or told).items(), key=lambda item: item[1].at)
        return Cause(rank.component, rank.rank, failed.exception, failed.message)
    if died:
        rank = died[0]
        return Cause(rank.component, rank.rank, "ProcessDied", f"its process ended without a word{why(rank)}")
    return Cause("", 0, "PeerLost", "the ranks stopped answering")


def silence(heard: Heard, silent: Sequence[Rank]) -> Cause:
    """The cause where all that ranks say is that a peer is lost, and no process ended.

    Args:
        heard: what ranks say.
        silent: those that live, have something to do, and say nothing.
    """
    first, names = silent[0], [f"{rank.component}-{rank.rank}" for rank in silent]
    words = [word for word in heard.values() if word is not None]
    # whoever waits for one that waits in vain may have lost patience first
    told = min(words, key=lambda word: (not any(name in word.message for name in names), word.at)).message
    return Cause(first.component, first.rank, "Timeout", f"{told}; where each stands is in its log: {', '.join(names)}")
