"""SAC: its numbers against plain loops in float64, and what it learns from."""

from __future__ import annotations

import logging
import math
import pickle

import numpy as np
import pytest
import torch

from engines.ppo.device import Work, choose
from engines.starter_ppo.sac import Batch, SacLearner, SacSettings, targets
from engines.starter_ppo.sac_nets import SacShape, gaussian, initial, layers_of, sample, values
from engines.starter_ppo.sac_policy import SacActing, SacTrained
from engines.starter_ppo.sac_replay import Replay, Transitions

SHAPE = SacShape(observation=3, action=2, hidden=(5, 4))
SETTINGS = SacSettings(
    gamma=0.9,
    tau=0.1,
    policy_lr=1e-3,
    critic_lr=1e-3,
    alpha_lr=1e-3,
    initial_alpha=0.2,
    target_entropy=-2.0,
    batch=16,
    normalise_observations=True,
)


def a_learner(seed: int = 3, **differs: object) -> SacLearner:
    settings = SacSettings(**{**vars(SETTINGS), **differs})
    return SacLearner(SHAPE, settings, seed, choose("cpu", Work(1)), logging.getLogger("test"))


def some(count: int, seed: int = 1) -> Transitions:
    rng = np.random.default_rng(seed)
    seen, following = rng.normal(size=(2, count, 3)).astype(np.float32)
    action = rng.uniform(-1, 1, (count, 2)).astype(np.float32)
    return Transitions(seen, action, rng.normal(size=count).astype(np.float32), following, rng.random(count) < 0.3)


def a_replay(count: int = 64) -> Replay:
    replay = Replay(count, 3, 2)
    replay.add(some(count))
    return replay


def perceptron(weights: list[tuple[np.ndarray, np.ndarray]], inputs: list[float]) -> list[float]:
    """One row through a ReLU net, number by number."""
    here = inputs
    for index, (weight, bias) in enumerate(weights):
        here = [sum(here[i] * float(weight[i][j]) for i in range(len(here))) + float(bias[j]) for j in range(len(bias))]
        if index < len(weights) - 1:
            here = [max(value, 0.0) for value in here]
    return here


def test_targets_are_those_of_a_plain_loop_in_float64():
    generator, rng = torch.Generator().manual_seed(4), np.random.default_rng(4)
    policy = initial(SHAPE.policy_sizes(), generator).double()
    critics = initial(SHAPE.critic_sizes(), generator).double()
    drawn, noise, alpha, gamma = some(12), rng.normal(size=(12, 2)), 0.3, 0.9
    arrays = (drawn.observation, drawn.action, drawn.reward, drawn.following, ~drawn.terminated)
    batch = Batch(*(torch.tensor(array.astype(np.float64)) for array in arrays))
    acting, judging = layers_of(SHAPE.policy_sizes(), policy), layers_of(SHAPE.critic_sizes(), critics)
    action, log_prob = sample(*gaussian(acting, batch.following), torch.tensor(noise))
    future = values(judging, batch.following, action)
    found = targets(batch, future, log_prob, torch.tensor(alpha, dtype=torch.float64), gamma)

    for row in range(12):
        following = [float(value) for value in drawn.following[row]]
        out = perceptron([(weight.numpy(), bias.numpy()) for weight, bias in acting], following)
        density, squashed = 0.0, []
        for joint in range(2):
            mean, log_std = out[joint], min(max(out[2 + joint], -5.0), 2.0)
            before = mean + math.exp(log_std) * float(noise[row, joint])
            squashed.append(math.tanh(before))
            density += -0.5 * ((before - mean) / math.exp(log_std)) ** 2 - log_std - 0.5 * math.log(2 * math.pi)
            density -= math.log(1.0 - squashed[-1] ** 2)
        worth = [
            perceptron([(weight[i].numpy(), bias[i, 0].numpy()) for weight, bias in judging], following + squashed)[0]
            for i in range(2)
        ]
        wanted = float(drawn.reward[row])
        if not drawn.terminated[row]:
            wanted += gamma * (min(worth) - alpha * density)
        assert float(found[row]) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("before", [0.0, 1.0, -3.0, 8.0, -15.0, 40.0])
