"""The gradient of PPO's loss, written out and free of allocations.

For a minibatch of B transitions, with z = (action - mean) / std:

    ratio  = exp(clamp(log_prob(action) - old log_prob, -20, 20))
    policy = -mean(min(ratio * advantage, clip(ratio, 1 - low, 1 + high) * advantage))
    value  = mean((V - target)^2)
    loss   = policy + value_coefficient * value - entropy_bonus * entropy

Where the clipped branch wins, its gradient is zero; elsewhere d(policy)/d(log_prob) is
-ratio * advantage / B, and log_prob has the gradients z / std in the mean and z^2 - 1 in log_std.
A test holds the result against autograd.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from engines.ppo.policy import NetShape, Parts, heads, hidden_buffers, hidden_layers, parts_of

LOG_RATIO_LIMIT = 20.0
ADVANTAGE_EPSILON = 1e-8
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True)
class Loss:
    """The weights of PPO's loss.

    Attributes:
        clip_low: the ratio is clipped at 1 - clip_low.
        clip_high: and at 1 + clip_high.
        value_coefficient: weight of the mean squared value error.
        entropy_bonus: weight of the entropy.
        normalize_advantages: to mean 0 and deviation 1 over each minibatch.
    """

    clip_low: float = 0.2
    clip_high: float = 0.2
    value_coefficient: float = 0.5
    entropy_bonus: float = 0.0
    normalize_advantages: bool = True


class Stats(NamedTuple):
    """What one minibatch showed.

    Attributes:
        policy_loss: the clipped surrogate.
        value_loss: mean squared value error, in scaled units.
        approx_kl: mean(ratio - 1 - log ratio), never negative (Schulman's k3).
        clip_fraction: share of transitions whose gradient was clipped away.
        max_ratio_error: greatest |ratio - 1|.
    """

    policy_loss: float
    value_loss: float
    approx_kl: float
    clip_fraction: float
    max_ratio_error: float


class Fused:
    """Writes the gradient of a minibatch of B packed transitions.

    A packed transition is a row [observation O, action A, log_prob, advantage, value target].
    """

    def __init__(self, shape: NetShape, flat: Tensor, gradient: Tensor, batch: int) -> None:
        """Reserve everything once.

        Args:
            shape: of the nets.
            flat: [count] parameters.
            gradient: [count], written by `gradient`.
            batch: B.
        """
        self._shape, self._batch = shape, batch
        self._parts, self._slopes = parts_of(shape, flat), parts_of(shape, gradient)
        self._hidden = hidden_buffers(shape, batch, flat)
        self._back = hidden_buffers(shape, batch, flat)
        self._mean = flat.new_empty((shape.action, batch))
        self._value = flat.new_empty((1, batch))
        self._rows = flat.new_empty((shape.observation + shape.action + 3, batch))
        self._gradient = gradient

    @property
    def buffers(self) -> list[Tensor]:
        """What only means something while a gradient is written."""
        return [*self._hidden, *self._back, self._mean, self._value, self._rows]

    def __call__(self, packed: Tensor, loss: Loss, total: int, moments: tuple[Tensor, Tensor] | None) -> None:
        """Write the gradient of the packed transitions [B, O + A + 3].

        Args:
            packed: B transitions.
            loss: the loss's weights.
            total: transitions of the whole minibatch, of which these are a part; means are over it.
            moments: mean and deviation of the minibatch's advantages; None to take them as they are.
        """
        shape, parts = self._shape, self._parts
        rows = self._rows.copy_(packed.t())
        observation = rows[: shape.observation]
        last = hidden_layers(parts, observation, self._hidden)
        heads(parts, last, self._mean, self._value)
        d_mean, d_value = self._head_slopes(rows[shape.observation :], loss, total, moments)
        self._backward(observation, d_mean, d_value)

    def _head_slopes(
        self, rows: Tensor, loss: Loss, total: int, moments: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, Tensor]:
        """Gradients in the means [A, B] and values [1, B]; writes that of log_std."""
        actions, log_std = self._shape.action, self._parts.log_std
        action, old, advantage, target = rows[:actions], rows[actions], rows[actions + 1], rows[actions + 2]
        if moments is not None:
            advantage = (advantage - moments[0]).div_(moments[1] + ADVANTAGE_EPSILON)
        inverse_std = torch.exp(-log_std)
        z = (action - self._mean).mul_(inverse_std)
        square = z * z
        constant = log_std.sum() + actions * HALF_LOG_2PI
        log_ratio = square.sum(0).mul_(-0.5).sub_(constant).sub_(old)
        ratio = torch.exp(log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT))
        surrogate = ratio * advantage
        clipped = ratio.clamp(1.0 - loss.clip_low, 1.0 + loss.clip_high).mul_(advantage)
        active = surrogate <= clipped
        active &= log_ratio.abs() <= LOG_RATIO_LIMIT
        slope = torch.mul(surrogate, active).mul_(-1.0 / total)
        error = self._value - target
        self._seen = (log_ratio, ratio, surrogate, clipped, active, error)
        entropy = loss.entropy_bonus * self._batch / total
        torch.sub((square - 1.0) @ slope[:, None], entropy, out=self._slopes.log_std)
        d_mean = z.mul_(inverse_std).mul_(slope)
        return d_mean, error * (2.0 * loss.value_coefficient / total)

    def _backward(self, observation: Tensor, d_mean: Tensor, d_value: Tensor) -> None:
        parts, slopes, hidden, back = self._parts, self._slopes, self._hidden, self._back
        last, top = hidden[-1], back[-1]
        torch.mm(d_mean, last[0].t(), out=slopes.mean_weight)
        torch.sum(d_mean, 1, keepdim=True, out=slopes.mean_bias)
        torch.mm(d_value, last[-1].t(), out=slopes.value_weight)
        torch.sum(d_value, 1, keepdim=True, out=slopes.value_bias)
        self._into_top(top, d_mean, d_value)
        for index in range(len(hidden) - 1, -1, -1):
            slope = back[index]
            torch.ops.aten.tanh_backward.grad_input(slope, hidden[index], grad_input=slope)
            torch.sum(slope, 2, keepdim=True, out=slopes.biases[index])
            if index:
                torch.bmm(slope, hidden[index - 1].transpose(1, 2), out=slopes.weights[index - 1])
                torch.bmm(parts.weights[index - 1].transpose(1, 2), slope, out=back[index - 1])
            else:
                torch.mm(observation, slope.view(-1, self._batch).t(), out=slopes.first)

    def _into_top(self, top: Tensor, d_mean: Tensor, d_value: Tensor) -> None:
        """The heads' gradients [G, H, B] in the last activations; the heads are thin, so row by row."""
        parts = self._parts
        torch.mul(parts.mean_weight[0, :, None], d_mean[0], out=top[0])
        for action in range(1, self._shape.action):
            top[0].addcmul_(parts.mean_weight[action, :, None], d_mean[action])
        if self._shape.shared:
            top[0].addcmul_(parts.value_weight[0, :, None], d_value)
        else:
            torch.mul(parts.value_weight[0, :, None], d_value, out=top[1])

    def stats(self) -> Stats:
        """What the last minibatch showed."""
        log_ratio, ratio, surrogate, clipped, active, error = self._seen
        return Stats(
            policy_loss=-float(torch.minimum(surrogate, clipped).mean()),
            value_loss=float((error * error).mean()),
            approx_kl=float((ratio - 1.0 - log_ratio).mean()),
            clip_fraction=1.0 - float(active.sum()) / self._batch,
            max_ratio_error=float((ratio - 1.0).abs().max()),
        )


def entropy(parts: Parts) -> float:
    """Entropy of the policy's Gaussian, in nats."""
    constant = parts.log_std.numel() * (0.5 + HALF_LOG_2PI)
    return float(parts.log_std.sum()) + float(constant)
