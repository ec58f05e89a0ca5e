from __future__ import annotations

import pytest

from rlark.engine import load_attribute
from rlark.runtime.component import Shape
from rlark.runtime.exchange import ActorSide
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
    def __init__(self, size: int = 10) -> None:
        self.calls: list[str] = []
        self.size = size

    def offload(self) -> int:
        self.calls.append("off")
        return self.size

    def onload(self) -> int:
        self.calls.append("on")
        return self.size


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


@pytest.mark.parametrize(("size", "told"), [(0, 1), (10, 0)])
def test_where_there_is_nothing_to_move_it_is_said_once(caplog, size, told):
    presence = Presence("env", Thing(size), offloaded=True)
    for _ in range(3):
        presence.leave()
        presence.come()
    assert caplog.text.count("env.train.enable_offload has no effect") == told


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


@pytest.mark.parametrize("stages", [1, 2])
def test_a_phase_begins_when_those_of_the_last_one_have_left(placed, assign, stages):
    config = {**ALL, "rollout": {"enable_offload": True, "pipeline_stage_num": stages}}
    with placed(assign(ranks=(1, 2, 2), **config), program=PROGRAM) as (trainer, _):
        moves = load_attribute("moving_engine:MOVES")
        trainer.iterate()
        moves.clear()
        trainer.iterate()
        seen = list(moves)
    assert seen[: 2 * stages] == ["Env on"] * 2 * stages
    assert sorted(seen[2 * stages : -4]) == ["Env off"] * 2 * stages + ["Rollout off"] * 2
    assert seen[-4:] == ["Actor on", "Actor off", "Rollout on", "Rollout on"]


def test_fused_there_is_room_for_one_phase_at_a_time_from_the_start(assign):
    moves = load_attribute("moving_engine:MOVES")
    moves.clear()
    trainer = FusedTrainer(Workload.of(load_attribute(PROGRAM), assign(fused=True, **ALL).plan), threads=1)
    trainer.iterate()
    assert moves == ["Actor off", "Env off", "Rollout off", "Actor on", "Actor off", "Rollout on"]


@pytest.mark.parametrize("offload", [True, False])
def test_actor_ranks_make_room_together(offload):
    calls: list[str] = []

    class Team:
        rank, size = 1, 2

        def gather(self, _numbers):
            calls.append("met")

    class Actor(Thing):
        def update(self, _trajectory):
            self.calls.append("learns")
            return {}

    actor = Actor()
    actor.calls = calls
    presence = Presence("actor", actor, offloaded=offload)
    side = ActorSide(actor, Shape(1, 2, 2, 3, 1), 1, rollouts=[], weights_to=[], presence=presence, team=Team())
    side.begin()
    side.iterate()
    assert calls == (["off", "met", "met", "on", "learns", "off", "met"] if offload else ["learns"])


def test_an_engine_that_cannot_is_refused_before_it_trains(placed, assign):
    with (
        pytest.raises(RunFailed, match=r"actor\.enable_offload: the actor of this engine has nothing"),
        placed(assign(actor={"enable_offload": True}), program="counting_engine:PROGRAM"),
    ):
        pass