def test_the_log_probability_is_right_where_the_action_is_as_good_as_one(before):
    mean, log_std = torch.tensor([[before]], dtype=torch.float64), torch.tensor([[-1.0]], dtype=torch.float64)
    action, log_prob = sample(mean, log_std, torch.zeros(1, 1, dtype=torch.float64))
    # log (1 - tanh^2 u) = log 4 - 2 |u| - 2 log (1 + e^(-2 |u|))
    squash = math.log(4.0) - 2 * abs(before) - 2 * math.log1p(math.exp(-2 * abs(before)))
    assert float(log_prob) == pytest.approx(1.0 - 0.5 * math.log(2 * math.pi) - squash, rel=1e-12)
    assert abs(float(action)) <= 1.0
    single, finite = sample(mean.float(), log_std.float(), torch.zeros(1, 1))
    assert math.isfinite(float(finite))
    assert float(finite) == pytest.approx(float(log_prob), rel=1e-5)
    assert abs(float(single)) <= 1.0


def test_the_density_of_actions_sums_to_one():
    noise = torch.linspace(-6, 6, 20001, dtype=torch.float64)[:, None]
    mean, log_std = torch.full_like(noise, 0.4), torch.full_like(noise, -0.3)
    action, log_prob = sample(mean, log_std, noise)
    assert float(torch.trapezoid(log_prob.exp(), action[:, 0])) == pytest.approx(1.0, abs=1e-6)


def test_one_update_is_that_of_torchs_own_adam_on_the_same_losses():
    learner, replay = a_learner(normalise_observations=False), a_replay()
    policy, critic = learner._policy.detach().clone(), learner._critic.detach().clone()
    target, rng = critic.clone(), np.random.Generator(np.random.PCG64(3))
    log_alpha = torch.tensor([math.log(0.2)])
    parts = [flat.requires_grad_() for flat in (policy, critic, log_alpha)]
    adams = [torch.optim.Adam([flat], lr=1e-3, eps=1e-8) for flat in parts]
    learner.learn(replay, 3)
    for _ in range(3):
        drawn = replay.draw(rng, 16)
        arrays = (drawn.observation, drawn.action, drawn.reward, drawn.following, (~drawn.terminated).astype("f4"))
        batch = Batch(*map(torch.from_numpy, arrays))
        first, second = (torch.from_numpy(rng.standard_normal((16, 2), dtype=np.float32)) for _ in range(2))
        acting = layers_of(SHAPE.policy_sizes(), policy)
        with torch.no_grad():
            action, log_prob = sample(*gaussian(acting, batch.following), first)
            future = values(layers_of(SHAPE.critic_sizes(), target), batch.following, action).min(dim=0).values
            wanted = batch.reward + 0.9 * batch.alive * (future - log_alpha.exp() * log_prob)
        found = values(layers_of(SHAPE.critic_sizes(), critic), batch.observation, batch.action)
        step(adams[1], torch.nn.functional.mse_loss(found[0], wanted) + torch.nn.functional.mse_loss(found[1], wanted))
        action, log_prob = sample(*gaussian(acting, batch.observation), second)
        worth = values(layers_of(SHAPE.critic_sizes(), critic), batch.observation, action).min(dim=0).values
        step(adams[0], (log_alpha.detach().exp() * log_prob - worth).mean())
        step(adams[2], -(log_alpha * (log_prob.detach() - 2.0)).mean())
        target = 0.9 * target + 0.1 * critic.detach()
    for ours, theirs in ((learner._policy, policy), (learner._critic, critic), (learner._log_alpha, log_alpha)):
        torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=0, atol=2e-6)
    torch.testing.assert_close(learner._target, target, rtol=0, atol=2e-6)


def step(adam: torch.optim.Adam, loss: torch.Tensor) -> None:
    adam.zero_grad()
    loss.backward()
    adam.step()


def test_the_temperature_rises_where_the_policy_is_too_sure_and_falls_where_it_is_not():
    for target, sign in ((5.0, 1), (-50.0, -1)):
        learner, replay = a_learner(target_entropy=target), a_replay()
        before = learner.alpha
        learner.learn(replay, 20)
        assert sign * (learner.alpha - before) > 0
        assert learner.alpha > 0


