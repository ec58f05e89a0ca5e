"""The written-out gradient against autograd, in float64."""

from __future__ import annotations

import logging
import math

import pytest
import torch
from torch import Tensor

from engines.ppo.adam import Adam
from engines.ppo.device import Work, choose
from engines.ppo.policy import NetShape, initial, parts_of
from engines.ppo.ppo import Learner
from engines.ppo.update import Fused, Loss

SHAPES = [
    NetShape(8, 2, (64, 64), shared=False),
    NetShape(6, 3, (16, 12, 8), shared=True),
    NetShape(3, 1, (4,), shared=False),
]
LOSSES = [
    Loss(),
    Loss(clip_low=0.1, clip_high=0.3, value_coefficient=1.7, entropy_bonus=0.05),
    Loss(normalize_advantages=False, entropy_bonus=0.01),
]


def forward(shape: NetShape, flat: Tensor, seen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    parts = parts_of(shape, flat)
    ends = []
    for group in range(shape.groups):
        first = parts.first.chunk(shape.groups, 1)[group].T
        here = torch.tanh(first @ seen.T + parts.biases[0][group])
        for weight, bias in zip(parts.weights, parts.biases[1:], strict=True):
            here = torch.tanh(weight[group] @ here + bias[group])
        ends.append(here)
    mean = parts.mean_weight @ ends[0] + parts.mean_bias
    value = parts.value_weight @ ends[-1] + parts.value_bias
    return mean, value[0], parts.log_std


def log_prob(mean: Tensor, log_std: Tensor, action: Tensor) -> Tensor:
    return torch.distributions.Normal(mean, log_std.exp().expand_as(mean)).log_prob(action.T).sum(0)


def reference(shape: NetShape, flat: Tensor, packed: Tensor, loss: Loss) -> tuple[Tensor, Tensor]:
    flat = flat.clone().requires_grad_()
    o, a = shape.observation, shape.action
    seen, action, old, advantage, target = packed.split([o, a, 1, 1, 1], dim=1)
    mean, value, log_std = forward(shape, flat, seen)
    advantage = advantage[:, 0]
    if loss.normalize_advantages:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    ratio = (log_prob(mean, log_std, action) - old[:, 0]).clamp(-20, 20).exp()
    clipped = ratio.clamp(1 - loss.clip_low, 1 + loss.clip_high)
    policy = -torch.min(ratio * advantage, clipped * advantage).mean()
    entropy = (log_std + 0.5 + 0.5 * math.log(2 * math.pi)).sum()
    mse = ((value - target[:, 0]) ** 2).mean()
    total = policy + loss.value_coefficient * mse - loss.entropy_bonus * entropy
    (gradient,) = torch.autograd.grad(total, flat)
    return gradient, policy.detach()


def problem(shape: NetShape, batch: int = 96, seed: int = 0, far: float = 0.4) -> tuple[Tensor, Tensor]:
    """Parameters off their initial values, and transitions whose ratios lie on both sides of the clip."""
    generator = torch.Generator().manual_seed(seed)
    flat = initial(shape, generator, -0.7, torch.float64)
    flat += 0.05 * torch.randn(shape.count, generator=generator, dtype=torch.float64)
    packed = torch.randn(batch, shape.observation + shape.action + 3, generator=generator, dtype=torch.float64)
    seen, action = packed[:, : shape.observation], packed[:, shape.observation : -3]
    mean, _, log_std = forward(shape, flat, seen)
    action[:] = mean.T + action * log_std.exp().T
    noise = far * torch.randn(batch, generator=generator, dtype=torch.float64)
    packed[:, -3] = log_prob(mean, log_std, action) + noise
    return flat, packed


def fused(shape: NetShape, flat: Tensor, packed: Tensor, loss: Loss, parts: int = 1) -> tuple[Tensor, Fused]:
    gradient = torch.full_like(flat, math.nan)
    batch = len(packed) // parts
    update = Fused(shape, flat, gradient, batch)
    moments = None
    if loss.normalize_advantages:
        moments = (packed[:, -2].mean(), packed[:, -2].std())
    total = torch.zeros_like(flat)
    for part in packed.split(batch):
        update(part, loss, len(packed), moments)
        total += gradient
    return total, update


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_gradient_is_autograds(shape, loss):
    flat, packed = problem(shape)
    expected, policy = reference(shape, flat, packed, loss)
    found, update = fused(shape, flat, packed, loss)
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
    stats = update.stats()
    assert 0.1 < stats.clip_fraction < 0.6
    assert stats.policy_loss == pytest.approx(float(policy), abs=1e-9)
    assert stats.approx_kl > 0


@pytest.mark.parametrize("shape", SHAPES)
def test_microbatches_add_up_to_the_minibatch(shape):
    flat, packed = problem(shape)
    whole, _ = fused(shape, flat, packed, LOSSES[1])
    split, _ = fused(shape, flat, packed, LOSSES[1], parts=4)
    torch.testing.assert_close(split, whole, atol=1e-12, rtol=1e-9)


def test_ratios_beyond_all_bounds_give_no_gradient_in_the_policy():
    shape = SHAPES[0]
    flat, packed = problem(shape, far=200.0)
    expected, _ = reference(shape, flat, packed, LOSSES[0])
    found, _ = fused(shape, flat, packed, LOSSES[0])
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)


