"""Continuing equals never having stopped, to the byte on a CPU."""

from __future__ import annotations

import copy
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engines.starter_ppo import ENGINE
from engines.starter_ppo.components import PROGRAM
from engines.starter_ppo.config import Config
from rlark.folder import JobFolder, write_json
from rlark.host.clock import SystemClock
from rlark.plan.node import Lease
from rlark.plan.plan import Plan, RankPlacement
from rlark.runtime import checkpoint
from rlark.runtime.report import Reporter
from rlark.runtime.runner import Runner
from rlark.runtime.stop import Stop, Stopped
from rlark.runtime.trainer import Trainer, Workload, fused
from rlark.spec.config import compose
from rlark.spec.job import ConfigSource

ROOT = Path(__file__).parents[4]
ITERATIONS, INTERVAL = 12, 2
OF_THE_MOMENT = {"controlLatencyMs", "sourceCommit"}
TIMES = {"time", "elapsedSeconds"}


@pytest.fixture(scope="module")
def config(make_config) -> Config:
    """Everything that has a memory: normaliser, schedules, history, lost frames, a curriculum that moves."""
    return make_config(
        pack={
            "layout": "imu-gravity-v1",
            "frames": 2,
            "curriculum": {
                "initialGoalDistance": [0.2, 0.3],
                "finalGoalDistance": [1.4, 1.6],
                "successRateThreshold": 0.2,
                "lookbackEpisodes": 4,
            },
        },
        runner={"engine": "starter-ppo", "max_epochs": ITERATIONS, "save_interval": INTERVAL},
        size=(16, 128),
        algorithm={"seed": 7, "entropy_bonus_final": 0.0, "target_kl": 0.01},
        actor={"model": {"hidden_dims": [16, 16]}, "optim": {"lr": 3e-3, "lr_scheduler": "adaptive"}},
    )


class Course:
    """A run's folder, and what must not depend on how often it was interrupted."""

    def __init__(self, folder: JobFolder) -> None:
        self.folder = folder

    @property
    def rows(self) -> dict[int, dict[str, Any]]:
        rows = map(json.loads, self.folder.metrics.read_text().splitlines())
        return {row["iteration"]: {name: row[name] for name in row if name not in TIMES} for row in rows}

    @property
    def policy(self) -> bytes:
        return (self.folder.artifacts / "policy.onnx").read_bytes()

    @property
    def claims(self) -> dict[str, Any]:
        result = json.loads(self.folder.result.read_text())
        metrics = {name: value for name, value in result["metrics"].items() if name not in OF_THE_MOMENT}
        return {"checkpoint": {**result["checkpoint"], "artifactRef": ""}, "metrics": metrics}

    @property
    def curves(self) -> list[Any]:
        summary = json.loads((self.folder.artifacts / "training-summary.json").read_text())
        return [summary[name] for name in ("rewardCurve", "successCurve", "checkpoints", "envSteps", "curriculum")]


@pytest.fixture(scope="module")
def begin(config, tmp_path_factory) -> Callable[..., Course]:
    """A job folder that a process can be started on."""

    def build(resume: Path | None = None) -> Course:
        folder = JobFolder(tmp_path_factory.mktemp("jobs") / "goalnav")
        folder.create()
        raw = config.model_dump(mode="json", exclude_none=True)
        raw["env"]["train"]["task"] = config.task.model_dump(mode="json", by_alias=True, exclude_none=True)
        raw["runner"] |= {"resume_dir": str(resume)} if resume else {}
        placement = {name: [RankPlacement(rank=0)] for name in ENGINE.components}
        plan = Plan(job="goalnav", node="box", engine=ENGINE.id, config=raw, placement=placement, fused=True)
        write_json(folder.plan, plan.to_json())
        write_json(folder.lease, Lease(job="goalnav", attempt=1, key="k", node="box", cpus=1).to_json())
        return Course(folder)

    return build


def start(course: Course, hash_seed: int = 0) -> subprocess.Popen[str]:
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RLARK_")},
        "RLARK_JOB_DIR": str(course.folder.root),
        "PYTHONHASHSEED": str(hash_seed),
    }
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-m", "engines.starter_ppo"], env=env, cwd=ROOT, text=True, **pipes)


