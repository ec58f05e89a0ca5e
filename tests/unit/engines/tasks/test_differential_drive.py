"""The golden traces C37: one control step after another from (0, 0, 0), dt 0.1 s."""

from __future__ import annotations

import numpy as np
import pytest

from engines.tasks.differential_drive import lag_alpha, wrap
from engines.tasks.goal_navigation import World
from engines.tasks.randomise import fixed
from rlark.spec.dynamics import Envelope

NOMINAL = Envelope(1, 0.1, 0, 0, 0, 1, 0, 1)
HARD = Envelope(0.8, 0.25, 0, 0, 0.05, 2, 0, 0.8)


def trace(pack, envelope: Envelope, action: tuple[float, float], steps: int) -> np.ndarray:
    """True x, y and yaw [steps, 3] of one robot that starts at the origin and looks along x."""
    world = World(pack, fixed(envelope), 1)
    at = world.episodes
    dt = pack.drive.dt
    at.alpha[:] = lag_alpha(np.array([envelope.lag_tau_seconds]), dt)
    at.reach[0], at.reach[1] = 0.3 * envelope.motor_gain, 1.0 * envelope.motor_gain
    at.stride[0], at.stride[1] = envelope.slip_scale * dt, dt
    at.drift[0] = envelope.angular_bias_rad_sec * dt
    at.delay[envelope.action_latency_steps] = 1.0
    at.goal[0] = 100.0
    found = []
    for _ in range(steps):
        world.advance(np.array([action], np.float32), np.zeros((world.normals, 1)), None)
        found.append([at.x[0, 0], at.y[0, 0], at.yaw[0, 0]])
    return np.array(found)


def test_nominal_goes_straight(calm):
    expected = [[0, 0, 0], [0.03, 0, 0], [0.06, 0, 0]]
    np.testing.assert_allclose(trace(calm, NOMINAL, (1, 0), 3), expected, atol=1e-6)


def test_hard_lags_drifts_and_slips(calm):
    expected = [
        [0, 0, 0.005],
        [0, 0, 0.01],
        [0.007676, 0.000238, 0.031],
        [0.019941, 0.000995, 0.0616],
        [0.034922, 0.002467, 0.09796],
    ]
    np.testing.assert_allclose(trace(calm, HARD, (1, 0.5), 5), expected, atol=1e-6)


def test_a_slow_motor_without_latency(calm):
    slow = NOMINAL._replace(lag_tau_seconds=0.25, action_latency_steps=0)
    np.testing.assert_allclose(trace(calm, slow, (1, 0), 2)[:, 0], [0.012, 0.0312], atol=1e-6)


def test_no_lag_reaches_the_command_at_once(calm):
    prompt = NOMINAL._replace(lag_tau_seconds=0.0, action_latency_steps=0)
    np.testing.assert_allclose(trace(calm, prompt, (1, 0), 1)[0, 0], 0.03, atol=1e-9)


def test_commands_beyond_one_are_clamped(calm):
    np.testing.assert_array_equal(trace(calm, HARD, (7, -9), 6), trace(calm, HARD, (1, -1), 6))


@pytest.mark.parametrize("latency", [0, 1, 2, 3])
def test_latency_n_first_moves_at_step_n_plus_1(calm, latency):
    moved = trace(calm, NOMINAL._replace(action_latency_steps=latency), (1, 0), latency + 1)[:, 0] > 0
    assert list(moved) == [False] * latency + [True]


def test_wrap_keeps_the_angle():
    angles = np.array([0.0, 3.2, -3.2, 9.5, np.pi, -np.pi])
    wrapped = wrap(angles)
    assert (wrapped >= -np.pi).all()
    assert (wrapped < np.pi).all()
    np.testing.assert_allclose(np.exp(1j * wrapped), np.exp(1j * angles), atol=1e-12)
