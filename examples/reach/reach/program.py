"""The three components, and the program that makes them."""

import numpy as np

from reach.config import Config
from rlark.evidence.network import Network
from rlark.evidence.onnx_file import write_onnx
from rlark.evidence.result import Artifact, Checkpoint, Result, Source
from rlark.runtime import Decision, DeviceUse, Shape, Step

STD = np.float32(0.5)  # of the actions tried while training


class ReachEnv:
    """Points in a plane, seen from their goal: the action is a velocity, the reward minus the distance."""

    def __init__(self, context):
        self._random = np.random.default_rng([context.seed, 0, context.rank])
        self._count, self._rewards = context.num_envs, []

    def reset(self):
        self._position = self._random.uniform(-1, 1, (self._count, 2)).astype(np.float32)
        self._age = np.zeros(self._count, int)
        return self._position.copy()

    def step(self, action):
        self._position += np.float32(0.2) * np.clip(action, -1, 1)
        self._age += 1
        distance = np.linalg.norm(self._position, axis=1)
        terminated = distance < 0.15
        truncated = (self._age >= 25) & ~terminated
        final, ended = self._position.copy(), terminated | truncated
        self._position[ended] = self._random.uniform(-1, 1, (ended.sum(), 2))
        self._age[ended] = 0
        self._rewards.append(-distance.mean())
        return Step(self._position.copy(), -distance, terminated, truncated, final)

    def metrics(self):
        rewards, self._rewards = self._rewards, []
        return {"meanReward": float(np.mean(rewards))}

    def state(self):
        return {"position": self._position.copy(), "age": self._age.copy(), "random": self._random.bit_generator.state}

    def restore(self, state):
        self._position, self._age = state["position"].copy(), state["age"].copy()
        self._random.bit_generator.state = state["random"]


class LinearRollout:
    """Actions around a linear function of what is seen; values from the distance."""

    def __init__(self, context):
        self._random = np.random.default_rng([context.seed, 1, context.rank])

    def load(self, weights):
        self._gain, self._value = weights["gain"], weights["value"]

    def act(self, observation):
        noise = self._random.standard_normal((len(observation), 2), np.float32)
        return Decision(observation @ self._gain + STD * noise, -0.5 * (noise**2).sum(1), self.value(observation))

    def value(self, observation):
        return np.polyval(self._value, np.linalg.norm(observation, axis=1)).astype(np.float32)

    def state(self):
        return {"random": self._random.bit_generator.state}

    def restore(self, state):
        self._random.bit_generator.state = state["random"]


class Reinforce:
    """The policy gradient with a baseline (Williams 1992)."""

    def __init__(self, algorithm):
        self._algorithm, self._gain, self._value = algorithm, np.zeros((2, 2), np.float32), np.zeros(2)

    def update(self, t):
        after, returns = t.last_value, np.empty_like(t.reward)
        for i in reversed(range(len(t.reward))):
            after = np.where(t.terminated[i], 0, np.where(t.truncated[i], t.bootstrap[i], after))
            after = returns[i] = t.reward[i] + self._algorithm.gamma * after
        advantage = (returns - t.value - (returns - t.value).mean()) / ((returns - t.value).std() + 1e-6)
        score = (t.action - t.observation @ self._gain) / STD
        gradient = np.einsum("tn,tno,tna->oa", advantage, t.observation, score) / advantage.size
        self._gain += np.float32(self._algorithm.lr) * gradient.astype(np.float32)
        self._value = np.polyfit(np.linalg.norm(t.observation, axis=2).ravel(), returns.ravel(), 1)
        return {"gradNorm": float(np.linalg.norm(gradient))}

    def device(self):
        return DeviceUse("cpu", "numpy", cuda_requested=False)

    def state(self):
        return {"gain": self._gain.copy(), "value": self._value.copy()}

    weights = state

    def restore(self, state):
        self._gain, self._value = state["gain"].copy(), state["value"].copy()


class Reach:
    """What the runtime asks for (`rlark.runtime.Program`)."""

    def config(self, raw, base):
        return Config.model_validate(raw)

    def shape(self, config):
        return Shape(config.runner.max_epochs, num_envs=32, steps=32, observation_size=2, action_size=2)

    def env(self, config, context):
        return ReachEnv(context)

    def rollout(self, config, context):
        return LinearRollout(context)

    def actor(self, config, context):
        return Reinforce(config.algorithm)

    def progress(self, metrics):
        return f"meanReward={metrics['meanReward']:.3f}"

    def export(self, config, run):
        file, gain, none = run.folder.artifacts / "policy.onnx", run.actor["gain"], np.zeros(2, np.float32)
        write_onnx(file, Network(none, none + 1, 1e6, [(gain.T, none)]), producer="reach")
        name, reference = run.checkpoints[-1].name, "artifact://reach/point/policy.onnx"
        return Result(
            checkpoint=Checkpoint(checkpoint_id=name, artifact_ref=reference, iteration=len(run.history)),
            artifact=Artifact(artifact_id="policy", artifact_ref=reference, size_bytes=file.stat().st_size),
            metrics=run.history[-1],
            source=Source(known=False, reason="an example"),
            seed=config.algorithm.seed,
        )


PROGRAM = Reach()