def finish(course: Course, hash_seed: int = 0) -> Course:
    process = start(course, hash_seed)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    return course


@pytest.fixture(scope="module")
def whole(begin) -> Course:
    """The run that nobody interrupted, with every checkpoint that it ever wrote."""
    return finish(begin())


def same(found: Course, whole: Course) -> None:
    assert found.policy == whole.policy
    assert found.claims == whole.claims
    assert found.curves == whole.curves
    assert found.rows == {number: row for number, row in whole.rows.items() if number in found.rows}
    assert max(found.rows, default=ITERATIONS) == ITERATIONS


def test_two_processes_give_the_same_bytes(begin, whole):
    again = finish(begin(), hash_seed=1)
    assert list(again.rows) == list(range(1, ITERATIONS + 1))
    same(again, whole)
    ranges = [row["goalRangeHigh"] for row in whole.rows.values()]
    assert ranges[-1] > ranges[0], "the curriculum never moved, so nothing was tried of it"


def signalled(course: Course, number: signal.Signals, rows: int) -> subprocess.Popen[str]:
    """A process that got a signal after so many iterations."""
    process = start(course)
    until = time.monotonic() + 60
    while not course.folder.metrics.exists() or len(course.folder.metrics.read_text().splitlines()) < rows:
        assert time.monotonic() < until
        assert process.poll() is None
        time.sleep(0.001)
    process.send_signal(number)
    process.communicate(timeout=60)
    return process


def test_after_sigterm_it_goes_on_in_another_process_and_folder(begin, whole):
    stopped = begin()
    assert signalled(stopped, signal.SIGTERM, 3).returncode == 143
    assert not stopped.folder.result.exists()
    done = max(stopped.rows)
    assert done < ITERATIONS
    again = finish(begin(stopped.folder.checkpoints))
    assert again.rows == whole.rows  # those of before it was stopped too, each once
    same(again, whole)


def test_after_sigkill_it_goes_on_from_the_last_whole_checkpoint(begin, whole):
    killed = begin()
    assert signalled(killed, signal.SIGKILL, 7).returncode == -signal.SIGKILL
    (killed.folder.checkpoints / ".global_step_99").mkdir()  # as a write that was cut short leaves it
    last = int((killed.folder.checkpoints / "latest").read_text().rpartition("_")[2])
    assert last >= 6
    again = finish(begin(killed.folder.checkpoints))
    assert again.rows == whole.rows
    same(again, whole)


