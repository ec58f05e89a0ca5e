from __future__ import annotations

import math
import pickle

import numpy as np
import pytest

from rlark.runtime.component import Decision, DeviceUse, Shape, Step
from rlark.runtime.trainer import FusedTrainer, Workload, averaged


class Scripted:
    """A program whose components write down what is asked of them, and in which order."""

    def __init__(self, cut_off_at=()):
        self.calls, self.cut_off_at, self.loaded, self.seen = [], cut_off_at, 0, []
        self.steps = 0

    def env(self, config, context):
        self.calls.append(("env", context))
        return self

    rollout = actor = env

    def reset(self):
        self.calls.append("reset")
        return np.zeros((2, 1), np.float32)

    def step(self, action):
        self.calls.append("step")
        self.steps += 1
        cut = self.steps in self.cut_off_at
        observation = np.full((2, 1), self.steps, np.float32)
        return Step(observation, np.ones(2), np.zeros(2, bool), np.array([cut, False]), observation + 50)

    def act(self, observation):
        self.calls.append("act")
        return Decision(observation, np.zeros(2), np.zeros(2))

    def value(self, observation):
        self.calls.append("value")
        return observation[:, 0]

    def load(self, weights):
        self.calls.append(f"load {weights}")

    def weights(self):
        self.loaded += 1
        return self.loaded

    def update(self, trajectory):
        self.calls.append("update")
        self.trajectory = trajectory
        return {"loss": 1.0}

    def metrics(self):
        return {"meanReward": 2.0}

    def device(self):
        return DeviceUse("cpu", "none", cuda_requested=False)


def scripted(**kwargs):
    program = Scripted(**kwargs)
    return program, FusedTrainer(Workload(program, None, Shape(1, 2, 3, 1, 1), 5, "auto"), threads=4)


def test_a_rollout_and_an_update_in_their_order():
    program, trainer = scripted()
    program.calls.clear()
    assert trainer.iterate() == {"meanReward": 2.0, "loss": 1.0}
    assert program.calls == ["act", "step"] * 3 + ["value", "update", "load 2"]
    assert program.trajectory.observation[:, 0, 0].tolist() == [0, 1, 2]
    assert program.trajectory.last_value.tolist() == [3, 3]
    trainer.iterate()
    assert program.trajectory.observation[:, 0, 0].tolist() == [3, 4, 5]


def test_the_policy_acts_with_the_first_weights_before_the_first_step():
    program, _ = scripted()
    assert program.calls[-2:] == ["load 1", "reset"]


def test_an_episode_that_is_cut_off_is_bootstrapped_from_its_own_end():
    program, trainer = scripted(cut_off_at={2})
    trainer.iterate()
    assert program.trajectory.bootstrap.tolist() == [[0, 0], [52, 0], [0, 0]]
    assert program.calls.count("value") == 2


def test_every_component_is_told_who_it_is():
    program, _ = scripted()
    contexts = [call[1] for call in program.calls if isinstance(call, tuple)]
    assert [context.component for context in contexts] == ["actor", "rollout", "env"]
    assert {(c.rank, c.world_size, c.seed, c.device, c.threads) for c in contexts} == {(0, 1, 5, "auto", 4)}


def test_the_toy_learns(workload):
    trainer = FusedTrainer(workload(env={"train": {"total_num_envs": 32, "rollout_steps": 32}}), threads=1)
    rewards = [trainer.iterate()["meanReward"] for _ in range(60)]
    assert np.mean(rewards[-5:]) > np.mean(rewards[:5]) + 0.2


def test_a_restored_run_goes_on_as_if_it_had_never_stopped(workload):
    first = FusedTrainer(workload(), threads=1)
    for _ in range(3):
        first.iterate()
    state = pickle.loads(pickle.dumps(first.state()))
    expected = [first.iterate() for _ in range(3)]
    second = FusedTrainer(workload(), threads=1)
    second.restore(state)
    assert [second.iterate() for _ in range(3)] == expected
    assert pickle.dumps(second.state()["actor"]) == pickle.dumps(first.state()["actor"])


def test_a_state_of_another_shape_is_refused(workload):
    state = FusedTrainer(workload(), threads=1).state()
    other = FusedTrainer(workload(env={"train": {"total_num_envs": 4}}), threads=1)
    with pytest.raises(ValueError, match=r"shape \[8, 2\], this run has \[4, 2\]"):
        other.restore(state)
    state["env"].append(state["env"][0])
    with pytest.raises(ValueError, match=r"saved with 2 Envs \(ranks times pipeline stages\), this run has 1"):
        other.restore(state)


@pytest.mark.parametrize("seed", ["7", 1.5, True, [1]])
def test_a_seed_that_is_no_integer_is_refused(workload, seed):
    with pytest.raises(ValueError, match="seed"):
        workload(algorithm={"seed": seed})


def test_ranks_that_finished_more_episodes_count_more():
    found = averaged([{"meanReward": 1.0, "episodes": 1.0}, {"meanReward": 4.0, "episodes": 3.0}])
    assert found == {"meanReward": 3.25, "episodes": 4.0}


def test_what_a_rank_did_not_measure_does_not_count():
    found = averaged([{"a": math.nan, "b": math.nan}, {"a": 2.0, "b": math.nan}])
    assert found["a"] == 2.0
    assert math.isnan(found["b"])


def test_before_any_episode_is_over_all_ranks_count_the_same():
    assert averaged([{"a": 1.0, "episodes": 0.0}, {"a": 3.0, "episodes": 0.0}])["a"] == 2.0


def test_one_rank_is_left_as_it_is():
    assert averaged([{"a": 1.0, "episodes": 5.0}]) == {"a": 1.0, "episodes": 5.0}
