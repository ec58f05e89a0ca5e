from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import pytest

from engines.tasks.pendulum_chain import Chains, PendulumChain, acceleration, reward
from rlark.spec.pendulum_pack import Chain, PendulumPack

UPRIGHT = {"start": {"angleStd": 0.0, "speedStd": 0.0}}


def a_pack(**parts: Any) -> PendulumPack:
    return PendulumPack.model_validate({"id": "chain", "kind": "pendulum-chain", **parts})


def pair(**parts: Any) -> PendulumPack:
    """Two joints."""
    return a_pack(**{"observationSize": 8, "actionSize": 2, **parts})


def an_env(pack: PendulumPack, size: int = 4, seed: int = 5) -> PendulumChain:
    return PendulumChain(pack, size, np.random.SeedSequence(seed))


def column(*values: float) -> np.ndarray:
    return np.array(values)[:, None]


def test_the_reference_numbers_are_the_defaults():
    pack = a_pack()
    assert (pack.observation_size, pack.action_size, pack.control_hz, pack.decimation) == (42, 12, 50.0, 10)
    assert pack.chain == Chain(gravity=6.0, coupling=0.10, damping=0.25, inertia=0.5, torque=1.5)
    assert (pack.start.angle_std, pack.start.speed_std) == (0.05, 0.02)
    assert (pack.termination.fall_angle, pack.termination.min_steps, pack.termination.max_steps) == (0.7, 200, 400)
    assert pack.evaluation_config.episodes_per_envelope == 8


@pytest.mark.parametrize(
    ("angle", "speed", "torque", "expected"),
    [
        # 2 (6 sin 0.1 - 0.1 (2 * 0.1 - 0) ) = 2 (0.5990005 - 0.02), and 2 (-0.1 (0 - 0.1))
        ((0.1, 0.0), (0.0, 0.0), (0.0, 0.0), (1.158001, 0.02)),
        # 2 (-0.25 * 0.4), and 2 * 1.5
        ((0.0, 0.0), (0.4, 0.0), (0.0, 1.5), (-0.2, 3.0)),
        # 2 (6 sin 0.2 - 0.1 (0.4 + 0.3)), 2 (6 sin(-0.3) - 0.1 (-0.6 - 0.2)): both ends have a neighbour at 0
        ((0.2, -0.3), (0.0, 0.0), (0.0, 0.0), (2.244032, -3.386242)),
    ],
)
def test_a_joint_is_pulled_by_gravity_its_neighbours_its_damping_and_its_motor(angle, speed, torque, expected):
    found = acceleration(Chain(), column(*angle), column(*speed), column(*torque))
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-6)


def test_the_middle_of_a_chain_feels_both_sides():
    found = acceleration(Chain(gravity=0.0), column(0.1, 0.0, 0.3), column(0, 0, 0), column(0, 0, 0))
    np.testing.assert_allclose(found[:, 0], [-0.04, 0.08, -0.12], atol=1e-12)


def test_euler_steps_use_the_speed_of_before():
    one = pair(**UPRIGHT, controlHz=500)
    chains = Chains(one, 1)
    chains.angle[:] = column(0.1, 0.0)
    chains.speed[:] = column(0.5, 0.0)
    chains.advance(np.zeros((1, 2), np.float32))
    np.testing.assert_allclose(chains.angle[:, 0], [0.101, 0.0], atol=1e-12)
    # 0.5 + 0.002 (1.158001 - 0.25), and 0.002 * 0.02
    np.testing.assert_allclose(chains.speed[:, 0], [0.501816, 0.00004], atol=1e-8)


def test_a_decision_is_ten_steps_of_a_plain_loop():
    pack, rng = a_pack(), np.random.default_rng(3)
    angle, speed, action = rng.normal(0, 0.2, 12), rng.normal(0, 0.3, 12), rng.normal(0, 1.0, 12)
    chains = Chains(pack, 1)
    chains.angle[:], chains.speed[:] = angle[:, None], speed[:, None]
    chains.advance(action[None].astype(np.float32))
    torque = [1.5 * min(max(float(np.float32(each)), -1.0), 1.0) for each in action]
    for _ in range(10):
        ends = [0.0, *angle, 0.0]
        change = [
            (6.0 * math.sin(a) - 0.1 * (2 * a - ends[i] - ends[i + 2]) - 0.25 * speed[i] + torque[i]) / 0.5
            for i, a in enumerate(angle)
        ]
        angle = [a + 0.002 * s for a, s in zip(angle, speed, strict=True)]
        speed = [s + 0.002 * c for s, c in zip(speed, change, strict=True)]
    np.testing.assert_allclose(chains.angle[:, 0], angle, atol=1e-12)
    np.testing.assert_allclose(chains.speed[:, 0], speed, atol=1e-12)


def test_the_reward_is_the_references():
    found = reward(a_pack().reward, column(0.35, 0.0), column(2.0, 0.0), column(1.0, -1.0), 0.7)
    # 1 - 0.05 * 0.25 / 2 - 0.01 * 4 / 2 - 0.01 * 1
    assert found[0] == pytest.approx(0.96375)