def frozen(value: Any) -> Any:
    """A state in a form in which two can be compared to the last bit."""
    if isinstance(value, dict):
        return {name: frozen(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [frozen(one) for one in value]
    return (value.dtype, value.shape, value.tobytes()) if isinstance(value, np.ndarray) else repr(value)


class Copies:
    """A reporter that keeps a copy of every checkpoint, with those that were there beside it."""

    def __init__(self, folder: JobFolder, inner: Reporter) -> None:
        self._folder, self._inner = folder, inner
        self.kept = folder.root / "kept"

    def iteration(self, number: int, *told: Any) -> None:
        self._inner.iteration(number, *told)
        self._copy()

    def earlier(self, metrics: Path, upto: int) -> None:
        self._inner.earlier(metrics, upto)

    def _copy(self) -> None:
        for path in checkpoint.saved(self._folder.checkpoints):
            if not (self.kept / path.name).exists():
                shutil.copytree(self._folder.checkpoints, self.kept / path.name)


@pytest.fixture
def here(config, tmp_path) -> Iterator[Callable[..., tuple[Runner, JobFolder, Trainer]]]:
    """Training in this process."""
    reporters: list[Reporter] = []

    def build(name: str, *, stop_at: int = 0, config: Config = config) -> tuple[Runner, JobFolder, Trainer]:
        folder, stop, clock = JobFolder(tmp_path / name), Stop(), SystemClock()
        folder.create()
        shape = PROGRAM.shape(config)
        trainer = fused(Workload(PROGRAM, config, shape, config.seed, "cpu"), threads=1)
        inner = Reporter(
            folder,
            ENGINE.id,
            iterations=shape.iterations,
            tensorboard=folder.tensorboard,
            progress=PROGRAM.progress,
            clock=clock,
        )
        reporters.append(inner)
        reporter: Any = Copies(folder, inner)
        if stop_at:
            plain = reporter.iteration

            def ask(number: int, *told: Any) -> None:
                plain(number, *told)
                stop.requested = number == stop_at

            reporter.iteration = ask
        return Runner(trainer, shape, folder=folder, reporter=reporter, clock=clock, stop=stop), folder, trainer

    yield build
    for reporter in reporters:
        reporter.close()


def pendulum(kind: str) -> Config:
    """The chain, by PPO or by SAC, which wanders for a while before it learns."""
    composed = compose(ConfigSource(path="pendulum_ppo.yaml"), ROOT / "configs")
    assert composed.effective is not None, composed.findings
    raw = copy.deepcopy(composed.effective)
    raw["runner"] |= {"max_epochs": ITERATIONS, "save_interval": INTERVAL}
    raw["env"]["train"] |= {"total_num_envs": 8, "rollout_steps": 32}
    raw["actor"] |= {"global_batch_size": 64}
    if kind == "sac":
        raw["algorithm"] = {"type": "sac", "seed": 7, "warmup": 300, "updates": 4, "replay_size": 1000}
        raw["actor"] = {"model": {"hidden_dims": [16, 16]}, "global_batch_size": 64}
    return PROGRAM.config(raw, "")


@pytest.mark.parametrize("kind", ["navigation", "pendulum", "sac"])
def test_from_every_checkpoint_the_same_end_is_reached(here, config, kind):
    chosen = config if kind == "navigation" else pendulum(kind)
    runner, folder, trainer = here("whole", config=chosen)
    expected = runner.run(fused=True)
    end = frozen(trainer.state())
    kept = sorted((folder.root / "kept").iterdir(), key=lambda path: int(path.name.rpartition("_")[2]))
    assert [path.name for path in kept] == [f"global_step_{n}" for n in range(INTERVAL, ITERATIONS, INTERVAL)]
    for path in kept:
        again, other, copy = here(f"from-{path.name}", config=chosen)
        again.resume(path / path.name)
        found = again.run(fused=True)
        assert frozen(copy.state()) == end, path.name
        assert repr(found.history) == repr(expected.history)  # NaN included
        assert (found.env_steps, found.saved_checkpoints) == (expected.env_steps, expected.saved_checkpoints)
        names = [one.name for one in found.checkpoints]
        assert names == [one.name for one in expected.checkpoints] == [f"global_step_{n}" for n in (6, 8, 10, 12)]
        for one in expected.checkpoints:
            assert frozen(checkpoint.load_actor(one)) == frozen(checkpoint.load_actor(other.checkpoints / one.name))


@pytest.mark.parametrize("stop_at", [1, 3, 7, 11])
def test_a_stop_between_two_checkpoints_changes_nothing_of_the_choice(here, stop_at):
    runner, folder, _ = here("stopped", stop_at=stop_at)
    with pytest.raises(Stopped):
        runner.run(fused=True)
    assert checkpoint.saved(folder.checkpoints)[-1].name == f"global_step_{stop_at}"
    again, _, _ = here("again")
    again.resume(folder.checkpoints)
    found = again.run(fused=True)
    assert [path.name for path in found.checkpoints] == [f"global_step_{n}" for n in (6, 8, 10, 12)]
    assert found.saved_checkpoints == ITERATIONS // INTERVAL


def test_a_changed_checkpoint_is_refused_with_words(begin, whole, tmp_path):
    changed = tmp_path / "global_step_6"
    shutil.copytree(whole.folder.checkpoints / "global_step_6", changed)
    data = (changed / "rest.pkl").read_bytes()
    (changed / "rest.pkl").write_bytes(data[:-100])
    course = begin(changed)
    process = start(course)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 2
    assert f"it has {len(data) - 100} bytes, listed are {len(data)}" in said
    assert "Traceback" not in said
    assert not course.folder.result.exists()
