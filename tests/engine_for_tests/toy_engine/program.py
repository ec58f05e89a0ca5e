"""The three components: a point at `position` walks 0.1 a step towards `goal`, both in [-1, 1]."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rlark.evidence.result import Artifact, Checkpoint, Result, Source
from rlark.folder import write_json
from rlark.runtime.checkpoint import load_actor
from rlark.runtime.component import Context, Decision, DeviceUse, FloatArray, Metrics, Run, Shape, State, Step, Weights
from rlark.runtime.trajectory import Trajectory
from toy_engine.config import ToyConfig

LIMIT = 20
NEAR = 0.05
STD = np.float32(0.3)
NUMBERS = {"actor": 1, "rollout": 2, "env": 3}


def stream(context: Context) -> np.random.Generator:
    """The random numbers of one rank."""
    return np.random.default_rng([context.seed, NUMBERS[context.component], context.rank])


def note(context: Context) -> None:
    """Leave a file that says which process this rank is, and what it sees: `rank-<component>-<rank>.json`."""
    root = os.environ.get("RLARK_JOB_DIR")
    print(f"{context.component} rank {context.rank} of {context.world_size} is process {os.getpid()}", flush=True)
    if root:
        facts = {
            "component": context.component,
            "rank": context.rank,
            "worldSize": context.world_size,
            "pid": os.getpid(),
            "threads": context.threads,
            "environment": dict(os.environ),
        }
        write_json(Path(root) / "artifacts" / f"rank-{context.component}-{context.rank}.json", facts)
    if "TOY_COPY" in os.environ:  # `FILE FOLDER`, as this rank sees them
        file, folder = os.environ["TOY_COPY"].split()
        (Path(folder) / f"{context.component}-{context.rank}").write_text(Path(file).read_text())


class Trouble:
    """Does to one rank what the configuration asks for."""

    def __init__(self, config: ToyConfig, context: Context) -> None:
        fault = config.toy.fault
        mine = fault is not None and (fault.component, fault.rank) == (context.component, context.rank)
        self._fault = fault if mine else None
        self._calls = 0

    def pass_by(self) -> None:
        """One iteration begins here."""
        self._calls += 1
        if self._fault is None or self._calls != self._fault.iteration:
            return
        match self._fault.how:
            case "raise":
                raise RuntimeError("a fault of the test")
            case "exit":
                sys.exit(7)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                threading.Event().wait()
            case "no_space":
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class PointEnv:
    """N points on a line."""

    def __init__(self, config: ToyConfig, context: Context) -> None:
        note(context)
        self._count = context.num_envs
        self._steps_per_call = config.env.train.rollout_steps
        self._pace = config.toy.pace_s
        self._trouble = Trouble(config, context)
        self._rng = stream(context)
        self._steps = 0
        self._reward = 0.0
        self._episodes = self._successes = 0

    def reset(self) -> FloatArray:
        self._seen = self._rng.uniform(-1, 1, (self._count, 2)).astype(np.float32)
        self._age = np.zeros(self._count, np.int64)
        return self._seen.copy()

    def step(self, action: FloatArray) -> Step:
        if self._steps % self._steps_per_call == 0:
            self._trouble.pass_by()
            if self._pace:
                time.sleep(self._pace)
        self._steps += 1
        self._seen[:, 0] += np.float32(0.1) * np.clip(action[:, 0], -1, 1)
        self._age += 1
        distance = np.abs(self._seen[:, 1] - self._seen[:, 0])
        terminated = distance < NEAR
        truncated = (self._age >= LIMIT) & ~terminated
        final = self._seen.copy()
        ended = terminated | truncated
        count = int(np.count_nonzero(ended))
        if count:
            self._seen[ended] = self._rng.uniform(-1, 1, (count, 2)).astype(np.float32)
            self._age[ended] = 0
        self._reward -= float(distance.mean())
        self._episodes += count
        self._successes += int(np.count_nonzero(terminated))
        return Step(self._seen.copy(), -distance, terminated, truncated, final)

    def metrics(self) -> Metrics:
        episodes = self._episodes
        found = {
            "meanReward": self._reward / self._steps_per_call,
            "recentSuccess": self._successes / episodes if episodes else float("nan"),
            "episodes": float(episodes),
        }
        self._reward, self._episodes, self._successes = 0.0, 0, 0
        return found

    def state(self) -> State:
        return {
            "seen": self._seen.copy(),
            "age": self._age.copy(),
            "steps": self._steps,
            "rng": self._rng.bit_generator.state,
        }

    def restore(self, state: State) -> None:
        self._seen, self._age = state["seen"].copy(), state["age"].copy()
        self._steps = state["steps"]
        self._rng.bit_generator.state = state["rng"]


class LinearRollout:
    """A linear policy with fixed noise, and a linear value."""

    def __init__(self, config: ToyConfig, context: Context) -> None:
        note(context)
        self._trouble = Trouble(config, context)
        self._rng = stream(context)
        self._gain = np.zeros(2, np.float32)
        self._value = np.zeros(3, np.float32)

    def act(self, observation: FloatArray) -> Decision:
        noise = self._rng.standard_normal(len(observation)).astype(np.float32)
        action = observation @ self._gain + STD * noise
        return Decision(action[:, None], -0.5 * noise * noise, self.value(observation))

    def value(self, observation: FloatArray) -> FloatArray:
        return np.abs(observation[:, 1] - observation[:, 0]) * self._value[0] + self._value[1]

    def load(self, weights: Weights) -> None:
        self._trouble.pass_by()
        self._gain, self._value = weights["gain"], weights["value"]

    def state(self) -> State:
        return {"rng": self._rng.bit_generator.state}

    def restore(self, state: State) -> None:
        self._rng.bit_generator.state = state["rng"]


class GradientActor:
    """REINFORCE with a baseline: a gradient step on the policy, a fit of the value."""

    def __init__(self, config: ToyConfig, context: Context) -> None:
        note(context)
        self._trouble = Trouble(config, context)
        self._gamma = np.float32(config.algorithm.gamma)
        self._rate = np.float32(config.actor.optim.lr)
        self._cuda_requested = context.device == "cuda"
        self._gain = stream(context).normal(0, 0.01, 2).astype(np.float32)
        self._value = np.zeros(3, np.float32)
        self._updates = 0

    def update(self, trajectory: Trajectory) -> Metrics:
        self._trouble.pass_by()
        data = trajectory
        following, returns = data.last_value.copy(), np.empty_like(data.reward)
        for t in reversed(range(len(data.reward))):
            following = np.where(data.terminated[t], 0, np.where(data.truncated[t], data.bootstrap[t], following))
            returns[t] = following = data.reward[t] + self._gamma * following
        advantage = returns - data.value
        advantage = (advantage - advantage.mean()) / (advantage.std() + np.float32(1e-6))
        noise = (data.action[..., 0] - data.observation @ self._gain) / STD
        gradient = np.einsum("tn,tno->o", advantage * noise, data.observation) / advantage.size
        self._gain = (self._gain + self._rate * gradient).astype(np.float32)
        distance = np.abs(data.observation[..., 1] - data.observation[..., 0])
        slope, offset = np.polyfit(distance.ravel(), returns.ravel(), 1)
        self._value = np.array([slope, offset, 0], np.float32)
        self._updates += 1
        return {"gradientNorm": float(np.linalg.norm(gradient)), "columns": float(data.reward.shape[1])}

    def device(self) -> DeviceUse:
        return DeviceUse("cpu", "numpy", self._cuda_requested)

    def weights(self) -> Weights:
        return {"gain": self._gain.copy(), "value": self._value.copy()}

    def state(self) -> State:
        return {**self.weights(), "updates": self._updates}

    def restore(self, state: State) -> None:
        self._gain, self._value = state["gain"].copy(), state["value"].copy()
        self._updates = state["updates"]


class ToyProgram:
    """What the runtime asks of an engine."""

    def config(self, raw: Mapping[str, object], base: str) -> ToyConfig:
        return ToyConfig.model_validate(raw)

    def shape(self, config: ToyConfig) -> Shape:
        train = config.env.train
        return Shape(
            iterations=config.runner.max_epochs,
            num_envs=train.total_num_envs,
            steps=train.rollout_steps,
            observation_size=2,
            action_size=1,
            save_interval=config.runner.save_interval,
        )

    def env(self, config: ToyConfig, context: Context) -> PointEnv:
        return PointEnv(config, context)

    def rollout(self, config: ToyConfig, context: Context) -> LinearRollout:
        return LinearRollout(config, context)

    def actor(self, config: ToyConfig, context: Context) -> GradientActor:
        return GradientActor(config, context)

    def progress(self, metrics: Metrics) -> str:
        return f"meanReward={metrics['meanReward']:.3f} recentSuccess={metrics['recentSuccess']:.2f}"

    def export(self, config: ToyConfig, run: Run) -> Result:
        newest: Any = run.checkpoints[-1]
        state = load_actor(newest)
        policy = run.folder.artifacts / "policy.json"
        policy.write_text(json.dumps({"gain": [float(gain) for gain in state["gain"]]}) + "\n", encoding="utf-8")
        reference = "artifact://toy/point-walk/policy.json"
        return Result(
            checkpoint=Checkpoint(checkpoint_id=newest.name, artifact_ref=reference, iteration=len(run.history)),
            artifact=Artifact(
                artifact_id="policy",
                artifact_ref=reference,
                format="json",
                runtime="numpy",
                size_bytes=policy.stat().st_size,
            ),
            metrics={
                "iterations": len(run.history),
                "environmentSteps": run.env_steps,
                "meanReward": run.history[-1]["meanReward"],
                "fused": run.fused,
                "device": run.device.device,
                "deviceName": run.device.name,
            },
            source=Source(known=False, reason="the engine of the tests has no repository of its own"),
            seed=config.algorithm.seed,
            cuda=False,
            cuda_requested=run.device.cuda_requested,
        )


PROGRAM = ToyProgram()
