"""What the configuration means for the learner: its nets, its settings, its random streams."""

from __future__ import annotations

import numpy as np

from engines.ppo.device import Work
from engines.ppo.policy import NetShape
from engines.ppo.ppo import Settings
from engines.ppo.update import Loss
from engines.starter_ppo.algorithms import Algorithm, Sac
from engines.starter_ppo.config import Config
from engines.starter_ppo.sac import SacSettings
from engines.starter_ppo.sac_nets import SacShape
from engines.starter_ppo.sac_trainer import Pace

NUMBERS = {"actor": 0, "rollout": 1, "env": 2}
"""Component numbers in the seeds of their random streams."""


def net_shape(config: Config) -> NetShape:
    """The sizes of the nets."""
    task = config.task
    return NetShape(task.observation_size, task.action_size, config.hidden_dims, config.actor.model.shared_trunk)


def sac_shape(config: Config) -> SacShape:
    """The sizes of the nets of SAC."""
    return SacShape(config.task.observation_size, config.task.action_size, config.hidden_dims)


def sac_settings(config: Config, algorithm: Sac) -> SacSettings:
    """How SAC learns."""
    entropy = algorithm.target_entropy
    return SacSettings(
        gamma=algorithm.gamma,
        tau=algorithm.tau,
        policy_lr=config.actor.optim.lr,
        critic_lr=algorithm.critic_lr,
        alpha_lr=algorithm.alpha_lr,
        initial_alpha=algorithm.initial_alpha,
        target_entropy=-float(config.task.action_size) if entropy is None else entropy,
        batch=config.minibatch,
        normalise_observations=config.actor.model.normalize_observations,
    )


def pace(config: Config, algorithm: Sac) -> Pace:
    """How much SAC does in an iteration."""
    return Pace(config.env.train.rollout_steps, algorithm.warmup, algorithm.updates, algorithm.reward_scaling)


def work_of(config: Config) -> Work:
    """The size of an iteration, by which a device is chosen."""
    train, algorithm = config.env.train, config.algorithm
    if isinstance(algorithm, Sac):
        nets = sac_shape(config)
        epochs = max(1, round(algorithm.updates * config.minibatch / config.transitions))
        parameters, minibatches = nets.policy_count + nets.critic_count, max(1, algorithm.updates // epochs)
    else:
        epochs, parameters = algorithm.update_epoch, net_shape(config).count
        minibatches = config.transitions // config.minibatch
    return Work(train.total_num_envs, train.rollout_steps, parameters, epochs, minibatches)


def settings(config: Config, algorithm: Algorithm) -> Settings:
    """How PPO learns."""
    optim, model = config.actor.optim, config.actor.model
    final = algorithm.entropy_bonus_final
    return Settings(
        iterations=config.runner.max_epochs,
        gamma=algorithm.gamma,
        gae_lambda=algorithm.gae_lambda,
        reward_scale=algorithm.reward_scaling,
        epochs=algorithm.update_epoch,
        minibatch=config.minibatch,
        microbatch=config.microbatch,
        loss=Loss(
            clip_low=algorithm.clip_ratio_low,
            clip_high=algorithm.clip_ratio_high,
            value_coefficient=algorithm.value_loss_coef,
            entropy_bonus=algorithm.entropy_bonus,
            normalize_advantages=algorithm.normalize_advantages,
        ),
        entropy_final=algorithm.entropy_bonus if final is None else final,
        lr=optim.lr,
        lr_schedule=optim.lr_scheduler,
        lr_final=optim.min_lr_rate,
        target_kl=algorithm.target_kl,
        clip_grad=optim.clip_grad,
        log_std=(model.log_std_init, model.log_std_min, model.log_std_max),
        normalise_observations=model.normalize_observations,
    )


def seed_of(config: Config, component: str, rank: int) -> np.random.SeedSequence:
    """The random stream of one rank, the same fused and placed."""
    return np.random.SeedSequence([config.seed, NUMBERS[component], rank])


def actor_seed(config: Config) -> int:
    """The seed of the initial weights and of the shuffling."""
    return int(seed_of(config, "actor", 0).generate_state(1, np.uint64)[0] >> 1)
