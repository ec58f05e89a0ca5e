"""The nets of SAC: a tanh-squashed Gaussian over actions and two critics, each in one flat vector."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional

LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
CRITICS = 2

Layers = list[tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class SacShape:
    """The sizes of the nets.

    Attributes:
        observation: O.
        action: A.
        hidden: widths of the hidden ReLU layers, of the policy and of each critic.
    """

    observation: int
    action: int
    hidden: tuple[int, ...]

    def policy_sizes(self) -> list[tuple[int, ...]]:
        """Weight [in, out] and bias [out] of each layer; the last gives means and log-stds."""
        widths = (self.observation, *self.hidden, 2 * self.action)
        return [size for before, after in pairwise(widths) for size in ((before, after), (after,))]

    def critic_sizes(self) -> list[tuple[int, ...]]:
        """Weight [2, in, out] and bias [2, 1, out] of each layer of both critics side by side."""
        widths = (self.observation + self.action, *self.hidden, 1)
        return [size for before, after in pairwise(widths) for size in ((CRITICS, before, after), (CRITICS, 1, after))]

    @property
    def policy_count(self) -> int:
        """Length of the policy's flat vector."""
        return sum(math.prod(size) for size in self.policy_sizes())

    @property
    def critic_count(self) -> int:
        """Length of the critics' flat vector."""
        return sum(math.prod(size) for size in self.critic_sizes())


def layers_of(sizes: list[tuple[int, ...]], flat: Tensor) -> Layers:
    """(weight, bias) of each layer, as views of a flat vector."""
    pieces = torch.split(flat, [math.prod(size) for size in sizes])
    views = [piece.view(size) for piece, size in zip(pieces, sizes, strict=True)]
    return list(zip(views[::2], views[1::2], strict=True))


def initial(sizes: list[tuple[int, ...]], generator: torch.Generator) -> Tensor:
    """A fresh flat vector: weights and biases uniform within 1 / sqrt(inputs)."""
    flat = torch.empty(sum(math.prod(size) for size in sizes))
    for weight, bias in layers_of(sizes, flat):
        bound = 1.0 / math.sqrt(weight.shape[-2])
        weight.uniform_(-bound, bound, generator=generator)
        bias.uniform_(-bound, bound, generator=generator)
    return flat


def gaussian(layers: Layers, observation: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and log-std [B, A], before squashing, of normalised observations [B, O]."""
    here = observation
    for weight, bias in layers[:-1]:
        here = functional.relu(torch.addmm(bias, here, weight))
    weight, bias = layers[-1]
    mean, log_std = torch.addmm(bias, here, weight).chunk(2, dim=1)
    return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)


def sample(mean: Tensor, log_std: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Actions [B, A] in [-1, 1] and their log-probabilities [B].

    The density of tanh(u) is that of u divided by 1 - tanh(u)^2, whose logarithm is
    2 (log 2 - u - softplus(-2 u)): it is taken of u itself, as near ±1 the action does not know u any more.

    Args:
        mean: [B, A].
        log_std: [B, A].
        noise: [B, A] standard normal.
    """
    before = mean + log_std.exp() * noise
    normal = -0.5 * noise.square() - log_std - HALF_LOG_2PI
    squash = 2.0 * (math.log(2.0) - before - functional.softplus(-2.0 * before))
    return torch.tanh(before), (normal - squash).sum(dim=1)


def values(layers: Layers, observation: Tensor, action: Tensor) -> Tensor:
    """Q of both critics [2, B], of normalised observations [B, O] and actions [B, A]."""
    here = torch.cat((observation, action), dim=1).expand(CRITICS, -1, -1)
    for weight, bias in layers[:-1]:
        here = functional.relu(torch.baddbmm(bias, here, weight))
    weight, bias = layers[-1]
    return torch.baddbmm(bias, here, weight)[:, :, 0]
