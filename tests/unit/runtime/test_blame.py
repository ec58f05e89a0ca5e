from __future__ import annotations

from rlark.runtime.blame import first_cause, knows, silence
from rlark.runtime.rank import Rank
from rlark.runtime.seat import Failed

ENV, ROLLOUT, ACTOR = (Rank("demo", name) for name in ("env", "rollout", "actor"))


def no_more(_: Rank) -> str:
    return ""


def lost(message: str, at: float) -> Failed:
    return Failed("PeerLost", message, lost=True, at=at)


def test_an_exception_of_ones_own_is_the_cause_and_the_earliest_of_several():
    heard = {
        ACTOR: lost("rollout-0 hung up", 1.0),
        ROLLOUT: Failed("ValueError", "second", lost=False, at=3.0),
        ENV: Failed("KeyError", "first", lost=False, at=2.0),
    }
    assert knows(heard)
    assert str(first_cause(heard, no_more)) == "env rank 0: KeyError: first"


def test_a_death_is_the_cause_where_the_others_only_lost_a_peer():
    heard = {ACTOR: lost("rollout-0 hung up", 1.0), ROLLOUT: None}
    assert knows(heard)
    assert first_cause(heard, lambda rank: f" (as {rank.component} knows)").message == (
        "its process ended without a word (as rollout knows)"
    )


def test_one_that_is_silent_is_the_cause_where_all_say_that_a_peer_is():
    heard = {ACTOR: lost("rollout-0 was silent for 5 s", 1.0), ROLLOUT: lost("env-0 was silent for 5 s", 1.1)}
    assert not knows(heard)
    cause = silence(heard, [ENV])
    assert (cause.component, cause.exception) == ("env", "Timeout")
    assert cause.message == "env-0 was silent for 5 s; where each stands is in its log: env-0"
