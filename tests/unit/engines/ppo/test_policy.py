from __future__ import annotations

import numpy as np
import pytest
import torch

from engines.ppo.policy import HIDDEN_GAIN, MEAN_GAIN, NetShape, hidden_buffers, hidden_layers, initial, parts_of, tanh_

SHAPES = [
    NetShape(8, 2, (64, 64), shared=False),
    NetShape(42, 3, (32, 16, 8), shared=True),
    NetShape(3, 1, (4,), shared=False),
]


def fresh(shape: NetShape, seed: int = 0) -> torch.Tensor:
    return initial(shape, torch.Generator().manual_seed(seed), -0.7)


@pytest.mark.parametrize("shape", SHAPES)
def test_parts_are_views_of_one_vector(shape):
    flat = torch.zeros(shape.count)
    parts = parts_of(shape, flat)
    for index, part in enumerate([parts.first, *parts.weights, *parts.biases, *parts[3:]], 1):
        part.fill_(index)
    assert (flat != 0).all()
    groups = 1 if shape.shared else 2
    assert parts.first.shape == (shape.observation, groups * shape.hidden[0])
    assert [tuple(bias.shape) for bias in parts.biases] == [(groups, width, 1) for width in shape.hidden]
    assert parts.mean_weight.shape == (shape.action, shape.hidden[-1])


@pytest.mark.parametrize("shape", SHAPES)
def test_initial_weights_are_orthogonal_with_their_gains(shape):
    parts = parts_of(shape, fresh(shape))
    for weight in [parts.first.view(shape.observation, shape.groups, -1).transpose(0, 1), *parts.weights]:
        for group in weight:
            singular = torch.linalg.svdvals(group)
            torch.testing.assert_close(singular, torch.full_like(singular, HIDDEN_GAIN), atol=1e-4, rtol=0)
    singular = torch.linalg.svdvals(parts.mean_weight)
    torch.testing.assert_close(singular, torch.full_like(singular, MEAN_GAIN), atol=1e-6, rtol=0)
    assert not any(bias.any() for bias in [*parts.biases, parts.mean_bias, parts.value_bias])
    assert (parts.log_std == torch.tensor(-0.7)).all()


def test_the_same_seed_gives_the_same_weights_whatever_the_global_seed():
    torch.manual_seed(1)
    first = fresh(SHAPES[0])
    torch.manual_seed(2)
    assert torch.equal(first, fresh(SHAPES[0]))
    assert not torch.equal(first, fresh(SHAPES[0], seed=1))


def test_separate_nets_start_differently():
    weight = parts_of(SHAPES[0], fresh(SHAPES[0])).weights[0]
    assert not torch.equal(weight[0], weight[1])


@pytest.mark.parametrize("shape", SHAPES)
def test_hidden_layers_are_those_of_plain_torch(shape):
    flat = fresh(shape) + 0.1
    parts = parts_of(shape, flat)
    seen = torch.randn(shape.observation, 7)
    found = hidden_layers(parts, seen, hidden_buffers(shape, 7, flat))
    for group in range(shape.groups):
        first = parts.first.chunk(shape.groups, 1)[group].T
        here = torch.tanh(first @ seen + parts.biases[0][group])
        for weight, bias in zip(parts.weights, parts.biases[1:], strict=True):
            here = torch.tanh(weight[group] @ here + bias[group])
        torch.testing.assert_close(found[group], here, atol=1e-6, rtol=1e-5)


def test_tanh_in_place():
    values = torch.linspace(-20, 20, 1001)
    expected = np.tanh(values.numpy())
    assert tanh_(values) is values
    np.testing.assert_array_equal(values.numpy(), expected)
    torch.testing.assert_close(values, torch.tanh(torch.linspace(-20, 20, 1001)), atol=2e-7, rtol=1e-6)
