"""The three sides of a placed iteration.

Which environments pass between which ranks says `rlark.runtime.columns`:

    Env e      --- observation, reward, ends of its columns, every step ----->  Rollout r
    Env e      <-- actions of the columns both own, every step ---------------  Rollout r
    Rollout r  --- a whole rollout of the columns both own ------------------>  Actor a
    Rollout r  <-- weights, once an iteration --------------------------------  Actor 0

The stages take turns: while an Env steps one, its Rollout decides for the next. With one stage and
one rank each, the calls on each component come in the same order as in `FusedTrainer.iterate`, so
that both give the same bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack

import numpy as np

from rlark.runtime.columns import Link
from rlark.runtime.component import ALONE, Actor, Env, FloatArray, Metrics, Rollout, Shape, State, Step, Team
from rlark.runtime.offload import Presence
from rlark.runtime.packet import Fields, Incoming, Outgoing
from rlark.runtime.trainer import averaged
from rlark.runtime.trajectory import Trajectory, TrajectoryBuffer, bootstrap_of
from rlark.runtime.weights import Publisher, Subscriber
from rlark.runtime.wire import Wire


def _step_fields(count: int, shape: Shape) -> Fields:
    return {
        "observation": ((count, shape.observation_size), np.float32),
        "reward": ((count,), np.float32),
        "terminated": ((count,), np.bool_),
        "truncated": ((count,), np.bool_),
        "final_observation": ((count, shape.observation_size), np.float32),  # only where one was truncated
    }


def _action_fields(count: int, shape: Shape) -> Fields:
    return {"action": ((count, shape.action_size), np.float32)}


def _trajectory_fields(count: int, shape: Shape) -> Fields:
    empty = Trajectory.empty(0, count, shape.observation_size, shape.action_size)
    fields = {name: ((shape.steps, *array.shape[1:]), array.dtype.type) for name, array in empty._asdict().items()}
    return fields | {"last_value": ((count,), np.float32)}


class _EnvStage:
    """The environments of one stage on an Env rank."""

    def __init__(self, env: Env, shape: Shape, rollouts: Sequence[Link]) -> None:
        self.env = env
        self._tells = [(link, Outgoing(link.wire, _step_fields(link.count, shape))) for link in rollouts]
        total = sum(link.count for link in rollouts)
        self._action: FloatArray = np.zeros((total, shape.action_size), np.float32)

    def meet(self, shape: Shape) -> None:
        """Learn where the actions will lie."""
        self._hears = [(link, Incoming(link.wire, _action_fields(link.count, shape))) for link, _ in self._tells]

    def begin(self) -> None:
        """Start every environment and show the Rollouts what is seen."""
        observation = self.env.reset()
        for link, packet in self._tells:
            packet.open()["observation"][...] = observation[link.rows]
            packet.send(upto="observation")

    def step(self) -> Step:
        """Do what was decided: what came of it."""
        for _, packet in self._hears:
            packet.receive()
        step = self.env.step(self._decided())
        for _, packet in self._hears:
            packet.release()
        return step

    def _decided(self) -> FloatArray:
        if len(self._hears) == 1:
            return self._hears[0][1].arrays["action"]
        for link, packet in self._hears:
            self._action[link.rows] = packet.arrays["action"]
        return self._action

    def tell(self, step: Step) -> None:
        """Tell what came of it."""
        upto = "final_observation" if np.count_nonzero(step.truncated) else "truncated"
        for link, packet in self._tells:
            arrays, rows = packet.open(), link.rows
            arrays["observation"][...] = step.observation[rows]
            arrays["reward"][...] = step.reward[rows]
            arrays["terminated"][...] = step.terminated[rows]
            arrays["truncated"][...] = step.truncated[rows]
            if upto == "final_observation":
                arrays["final_observation"][...] = step.final_observation[rows]
            packet.send(upto)


class EnvSide:
    """An Env rank: does what its Rollouts decide and tells them what came of it."""

    def __init__(
        self, envs: Sequence[Env], shape: Shape, rollouts: Sequence[Link], presences: Sequence[Presence] | None = None
    ) -> None:
        """Take the environments of each stage, the links to their Rollouts, and whether each is on its device."""
        self._steps = shape.steps
        self._presences = presences or [Presence("env", env, offloaded=False) for env in envs]
        self._stages = [_EnvStage(env, shape, rollouts) for env in envs]
        for stage in self._stages:  # once all have told the peers where steps lie, hear from them where actions do
            stage.meet(shape)

    def begin(self) -> None:
        """Start every environment and show the Rollouts what is seen."""
        for stage in self._stages:
            stage.begin()

    def iterate(self) -> Metrics:
        """Take all steps of one rollout; who tells the last one has left the device to the Actor."""
        for presence in self._presences:
            presence.come()
        for _ in range(self._steps - 1):
            for stage in self._stages:
                stage.tell(stage.step())
        finished = []
        for stage, presence in zip(self._stages, self._presences, strict=True):
            step = stage.step()
            finished.append(stage.env.metrics())
            presence.leave()
            stage.tell(step)
        metrics = averaged(finished)
        for presence in self._presences:
            for name, moved in presence.metrics().items():
                metrics[name] = metrics.get(name, 0.0) + moved
        return metrics

    def state(self) -> list[State]:
        """The environments' own states, one for each stage."""
        with ExitStack() as there:
            for presence in self._presences:
                there.enter_context(presence.present())
            return [stage.env.state() for stage in self._stages]

    def restore(self, states: Sequence[State]) -> None:
        """Continue from there; the Rollouts restore what was seen last."""
        with ExitStack() as there:
            for presence in self._presences:
                there.enter_context(presence.present())
            for stage, state in zip(self._stages, states, strict=True):
                stage.env.restore(state)


