"""Actor, Rollout and Env of starter-ppo, made from its configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from engines.ppo.acting import Acting
from engines.ppo.device import choose
from engines.ppo.ppo import Learner
from engines.starter_ppo.config import Config
from engines.starter_ppo.learner import actor_seed, net_shape, seed_of, settings, work_of
from engines.tasks.training import GoalNavigation
from rlark.evidence.result import Result
from rlark.runtime.component import Context, Metrics, Run, Shape


class StarterPpo:
    """The program behind the engine (`rlark.runtime.component.Program`)."""

    def config(self, raw: Mapping[str, object], base: str) -> Config:  # noqa: ARG002  composing resolved all paths
        """Read the effective configuration.

        Raises:
            ValueError: a key or value is wrong.
        """
        return Config.model_validate(raw)

    def shape(self, config: Config) -> Shape:
        """The sizes of the run."""
        return Shape(
            iterations=config.runner.max_epochs,
            num_envs=config.env.train.total_num_envs,
            steps=config.env.train.rollout_steps,
            observation_size=config.task.observation_size,
            action_size=config.task.action_size,
            save_interval=max(0, config.runner.save_interval),
        )

    def env(self, config: Config, context: Context) -> GoalNavigation:
        """The environments of one rank."""
        train = config.env.train
        return GoalNavigation(
            config.task,
            train.total_num_envs // context.world_size,
            seed_of(config, "env", context.rank),
            ranks=context.world_size,
            rollout_steps=train.rollout_steps,
        )

    def rollout(self, config: Config, context: Context) -> Acting:
        """The policy that one rank acts with."""
        torch.set_num_threads(config.threads(context.threads))
        share = config.env.train.total_num_envs // context.world_size
        device = choose(context.device, work_of(config)).device  # the Actor tells why
        return Acting(net_shape(config), share, seed_of(config, "rollout", context.rank), device)

    def actor(self, config: Config, context: Context) -> Learner:
        """The policy that learns; there is one rank of it."""
        torch.set_num_threads(config.threads(context.threads))
        chosen = choose(context.device, work_of(config))
        return Learner(net_shape(config), settings(config), actor_seed(config), chosen, context.log)

    def progress(self, metrics: Metrics) -> str:
        """The tail of a progress line."""
        reward, success = metrics.get("meanReward", math.nan), metrics.get("recentSuccess", math.nan)
        low, high = metrics.get("goalRangeLow", math.nan), metrics.get("goalRangeHigh", math.nan)
        return f"meanReward={reward:.4f} recentSuccess={success:.2f} goalRange=[{low:.2f},{high:.2f}]"

    def export(self, config: Config, run: Run) -> Result:
        """Choose, export and measure the policy, and write every product."""
        from engines.starter_ppo.report import write_products

        return write_products(config, run)


PROGRAM = StarterPpo()
"""What `Engine.program` names."""