def test_what_always_pays_one_and_is_only_cut_off_is_worth_one_over_one_minus_gamma():
    learner, replay = a_learner(critic_lr=3e-3, tau=0.05, initial_alpha=1e-6, target_entropy=-50.0), Replay(64, 3, 2)
    drawn = some(64)
    never = np.zeros(64, np.bool_)
    replay.add(drawn._replace(reward=np.ones(64, np.float32), following=drawn.observation, terminated=never))
    learner.look(drawn.observation)
    for _ in range(15):
        found = learner.learn(replay, 100)
    assert found["qMean"] == pytest.approx(10.0, rel=0.05)


def test_what_is_not_finite_is_told():
    learner, replay = a_learner(), Replay(8, 3, 2)
    replay.add(some(8)._replace(reward=np.full(8, np.nan, np.float32)))
    with pytest.raises(FloatingPointError, match=r"a loss of SAC is NaN or infinite"):
        learner.learn(replay, 1)


def test_a_learner_goes_on_to_the_byte():
    whole, first, replay = a_learner(), a_learner(), a_replay()
    whole.look(some(9).observation)
    first.look(some(9).observation)
    whole.learn(replay, 6)
    first.learn(replay, 3)
    second = a_learner(seed=99)
    second.restore(pickle.loads(pickle.dumps(first.state())))
    second.learn(replay, 3)
    assert pickle.dumps(second.state()) == pickle.dumps(whole.state())


def test_a_state_of_other_nets_or_of_ppo_is_refused():
    learner = a_learner()
    small = SacLearner(SacShape(3, 2, (4,)), SETTINGS, 1, choose("cpu", Work(1)), logging.getLogger("test")).state()
    for state in (small, {"flat": learner.state()["flat"]}):
        with pytest.raises(ValueError, match="the checkpoint is not one of SAC with"):
            learner.restore(state)


def test_the_ring_forgets_the_oldest():
    replay = Replay(5, 1, 1)

    def numbered(first: int, count: int) -> Transitions:
        number = np.arange(first, first + count, dtype=np.float32)
        return Transitions(number[:, None], number[:, None], number, number[:, None] + 1, number % 2 == 0)

    def held() -> set[float]:
        return set(replay.draw(np.random.default_rng(0), 400).reward.tolist())

    replay.add(numbered(0, 3))
    assert (len(replay), held()) == (3, {0, 1, 2})
    replay.add(numbered(3, 4))
    assert (len(replay), replay.seen, held()) == (5, 7, {2, 3, 4, 5, 6})
    replay.add(numbered(7, 12))
    assert (len(replay), replay.seen, held()) == (5, 19, {14, 15, 16, 17, 18})
    drawn = replay.draw(np.random.default_rng(1), 50)
    assert (drawn.following[:, 0] == drawn.reward + 1).all()
    assert (drawn.terminated == (drawn.reward % 2 == 0)).all()
    other = Replay(5, 1, 1)
    other.restore(pickle.loads(pickle.dumps(replay.state())))
    other.add(numbered(19, 2))
    replay.add(numbered(19, 2))
    assert pickle.dumps(other.state()) == pickle.dumps(replay.state())
    with pytest.raises(ValueError, match="resume with the same replay_size"):
        Replay(6, 1, 1).restore(replay.state())


def test_acting_explores_and_the_trained_policy_does_not(tmp_path):
    learner, observation = a_learner(), some(6).observation
    learner.look(observation)
    acting = SacActing(SHAPE, np.random.SeedSequence(2), torch.device("cpu"))
    acting.load(learner.weights())
    first, second = acting.act(observation), acting.act(observation)
    assert np.abs(first - second).max() > 0.1
    assert max(np.abs(first).max(), np.abs(acting.wander(100)).max()) <= 1.0
    policy = SacTrained.of_state(SHAPE, learner.state())
    assert first.shape == policy(observation).shape == (6, 2)
    np.testing.assert_array_equal(policy(observation), policy(observation))
    policy.save(tmp_path / "policy.npz")
    again = SacTrained.load(SHAPE, tmp_path / "policy.npz")
    np.testing.assert_array_equal(again(observation), policy(observation))
    np.testing.assert_allclose(again.network().exact(observation), policy(observation), atol=1e-6)
    with pytest.raises(ValueError, match="parameters, and this policy has"):
        SacTrained.load(SacShape(3, 2, (5,)), tmp_path / "policy.npz")


def test_the_untrained_policy_is_what_learning_starts_from():
    np.testing.assert_array_equal(SacTrained.untrained(SHAPE, 3).weights.flat, a_learner(seed=3).weights().flat)
