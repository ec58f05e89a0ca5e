"""The policy: a Gaussian over actions and a value, from one flat vector of parameters.

Activations are feature by batch, [G, H, B], so that actor and critic are one batched product a
layer: G is 2 for separate nets and 1 for a shared trunk. All functions work on plain tensors that
record no graph; the gradient is written out in `engines.ppo.update`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

HIDDEN_GAIN = math.sqrt(2.0)
MEAN_GAIN = 0.01
"""Orthogonal gain of the policy's last layer: the first actions are noise around zero."""


@dataclass(frozen=True)
class NetShape:
    """The sizes of the nets.

    Attributes:
        observation: O.
        action: A.
        hidden: widths of the hidden tanh layers.
        shared: True for one trunk under both heads, False for separate nets.
    """

    observation: int
    action: int
    hidden: tuple[int, ...]
    shared: bool

    @property
    def groups(self) -> int:
        """G, how many nets stand side by side."""
        return 1 if self.shared else 2

    def sizes(self) -> list[tuple[int, ...]]:
        """The shape of every part of the flat vector, in order."""
        groups, hidden = self.groups, self.hidden
        weights = [(groups, after, before) for before, after in pairwise(hidden)]
        biases = [(groups, width, 1) for width in hidden]
        heads = [(self.action, hidden[-1]), (self.action, 1), (1, hidden[-1]), (1, 1)]
        return [(self.observation, groups * hidden[0]), *weights, *biases, *heads, (self.action, 1)]

    @property
    def count(self) -> int:
        """Length of the flat vector."""
        return sum(math.prod(size) for size in self.sizes())


class Parts(NamedTuple):
    """Views into a flat vector of parameters or of their gradient.

    Attributes:
        first: [O, G * H], the weights of the first layer. This way round, the product that gives their
            gradient is three times faster: few observations make it thin.
        weights: [G, H_out, H_in] for each hidden layer after the first.
        biases: [G, H_out, 1] for each hidden layer.
        mean_weight: [A, H].
        mean_bias: [A, 1].
        value_weight: [1, H].
        value_bias: [1, 1].
        log_std: [A, 1].
    """

    first: Tensor
    weights: list[Tensor]
    biases: list[Tensor]
    mean_weight: Tensor
    mean_bias: Tensor
    value_weight: Tensor
    value_bias: Tensor
    log_std: Tensor


def parts_of(shape: NetShape, flat: Tensor) -> Parts:
    """The parts of a flat vector [count], as views."""
    sizes = shape.sizes()
    pieces = torch.split(flat, [math.prod(size) for size in sizes])
    views = [piece.view(size) for piece, size in zip(pieces, sizes, strict=True)]
    deep = len(shape.hidden)
    return Parts(views[0], views[1:deep], views[deep : 2 * deep], *views[2 * deep :])


def initial(shape: NetShape, generator: torch.Generator, log_std: float, dtype: torch.dtype = torch.float32) -> Tensor:
    """A fresh flat vector [count]: orthogonal weights, zero biases, the given log-std."""
    flat = torch.zeros(shape.count, dtype=dtype)
    parts = parts_of(shape, flat)
    matrices = [*parts.first.chunk(shape.groups, 1), *(group for weight in parts.weights for group in weight)]
    for matrix in matrices:
        _orthogonal(matrix, HIDDEN_GAIN, generator)
    _orthogonal(parts.mean_weight, MEAN_GAIN, generator)
    _orthogonal(parts.value_weight, 1.0, generator)
    parts.log_std.fill_(log_std)
    return flat


def _orthogonal(weight: Tensor, gain: float, generator: torch.Generator) -> None:
    torch.nn.init.orthogonal_(weight, gain, generator=generator)


def tanh_(values: Tensor) -> Tensor:
    """Tanh in place.

    On a CPU by numpy, on the same memory: its vectorised tanh is up to 13 times faster than
    torch's where torch has no vendor's math library behind it (measured on AMD EPYC).
    """
    if values.device.type != "cpu":
        return torch.tanh_(values)
    array = values.numpy()
    np.tanh(array, out=array)
    return values


def hidden_layers(parts: Parts, observation: Tensor, buffers: list[Tensor]) -> Tensor:
    """Activations [G, H, B] of the last hidden layer.

    Args:
        parts: parameters of the nets.
        observation: [O, B] normalised.
        buffers: [G, H, B] for each hidden layer; overwritten with its activations.
    """
    first, batch = buffers[0], observation.shape[1]
    torch.addmm(parts.biases[0].view(-1, 1), parts.first.t(), observation, out=first.view(-1, batch))
    tanh_(first)
    for index, weight in enumerate(parts.weights, 1):
        torch.baddbmm(parts.biases[index], weight, buffers[index - 1], out=buffers[index])
        tanh_(buffers[index])
    return buffers[-1]


def hidden_buffers(shape: NetShape, batch: int, like: Tensor) -> list[Tensor]:
    """Room [G, H, B] for the activations of every hidden layer, of the type and device of `like`."""
    return [like.new_empty((shape.groups, hidden, batch)) for hidden in shape.hidden]


def heads(parts: Parts, last: Tensor, mean: Tensor, value: Tensor) -> None:
    """Write the means [A, B] and values [1, B] of the last activations [G, H, B]."""
    torch.addmm(parts.mean_bias, parts.mean_weight, last[0], out=mean)
    torch.addmm(parts.value_bias, parts.value_weight, last[-1], out=value)
