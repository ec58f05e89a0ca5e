"""Many Jobs, many orders, and a controller that dies in between: what must always hold."""

from __future__ import annotations

import random

import pytest

from rlark.errors import RlarkError
from rlark.spec.status import Phase
from rlark.testing import job_text

NAMES = ("a", "b", "c", "d")


def order(platform, dice: random.Random) -> None:
    """One thing that happens, of all that can."""
    name, gpu = dice.choice(NAMES), dice.choice((0, 1, 2))
    controller = platform.controller
    living = [worker for worker in platform.cluster.workers if worker.alive]
    choices = [
        lambda: controller.submit(job_text(name, gpu=gpu, priority=dice.choice((0, 5)))),
        lambda: controller.submit(job_text(name, gpu=gpu, restartPolicy="OnFailure", backoffLimit=1), replace=True),
        lambda: controller.stop(name),
        lambda: controller.start(name),
        lambda: controller.restart(name),
        lambda: controller.delete(name),
        lambda: controller.patch(name, {"spec": {"priority": dice.randint(0, 9)}}),
        lambda: controller.patch_node("node-0", {"spec": {"unschedulable": dice.random() < 0.3}}),
        platform.again,
        platform.cluster.restart,
        lambda: platform.clock.advance(dice.choice((1, 20, 60))),
    ]
    if living:
        worker = dice.choice(living)
        choices += [
            lambda: worker.finish(dice.choice((0, 1))),
            worker.die,
            lambda: setattr(worker, "obeys", not worker.obeys),
        ]
    try:
        dice.choice(choices)()
    except RlarkError as refused:
        assert refused.code != "internal", refused


def holds(platform) -> None:
    """What must hold after every tick."""
    records = [platform.reader.record(job["metadata"]["name"]) for job in platform.reader.jobs()[0]]
    known = {record.lease.key for record in records if record.lease}
    held = platform.cluster.leases()
    assert {lease.key for lease in held} <= known
    gpus = [device.id for lease in held for device in lease.devices]
    assert len(gpus) == len(set(gpus)) <= 2
    for record in records:
        assert platform.replays(record.name)
        if record.running:
            assert record.lease is not None
            assert record.handle is not None
    waiting = [record.name for record in records if record.queued]
    assert sorted(turn["job"] for turn in platform.reader.queue()) == sorted(waiting)


@pytest.mark.parametrize("seed", range(2))
def test_whatever_happens(platform, seed):
    dice = random.Random(seed)
    for _ in range(40):
        order(platform, dice)
        platform.clock.advance(2.5)
        platform.controller.tick()
        holds(platform)
    platform.controller.patch_node("node-0", {"spec": {"unschedulable": False}})
    for _ in range(40):
        for worker in platform.cluster.workers:
            if worker.alive:
                worker.die()
        platform.clock.advance(2.5)
        platform.controller.tick()
    holds(platform)
    assert platform.cluster.leases() == []
    assert all(Phase(job["status"]["phase"]).ended for job in platform.reader.jobs()[0])
