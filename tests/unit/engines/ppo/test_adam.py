from __future__ import annotations

import math

import numpy as np
import torch

from engines.ppo.adam import Adam


def test_takes_the_steps_of_the_paper():
    rng = np.random.default_rng(0)
    expected = rng.normal(size=50)
    flat = torch.from_numpy(expected.copy())
    adam, first, second = Adam(flat), np.zeros(50), np.zeros(50)
    for step in range(1, 21):
        gradient = rng.normal(size=50)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient**2
        expected -= 3e-3 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.999**step)) + 1e-5)
        adam.step(torch.from_numpy(gradient), 3e-3)
    np.testing.assert_allclose(flat.numpy(), expected, rtol=1e-12)


def test_the_first_step_has_the_size_of_the_learning_rate():
    flat = torch.zeros(2, dtype=torch.float64)
    Adam(flat, epsilon=0.0).step(torch.tensor([1e-6, -100.0], dtype=torch.float64), 0.01)
    assert [math.isclose(value, want) for value, want in zip(flat.tolist(), [-0.01, 0.01], strict=True)] == [True, True]


def test_continues_from_a_state():
    flat, other = torch.zeros(4), torch.zeros(4)
    first, second = Adam(flat), Adam(other)
    first.step(torch.ones(4), 0.1)
    other.copy_(flat)
    second.restore(first.state())
    for adam in (first, second):
        adam.step(torch.tensor([1.0, -1.0, 2.0, 0.0]), 0.1)
    assert torch.equal(flat, other)
