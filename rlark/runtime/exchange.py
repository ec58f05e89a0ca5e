"""The three sides of a placed iteration, and how the environments' columns are shared out.

All environments of a run are columns 0..N-1. Each component splits them over its ranks in
consecutive blocks; two ranks are linked where their blocks meet:

    Env e      --- observation, reward, ends of N/E columns, every step --->  Rollout r
    Env e      <-- actions of the columns both own, every step -------------  Rollout r
    Rollout r  --- a whole rollout of the columns both own ---------------->  Actor a
    Rollout r  <-- weights, once an iteration ------------------------------  Actor 0

The calls on each component come in the same order as in `FusedTrainer.iterate`, so that with one
rank each both give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rlark.runtime.component import Actor, Env, FloatArray, Metrics, Rollout, Shape, State, Step
from rlark.runtime.packet import Packet
from rlark.runtime.trajectory import Trajectory, TrajectoryBuffer, bootstrap_of
from rlark.runtime.weights import Publisher, Subscriber
from rlark.runtime.wire import Wire


def columns(num_envs: int, rank: int, world_size: int) -> range:
    """The environments that one rank of a component owns.

    Raises:
        ValueError: they cannot be shared out evenly.
    """
    share, rest = divmod(num_envs, world_size)
    if rest or not share:
        raise ValueError(f"{num_envs} environments cannot be shared evenly by {world_size} ranks")
    return range(rank * share, (rank + 1) * share)


def peers(num_envs: int, own: range, world_size: int) -> dict[int, range]:
    """The ranks of another component that own some of these columns: rank -> the columns both own."""
    shares = {rank: columns(num_envs, rank, world_size) for rank in range(world_size)}
    common = {rank: range(max(own.start, s.start), min(own.stop, s.stop)) for rank, s in shares.items()}
    return {rank: both for rank, both in common.items() if both}


@dataclass(frozen=True)
class Link:
    """A wire to a peer and the columns that pass over it.

    Attributes:
        wire: the wire.
        rows: where those columns stand in this rank's own arrays.
    """

    wire: Wire
    rows: slice

    @classmethod
    def over(cls, wire: Wire, own: range, both: range) -> Link:
        """The link for the columns both own, on the side that owns `own`."""
        return cls(wire, slice(both.start - own.start, both.stop - own.start))

    @property
    def count(self) -> int:
        """How many columns pass."""
        return int(self.rows.stop - self.rows.start)


def _step_packet(count: int, shape: Shape) -> Packet:
    return Packet(
        {
            "observation": ((count, shape.observation_size), np.float32),
            "reward": ((count,), np.float32),
            "terminated": ((count,), np.bool_),
            "truncated": ((count,), np.bool_),
            "final_observation": ((count, shape.observation_size), np.float32),  # only where one was truncated
        }
    )


def _action_packet(count: int, shape: Shape) -> Packet:
    return Packet({"action": ((count, shape.action_size), np.float32)})


def _trajectory_packet(count: int, shape: Shape) -> Packet:
    empty = Trajectory.empty(0, count, shape.observation_size, shape.action_size)
    fields = {name: ((shape.steps, *array.shape[1:]), array.dtype.type) for name, array in empty._asdict().items()}
    fields["last_value"] = ((count,), np.float32)
    return Packet(fields)


class EnvSide:
    """An Env rank: does what its Rollouts decide and tells them what came of it."""

    def __init__(self, env: Env, shape: Shape, rollouts: Sequence[Link]) -> None:
        """Take the environments and the links to the Rollouts that decide for them."""
        self._env = env
        self._steps = shape.steps
        self._links = [(link, _step_packet(link.count, shape), _action_packet(link.count, shape)) for link in rollouts]
        total = sum(link.count for link in rollouts)
        self._action: FloatArray = np.zeros((total, shape.action_size), np.float32)

    def begin(self) -> None:
        """Start every environment and show the Rollouts what is seen."""
        observation = self._env.reset()
        for link, packet, _ in self._links:
            packet.arrays["observation"][...] = observation[link.rows]
            packet.send(link.wire, upto="observation")

    def iterate(self) -> Metrics:
        """Take all steps of one rollout."""
        for _ in range(self._steps):
            self._tell(self._env.step(self._receive_action()))
        return self._env.metrics()

    def state(self) -> State:
        """The environments' own state."""
        return self._env.state()

    def restore(self, state: State) -> None:
        """Continue from there; the Rollouts restore what was seen last."""
        self._env.restore(state)

    def _receive_action(self) -> FloatArray:
        if len(self._links) == 1:
            link, _, packet = self._links[0]
            packet.receive(link.wire)
            return packet.arrays["action"]
        for link, _, packet in self._links:
            packet.receive(link.wire)
            self._action[link.rows] = packet.arrays["action"]
        return self._action

    def _tell(self, step: Step) -> None:
        upto = "final_observation" if np.count_nonzero(step.truncated) else "truncated"
        for link, packet, _ in self._links:
            arrays, rows = packet.arrays, link.rows
            arrays["observation"][...] = step.observation[rows]
            arrays["reward"][...] = step.reward[rows]
            arrays["terminated"][...] = step.terminated[rows]
            arrays["truncated"][...] = step.truncated[rows]
            if upto == "final_observation":
                arrays["final_observation"][...] = step.final_observation[rows]
            packet.send(link.wire, upto)


