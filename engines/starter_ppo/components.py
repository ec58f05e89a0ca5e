"""Actor, Rollout and Env of starter-ppo, made from its configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from engines.ppo.acting import Acting
from engines.ppo.device import choose
from engines.ppo.ppo import Learner
from engines.starter_ppo.algorithms import ONE_PROCESS, Algorithm, Sac
from engines.starter_ppo.config import Config
from engines.starter_ppo.learner import (
    actor_seed,
    net_shape,
    pace,
    sac_settings,
    sac_shape,
    seed_of,
    settings,
    work_of,
)
from engines.starter_ppo.sac import SacLearner
from engines.starter_ppo.sac_policy import SacActing
from engines.starter_ppo.sac_replay import Replay
from engines.starter_ppo.sac_trainer import SacTrainer
from engines.tasks.task import task_of
from rlark.evidence.result import Result
from rlark.runtime.component import Context, Env, Metrics, Run, Shape


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
            keep_checkpoints=config.runner.keep_checkpoints,
        )

    def env(self, config: Config, context: Context) -> Env:
        """The environments of one rank."""
        train = config.env.train
        return task_of(config.task).env(
            context.num_envs,
            seed_of(config, "env", context.rank),
            ranks=context.world_size,
            rollout_steps=train.rollout_steps,
        )

    def rollout(self, config: Config, context: Context) -> Acting:
        """The policy that one rank acts with."""
        torch.set_num_threads(config.threads(context.threads))
        device = choose(context.device, work_of(config)).device  # the Actor tells why
        return Acting(net_shape(config), context.num_envs, seed_of(config, "rollout", context.rank), device)

    def actor(self, config: Config, context: Context) -> Learner:
        """The policy that learns; every rank of it starts and shuffles alike."""
        torch.set_num_threads(config.threads(context.threads))
        chosen, how = choose(context.device, work_of(config)), settings(config, _ppo(config))
        return Learner(net_shape(config), how, actor_seed(config), chosen, context.log, team=context.team)

    def trainer(self, config: Config, contexts: Mapping[str, Context]) -> SacTrainer | None:
        """That of SAC where it is asked for; None where the runtime's own repeats rollout and update."""
        algorithm = config.algorithm
        if not isinstance(algorithm, Sac):
            return None
        torch.set_num_threads(config.threads(contexts["actor"].threads))
        chosen, shape = choose(contexts["actor"].device, work_of(config)), sac_shape(config)
        log = contexts["actor"].log
        return SacTrainer(
            SacLearner(shape, sac_settings(config, algorithm), actor_seed(config), chosen, log),
            SacActing(shape, seed_of(config, "rollout", 0), chosen.device),
            self.env(config, contexts["env"]),
            Replay(algorithm.replay_size, shape.observation, shape.action),
            pace(config, algorithm),
        )

    def progress(self, metrics: Metrics) -> str:
        """The tail of a progress line."""
        reward, success = metrics.get("meanReward", math.nan), metrics.get("recentSuccess", math.nan)
        told = f"meanReward={reward:.4f} recentSuccess={success:.2f}"
        if "goalRangeLow" in metrics:
            told += f" goalRange=[{metrics['goalRangeLow']:.2f},{metrics['goalRangeHigh']:.2f}]"
        return told

    def export(self, config: Config, run: Run) -> Result:
        """Choose, export and measure the policy, and write every product."""
        from engines.starter_ppo.report import write_products

        return write_products(config, run)


def _ppo(config: Config) -> Algorithm:
    """The settings of PPO.

    Raises:
        ValueError: another algorithm is asked for, which has no Actor that could be placed by itself.
    """
    if isinstance(config.algorithm, Algorithm):
        return config.algorithm
    raise ValueError(
        f"algorithm.type {' and '.join(ONE_PROCESS)} learns in one process only: place actor, rollout and env on one "
        "and the same resource, for example actor,rollout,env: 0"
    )


PROGRAM = StarterPpo()
"""What `Engine.program` names."""