class _RolloutStage:
    """The columns of one stage on a Rollout rank."""

    def __init__(self, rollout: Rollout, shape: Shape, envs: Sequence[Link], actors: Sequence[Link]) -> None:
        count = sum(link.count for link in envs)
        self._rollout = rollout
        self._hears = [(link, Incoming(link.wire, _step_fields(link.count, shape))) for link in envs]
        self._hands = [(link, Outgoing(link.wire, _trajectory_fields(link.count, shape))) for link in actors]
        self._buffer = TrajectoryBuffer(shape.steps, count, shape.observation_size, shape.action_size)
        self.observation: FloatArray = np.zeros((count, shape.observation_size), np.float32)
        self._step = Step(
            observation=self.observation,
            reward=np.zeros(count, np.float32),
            terminated=np.zeros(count, np.bool_),
            truncated=np.zeros(count, np.bool_),
            final_observation=np.zeros_like(self.observation),
        )

    def meet(self, shape: Shape) -> None:
        """Tell the Envs where the actions will lie."""
        self._tells = [(link, Outgoing(link.wire, _action_fields(link.count, shape))) for link, _ in self._hears]

    def begin(self) -> None:
        """See where the environments start."""
        for link, packet in self._hears:
            packet.receive()
            self.observation[link.rows] = packet.arrays["observation"]
            packet.release()

    def decide(self) -> None:
        """Decide about what was seen last."""
        action = self._buffer.decide(self._rollout.act(self._buffer.observe(self.observation)))
        for link, packet in self._tells:
            packet.open()["action"][...] = action[link.rows]
            packet.send()

    def see(self) -> None:
        """See what came of it."""
        step = self._step
        for link, packet in self._hears:
            length = packet.receive()
            arrays, rows = packet.arrays, link.rows
            step.observation[rows] = arrays["observation"]
            step.reward[rows] = arrays["reward"]
            step.terminated[rows] = arrays["terminated"]
            step.truncated[rows] = arrays["truncated"]
            final = "final_observation" if packet.has(length, "final_observation") else "observation"
            step.final_observation[rows] = arrays[final]
            packet.release()
        self._buffer.outcome(step, bootstrap_of(self._rollout, step))

    def finish(self) -> Trajectory:
        """The whole rollout."""
        return self._buffer.finish(self._rollout.value(self.observation))

    def hand_over(self, trajectory: Trajectory) -> None:
        """Give it to the Actors."""
        for link, packet in self._hands:
            arrays = packet.open()
            for name, array in trajectory._asdict().items():
                arrays[name][...] = array[link.rows] if name == "last_value" else array[:, link.rows]
            packet.send()