def test_a_fall_ends_the_episode_and_costs_two():
    env = an_env(pair(**UPRIGHT), 2)
    env.reset()
    env._chains.angle[0, 0] = 0.71
    step = env.step(np.zeros((2, 2), np.float32))
    assert step.terminated.tolist() == [True, False]
    assert not step.truncated.any()
    assert step.reward[0] < -1.0 < 0.9 < step.reward[1]
    assert step.final_observation[0, 0] == pytest.approx(math.cos(0.715), abs=0.01)
    np.testing.assert_allclose(step.observation[0], [1, 1, 0, 0, 0, 0, 1, 0])
    assert env.metrics()["fallRate"] == 1.0


def test_an_action_beyond_one_is_one():
    found = []
    for action in (1.0, 7.0):
        env = an_env(pair(), 1)
        env.reset()
        found.append(env.step(np.full((1, 2), action, np.float32)))
    np.testing.assert_array_equal(found[0].observation, found[1].observation)
    np.testing.assert_array_equal(found[0].reward, found[1].reward)


def test_episodes_are_cut_off_between_200_and_400_steps_and_count_as_a_success():
    pack = pair(**UPRIGHT)
    env = an_env(pack, 300)
    env.reset()
    lengths, first = [], np.ones(300, np.bool_)
    for number in range(1, 401):
        step = env.step(np.zeros((300, 2), np.float32))
        assert not step.terminated.any()
        lengths += [number] * int((step.truncated & first).sum())
        first &= ~step.truncated
        np.testing.assert_array_equal(step.final_observation[step.truncated], step.observation[step.truncated])
    assert len(lengths) == 300
    assert 200 <= min(lengths) < 205
    assert 395 < max(lengths) <= 400
    found = env.metrics()
    assert found["recentSuccess"] == found["successRate"] == 1.0
    assert 280 < found["meanEpisodeLength"] < 320


def test_a_bound_of_the_length_is_inside():
    env = an_env(pair(**UPRIGHT, termination={"minSteps": 3, "maxSteps": 3}), 5)
    env.reset()
    cut = [env.step(np.zeros((5, 2), np.float32)).truncated.sum() for _ in range(6)]
    assert cut == [0, 0, 5, 0, 0, 5]


@pytest.mark.parametrize(
    ("size", "tail"),
    [(36, []), (40, [1, 0, 0, 0]), (42, [1, 0, 0, 0, 0, 0]), (45, [1, 0, 0, 0, 0, 0, 0, 0, 0])],
)
def test_the_command_is_cut_or_filled_up_to_the_contracts_size(size, tail):
    seen = an_env(a_pack(observationSize=size)).reset()
    assert (seen.shape, seen.dtype) == ((4, size), np.float32)
    assert seen[0, 36:].tolist() == tail
    np.testing.assert_allclose(seen[:, :12] ** 2 + seen[:, 12:24] ** 2, 1.0, atol=1e-6)


def test_equal_seeds_give_equal_courses_and_others_do_not():
    def course(seed: int) -> bytes:
        env = an_env(a_pack(), 3, seed)
        env.reset()
        return b"".join(env.step(np.ones((3, 12), np.float32)).observation.tobytes() for _ in range(60))

    assert course(5) == course(5)
    assert course(5) != course(6)


def test_it_goes_on_where_it_stood():
    pack, action = a_pack(termination={"minSteps": 5, "maxSteps": 9}), np.full((3, 12), 0.1, np.float32)
    env, other = an_env(pack, 3), an_env(pack, 3, seed=77)
    env.reset()
    for _ in range(20):
        env.step(action)
    other.reset()
    other.restore(pickle.loads(pickle.dumps(env.state())))
    env.metrics()
    for _ in range(30):
        ours, theirs = env.step(action), other.step(action)
        for one, another in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, another)
    assert env.metrics()["recentSuccess"] == other.metrics()["recentSuccess"]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"observationSize": 35}, "observationSize 35 has no room for cosine, sine and speed of 12 joints"),
        ({"controlHz": 30}, "controlHz 30 and physicsTimestepSeconds 0.002 make 16.6667 physics steps a decision"),
        ({"controlHz": 1000, "physicsTimestepSeconds": 0.01}, "must be a whole number"),
        ({"termination": {"minSteps": 401}}, "minSteps 401 is above maxSteps 400"),
        ({"reward": {"fall": 2}}, "less than or equal to 0"),
        ({"curriculum": {}}, "curriculum"),
        ({"qualityGate": {"maxCollisionRate": 0.1}}, "maxCollisionRate"),
    ],
)
def test_a_pack_that_cannot_be_is_refused(parts, said):
    with pytest.raises(ValueError, match=said):
        a_pack(**parts)


def test_a_contract_becomes_a_chain():
    pack = PendulumPack.of_contract({"id": "any", "observationSize": 9, "actionSize": 3, "controlHz": 100})
    assert (pack.observation_size, pack.action_size, pack.decimation, pack.kind) == (9, 3, 5, "pendulum-chain")
    for sizes in ({}, {"observationSize": 0, "actionSize": 1}, {"observationSize": True, "actionSize": 1}):
        with pytest.raises(ValueError, match=r"contract\.observationSize and contract\.actionSize are required"):
            PendulumPack.of_contract(sizes)
    with pytest.raises(ValueError, match=r"contract\.decimation is 4"):
        PendulumPack.of_contract({"observationSize": 42, "actionSize": 12, "decimation": 4})
