from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from rlark.folder import JobFolder
from rlark.runtime import checkpoint
from rlark.runtime.component import DeviceUse, Shape
from rlark.runtime.runner import Runner
from rlark.runtime.stop import Stop, Stopped
from rlark.testing import FakeClock


class Counting:
    """A trainer whose state is how often it was asked."""

    def __init__(self, clock: FakeClock, stop: Stop, stop_at: int = 0):
        self.count, self._clock, self._stop, self._stop_at = 0, clock, stop, stop_at

    def iterate(self):
        self.count += 1
        self._clock.advance(2.0)
        if self.count == self._stop_at:
            self._stop.requested = True
        return {"meanReward": float(self.count)}

    def state(self):
        return {"actor": [{"count": self.count}], "rollout": [], "env": [], "observation": None}

    def restore(self, state):
        self.count = state["actor"][0]["count"]

    def device(self):
        return DeviceUse("cpu", "", cuda_requested=False)


class Heard(list):
    """A reporter that remembers."""

    def iteration(self, number, metrics, env_steps, elapsed_s):
        self.append((number, metrics["meanReward"], env_steps, elapsed_s))

    def earlier(self, metrics, upto):
        self.before = (metrics, upto)


@pytest.fixture
def make(tmp_path: Path):
    folder = JobFolder(tmp_path / "demo")
    folder.create()

    def made(iterations: int, *, save_interval: int = 0, stop_at: int = 0, keep: int = 0):
        clock, stop, heard = FakeClock(), Stop(), Heard()
        trainer = Counting(clock, stop, stop_at)
        shape = Shape(iterations, 4, 8, 1, 1, save_interval, keep)
        return Runner(trainer, shape, folder=folder, reporter=heard, clock=clock, stop=stop), heard, folder

    return made


def names(folder: JobFolder) -> list[str]:
    return [path.name for path in checkpoint.saved(folder.checkpoints)]


def test_it_iterates_reports_and_tells_export_what_it_needs(make):
    runner, heard, folder = make(3)
    run = runner.run(fused=True)
    assert heard == [(1, 1.0, 32, 2.0), (2, 2.0, 64, 4.0), (3, 3.0, 96, 6.0)]
    assert (run.training_seconds, run.env_steps, run.fused, run.actor) == (6.0, 96, True, {"count": 3})
    assert [metrics["meanReward"] for metrics in run.history] == [1, 2, 3]
    assert (
        [path.name for path in run.checkpoints] == names(folder) == ["global_step_1", "global_step_2", "global_step_3"]
    )


@pytest.mark.parametrize(
    ("iterations", "interval", "kept"), [(40, 0, [25, 30, 35, 40]), (10, 4, [4, 8, 10]), (3, 100, [3]), (1, 0, [1])]
)
def test_checkpoints_are_written_when_due_and_at_the_end(make, iterations, interval, kept):
    runner, _, folder = make(iterations, save_interval=interval)
    runner.run(fused=True)
    assert names(folder) == [f"global_step_{number}" for number in kept]


def test_a_run_that_is_asked_to_stop_writes_a_checkpoint_first(make):
    runner, heard, folder = make(10, save_interval=100, stop_at=4)
    with pytest.raises(Stopped):
        runner.run(fused=True)
    assert len(heard) == 4
    assert names(folder) == ["global_step_4"]


@pytest.mark.parametrize(("keep", "kept"), [(0, [7, 8, 9, 10]), (1, [10]), (6, [5, 6, 7, 8, 9, 10])])
def test_as_many_checkpoints_stay_as_are_wanted(make, keep, kept):
    runner, _, folder = make(10, save_interval=1, keep=keep)
    runner.run(fused=True)
    assert sorted(int(path.name[12:]) for path in folder.checkpoints.glob("global_step_*")) == kept


def test_it_goes_on_where_a_checkpoint_ends(make):
    runner, _, folder = make(10, stop_at=4)
    with pytest.raises(Stopped):
        runner.run(fused=True)
    again, heard, _ = make(10)
    again.resume(folder.checkpoints)
    run = again.run(fused=True)
    assert [number for number, *_ in heard] == [5, 6, 7, 8, 9, 10]
    assert heard.before == (folder.metrics, 4)
    assert (len(run.history), run.env_steps, run.training_seconds) == (10, 320, 20.0)


@pytest.fixture
def stop():
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    found = Stop()
    found.listen()
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_ends_what_can_end_anywhere(stop: Stop):
    with pytest.raises(Stopped):
        os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)  # a second one does not break what ends the run
    assert stop.requested


def test_within_training_a_signal_is_only_noted(stop: Stop):
    with stop.deferred():
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.requested
    with pytest.raises(Stopped), stop.deferred():
        raise AssertionError("it had been asked before")