class RolloutSide:
    """A Rollout rank: decides for its environments and keeps the record of it."""

    def __init__(
        self,
        rollout: Rollout,
        shape: Shape,
        stages: int,
        *,
        envs: Sequence[Link],
        actors: Sequence[Link],
        weights_from: Wire,
        presence: Presence | None = None,
    ) -> None:
        """Take the policy, the links to Env and Actor ranks, the wire weights come by, and whether it is there."""
        self._rollout = rollout
        self._presence = presence or Presence("rollout", rollout, offloaded=False)
        self._steps = shape.steps
        self._stages = [_RolloutStage(rollout, shape, envs, actors) for _ in range(stages)]
        for stage in self._stages:
            stage.meet(shape)
        self._weights = Subscriber(weights_from)

    def begin(self) -> None:
        """Take the first weights and see where the environments start."""
        self._load()
        for stage in self._stages:
            stage.begin()

    def iterate(self) -> Metrics:
        """Decide for one rollout, hand it to the Actors and load what they learned."""
        for step in range(self._steps):
            for stage in self._stages:
                if step:
                    stage.see()
                stage.decide()
        for stage in self._stages:
            stage.see()
        finished = [stage.finish() for stage in self._stages]
        self._presence.leave()  # before the Actors hear of it, so that they find room on the device
        for stage, trajectory in zip(self._stages, finished, strict=True):
            stage.hand_over(trajectory)
        self._load()
        return self._presence.metrics()

    def state(self) -> State:
        """The policy's own state, and what was seen last: [stages, N, O]."""
        seen = np.stack([stage.observation for stage in self._stages])
        return {"rollout": self._rollout.state(), "observation": seen}

    def restore(self, state: State) -> None:
        """Continue from there, with weights that the Actor sends after restoring its own."""
        self._rollout.restore(state["rollout"])
        for stage, seen in zip(self._stages, state["observation"], strict=True):
            stage.observation[...] = seen
        self._load()

    def _load(self) -> None:
        weights = self._weights.receive()
        self._presence.come()
        self._rollout.load(weights)
        self._weights.done()


class ActorSide:
    """An Actor rank: learns from its columns; rank 0 publishes the weights."""

    def __init__(
        self,
        actor: Actor,
        shape: Shape,
        stages: int,
        *,
        rollouts: Sequence[Link],
        weights_to: Sequence[Wire],
        sees: Collection[str] = (),
        presence: Presence | None = None,
        team: Team = ALONE,
    ) -> None:
        """Take the policy and who it exchanges with.

        Args:
            actor: the policy.
            shape: of the run.
            stages: in which environments and policy take turns.
            rollouts: the links to the Rollouts.
            weights_to: the wires weights go by; none but for rank 0.
            sees: the physical GPUs that this rank and all Rollouts see: weights that lie there stay there.
            presence: whether it is on its device.
            team: the Actor ranks that learn together.
        """
        self._actor, self._team = actor, team
        self._presence = presence or Presence("actor", actor, offloaded=False)
        self._hears = [
            (stage, link, Incoming(link.wire, _trajectory_fields(link.count, shape)))
            for link in rollouts
            for stage in range(stages)
        ]
        self._weights = Publisher(weights_to, sees) if weights_to else None
        self._count = sum(link.count for link in rollouts)
        self._whole = Trajectory.empty(shape.steps, stages * self._count, shape.observation_size, shape.action_size)

    def begin(self) -> None:
        """Publish the first weights."""
        self._publish()

    def iterate(self) -> Metrics:
        """Learn from one rollout and publish."""
        trajectory = self._receive_trajectory()
        self._await_team()
        self._presence.come()
        metrics = self._actor.update(trajectory)
        for _, _, packet in self._hears:
            packet.release()
        self._publish()
        return metrics | self._presence.metrics()

    def state(self) -> State:
        """The Actor's own state."""
        with self._presence.present():
            return self._actor.state()

    def restore(self, state: State) -> None:
        """Continue from there and publish."""
        self._presence.come()
        self._actor.restore(state)
        self._publish()

    def _receive_trajectory(self) -> Trajectory:
        if len(self._hears) == 1:
            _, _, packet = self._hears[0]
            packet.receive()
            return Trajectory(**packet.arrays)
        for stage, link, packet in self._hears:
            packet.receive()
            start = stage * self._count
            rows = slice(start + link.rows.start, start + link.rows.stop)
            for name, array in self._whole._asdict().items():
                target = array[rows] if name == "last_value" else array[:, rows]
                target[...] = packet.arrays[name]
        return self._whole

    def _publish(self) -> None:
        """Publish, and leave the device, once the weights are known, so that the Rollouts find room on it."""
        weights = self._actor.weights() if self._weights is not None else None
        self._presence.leave()
        self._await_team()
        if self._weights is not None:
            self._weights.publish(weights)

    def _await_team(self) -> None:
        """Where Actors make room: wait until the others are as far, for one may share its GPU with another's peers."""
        if self._presence.offloaded and self._team.size > 1:
            self._team.gather(np.zeros(1))