class RolloutSide:
    """A Rollout rank: decides for its environments and keeps the record of it."""

    def __init__(
        self, rollout: Rollout, shape: Shape, envs: Sequence[Link], actors: Sequence[Link], weights_from: Wire
    ) -> None:
        """Take the policy, the links to the Env ranks and Actor ranks, and the wire weights come by."""
        count = sum(link.count for link in envs)
        self._rollout = rollout
        self._steps = shape.steps
        self._envs = [(link, _step_packet(link.count, shape), _action_packet(link.count, shape)) for link in envs]
        self._actors = [(link, _trajectory_packet(link.count, shape)) for link in actors]
        self._weights = Subscriber(weights_from)
        self._buffer = TrajectoryBuffer(shape.steps, count, shape.observation_size, shape.action_size)
        self._observation: FloatArray = np.zeros((count, shape.observation_size), np.float32)
        self._step = Step(
            observation=self._observation,
            reward=np.zeros(count, np.float32),
            terminated=np.zeros(count, np.bool_),
            truncated=np.zeros(count, np.bool_),
            final_observation=np.zeros_like(self._observation),
        )

    def begin(self) -> None:
        """Take the first weights and see where the environments start."""
        self._load()
        for link, packet, _ in self._envs:
            packet.receive(link.wire)
            self._observation[link.rows] = packet.arrays["observation"]

    def iterate(self) -> Metrics:
        """Decide for one rollout, hand it to the Actors and load what they learned."""
        rollout, buffer = self._rollout, self._buffer
        for _ in range(self._steps):
            action = buffer.decide(rollout.act(buffer.observe(self._observation)))
            for link, _, packet in self._envs:
                packet.arrays["action"][...] = action[link.rows]
                packet.send(link.wire)
            step = self._receive_step()
            buffer.outcome(step, bootstrap_of(rollout, step))
        self._hand_over(buffer.finish(rollout.value(self._observation)))
        self._load()
        return {}

    def state(self) -> State:
        """The policy's own state, and what was seen last."""
        return {"rollout": self._rollout.state(), "observation": self._observation.copy()}

    def restore(self, state: State) -> None:
        """Continue from there, with weights that the Actor sends after restoring its own."""
        self._rollout.restore(state["rollout"])
        self._observation[...] = state["observation"]
        self._load()

    def _load(self) -> None:
        self._rollout.load(self._weights.receive())

    def _receive_step(self) -> Step:
        step = self._step
        for link, packet, _ in self._envs:
            length = packet.receive(link.wire)
            arrays, rows = packet.arrays, link.rows
            step.observation[rows] = arrays["observation"]
            step.reward[rows] = arrays["reward"]
            step.terminated[rows] = arrays["terminated"]
            step.truncated[rows] = arrays["truncated"]
            final = "final_observation" if packet.has(length, "final_observation") else "observation"
            step.final_observation[rows] = arrays[final]
        return step

    def _hand_over(self, trajectory: Trajectory) -> None:
        for link, packet in self._actors:
            for name, array in trajectory._asdict().items():
                packet.arrays[name][...] = array[link.rows] if name == "last_value" else array[:, link.rows]
            packet.send(link.wire)


class ActorSide:
    """An Actor rank: learns from its columns; rank 0 publishes the weights."""

    def __init__(self, actor: Actor, shape: Shape, rollouts: Sequence[Link], weights_to: Sequence[Wire]) -> None:
        """Take the policy, the links to the Rollouts, and the wires weights go by (none but for rank 0)."""
        self._actor = actor
        self._links = [(link, _trajectory_packet(link.count, shape)) for link in rollouts]
        self._weights = Publisher(weights_to) if weights_to else None
        count = sum(link.count for link in rollouts)
        self._whole = Trajectory.empty(shape.steps, count, shape.observation_size, shape.action_size)

    def begin(self) -> None:
        """Publish the first weights."""
        self._publish()

    def iterate(self) -> Metrics:
        """Learn from one rollout and publish."""
        metrics = self._actor.update(self._receive_trajectory())
        self._publish()
        return metrics

    def state(self) -> State:
        """The Actor's own state."""
        return self._actor.state()

    def restore(self, state: State) -> None:
        """Continue from there and publish."""
        self._actor.restore(state)
        self._publish()

    def _receive_trajectory(self) -> Trajectory:
        if len(self._links) == 1:
            link, packet = self._links[0]
            packet.receive(link.wire)
            return Trajectory(**packet.arrays)
        for link, packet in self._links:
            packet.receive(link.wire)
            for name, array in self._whole._asdict().items():
                target = array[link.rows] if name == "last_value" else array[:, link.rows]
                target[...] = packet.arrays[name]
        return self._whole

    def _publish(self) -> None:
        if self._weights is not None:
            self._weights.publish(self._actor.weights())
