from __future__ import annotations

import pytest

from rlark.engine import load_attribute
from rlark.runtime.failure import RunFailed
from rlark.runtime.offload import Presence, offloaded
from rlark.runtime.trainer import FusedTrainer, Workload

PROGRAM = "moving_engine:PROGRAM"
ALL = {"actor": {"enable_offload": True}, "rollout": {"enable_offload": True}}
ALL["env"] = {"train": {"enable_offload": True}}


def test_the_flags_stand_where_rlinf_has_them():
    assert offloaded(ALL) == {"actor", "rollout", "env"}
    assert offloaded({"actor": {"enable_offload": False}, "rollout": None, "env": {}}) == set()


class Thing:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def offload(self) -> int:
        self.calls.append("off")
        return 10

    def onload(self) -> int:
        self.calls.append("on")
        return 10


def test_it_moves_once_each_way_and_counts():
    thing = Thing()
    presence = Presence("actor", thing, offloaded=True)
    presence.come()
    presence.leave()
    presence.leave()
    with presence.present():
        pass
    presence.come()
    assert thing.calls == ["off", "on", "off", "on"]
    assert presence.metrics() == {"actorOffloadBytes": 40}
    assert presence.metrics() == {"actorOffloadBytes": 0}


def test_who_is_not_offloaded_stays_and_tells_nothing():
    thing = Thing()
    presence = Presence("env", thing, offloaded=False)
    presence.leave()
    presence.come()
    assert (thing.calls, presence.metrics()) == ([], {})


def test_who_cannot_move_says_which_key_to_change():
    with pytest.raises(ValueError, match=r"env\.train\.enable_offload: the env of this engine has nothing"):
        Presence("env", object(), offloaded=True)


def test_fused_nobody_computes_while_away_and_checkpoints_see_everybody(assign):
    plan = assign(fused=True, **ALL).plan
    trainer = FusedTrainer(Workload.of(load_attribute(PROGRAM), plan), threads=1)
    for _ in range(2):
        metrics = trainer.iterate()
        state = trainer.state()
        trainer.restore(state)
    assert {name: metrics[name] > 0 for name in metrics if name.endswith("OffloadBytes")} == {
        "actorOffloadBytes": True,
        "rolloutOffloadBytes": True,
        "envOffloadBytes": True,
    }


@pytest.mark.parametrize("ranks", [(1, 1, 1), (1, 2, 2)])
def test_placed_too_and_the_bytes_of_all_ranks_are_counted(placed, assign, ranks):
    with placed(assign(ranks=ranks, **ALL), program=PROGRAM) as (trainer, _):
        trainer.iterate()
        trainer.restore(trainer.state())
        trainer.iterate()
        metrics = trainer.iterate()
    wanted = {"actorOffloadBytes": 200, "rolloutOffloadBytes": 20 * ranks[1], "envOffloadBytes": 2 * ranks[2]}
    assert {name: metrics[name] for name in wanted} == wanted


def test_an_engine_that_cannot_is_refused_before_it_trains(placed, assign):
    with (
        pytest.raises(RunFailed, match=r"actor\.enable_offload: the actor of this engine has nothing"),
        placed(assign(actor={"enable_offload": True}), program="counting_engine:PROGRAM"),
    ):
        pass