def test_at_the_old_policy_nothing_is_clipped():
    shape = SHAPES[0]
    flat, packed = problem(shape, far=0.0)
    _, update = fused(shape, flat, packed, Loss())
    stats = update.stats()
    assert stats.clip_fraction == 0.0
    assert stats.max_ratio_error < 1e-12
    assert stats.approx_kl == pytest.approx(0.0, abs=1e-12)


TERMS = {
    "value": (Loss(value_coefficient=1.3, normalize_advantages=False), 0.4, 0.0),
    "entropy": (Loss(value_coefficient=0.0, entropy_bonus=0.7, normalize_advantages=False), 0.4, 0.0),
    "policy, nothing clipped": (Loss(0.9, 9.0, value_coefficient=0.0), 0.1, 1.0),
    "policy, nearly all clipped": (Loss(0.01, 0.01, value_coefficient=0.0), 3.0, 1.0),
}


@pytest.mark.parametrize("name", TERMS)
@pytest.mark.parametrize("shape", SHAPES)
def test_each_term_alone_is_autograds(shape, name):
    loss, far, advantage = TERMS[name]
    flat, packed = problem(shape, far=far)
    packed[:, -2] *= advantage
    expected, _ = reference(shape, flat, packed, loss)
    found, update = fused(shape, flat, packed, loss)
    assert expected.abs().max() > 1e-3
    torch.testing.assert_close(found, expected, atol=1e-9, rtol=1e-9)
    clipped = update.stats().clip_fraction
    assert clipped == 0.0 if name.endswith("nothing clipped") else True
    assert clipped > 0.4 if name.endswith("nearly all clipped") else True


@pytest.mark.parametrize("clip_grad", [0.01, 100.0])
@pytest.mark.parametrize("log_std", [(-0.7, -5.0, 0.0), (-0.7, -0.701, -0.699)])
@pytest.mark.parametrize("microbatch", [32, 8])
def test_whole_steps_are_those_of_autograd_and_torchs_adam(make_settings, clip_grad, log_std, microbatch):
    """The learner in float64: shuffling, gradient, clipping of its norm, Adam, and the clamp of the log-std."""
    shape, loss = SHAPES[0], LOSSES[1]
    settings = make_settings(epochs=2, microbatch=microbatch, clip_grad=clip_grad, log_std=log_std)
    learner = Learner(shape, settings, 0, choose("cpu", Work(8)), logging.getLogger("test"))
    flat, packed = problem(shape)
    parts_of(shape, flat).log_std.clamp_(*log_std[1:])
    learner._flat = flat.clone()
    learner._parts = parts_of(shape, learner._flat)
    learner._gradient, learner._sum = torch.zeros_like(flat), torch.zeros_like(flat)
    learner._adam = Adam(learner._flat)
    learner._fused = Fused(shape, learner._flat, learner._gradient, microbatch)
    generator = torch.Generator()
    generator.set_state(learner._generator.get_state())
    found = learner._epochs(packed, loss)

    wanted = flat.clone().requires_grad_()
    adam = torch.optim.Adam([wanted], lr=settings.lr, eps=1e-5)
    norms = []
    for _ in range(settings.epochs):
        order = torch.randperm(len(packed), generator=generator)
        for chosen in order.split(settings.minibatch):
            wanted.grad, _ = reference(shape, wanted.detach(), packed[chosen], loss)
            norms.append(float(torch.nn.utils.clip_grad_norm_([wanted], clip_grad)))
            adam.step()
            with torch.no_grad():
                parts_of(shape, wanted).log_std.clamp_(*log_std[1:])
    assert all((norm > clip_grad) == (clip_grad < 1) for norm in norms)
    assert found["gradNorm"] == pytest.approx(norms[-1], abs=1e-6)
    torch.testing.assert_close(learner._flat, wanted.detach(), atol=1e-6, rtol=0.0)
    assert (wanted.detach() - flat).abs().max() > 1e-3
