"""How a policy is updated: the `algorithm` section, one model for each `type`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from engines.starter_ppo.section import Count, NotNegative, Positive, Section, Seed, Share

PPO: Final = "ppo"
SAC: Final = "sac"
ONE_PROCESS = (SAC,)
"""Types that learn in one process only."""


class Algorithm(Section):
    """Proximal policy optimisation.

    Attributes:
        type: ppo.
        seed: of everything random; the task pack's by default.
        gamma: discount of one control step.
        gae_lambda: weight of longer advantage estimates.
        update_epoch: passes over each rollout.
        clip_ratio_low: the probability ratio is clipped at 1 minus this.
        clip_ratio_high: and at 1 plus this.
        value_loss_coef: weight of the mean squared value error.
        entropy_bonus: weight of the entropy at the start.
        entropy_bonus_final: and at the end, linear in between; the same by default.
        normalize_advantages: to mean 0 and deviation 1 over each minibatch.
        target_kl: end an update early beyond 1.5 times this divergence; never by default.
        reward_scaling: factor on rewards before anything is learned from them; metrics show raw rewards.
    """

    type: Literal["ppo"] = PPO
    seed: Seed | None = Field(default=None, examples=[7])
    gamma: Annotated[float, Field(gt=0, le=1)] = 0.99
    gae_lambda: Share = 0.95
    update_epoch: Count = 4
    clip_ratio_low: Annotated[float, Field(gt=0, lt=1)] = 0.2
    clip_ratio_high: Positive = 0.2
    value_loss_coef: NotNegative = 0.5
    entropy_bonus: NotNegative = 0.002
    entropy_bonus_final: NotNegative | None = Field(default=None, examples=[0.0])
    normalize_advantages: bool = True
    target_kl: Positive | None = Field(default=None, examples=[0.01])
    reward_scaling: Positive = 1.0

    @model_validator(mode="before")
    @classmethod
    def _own_keys(cls, data: object) -> object:
        return _without_the_others(data, cls, Sac, SAC)


class Sac(Section):
    """Soft actor-critic: learns from the last transitions again and again, in one process.

    Attributes:
        type: sac.
        seed: of everything random; the task pack's by default.
        gamma: discount of one control step.
        tau: share of the critics that goes into the target critics at every update.
        initial_alpha: temperature at the start, the worth of a nat of entropy in rewards.
        target_entropy: nats that the temperature keeps the policy at; minus the number of actions by default.
        critic_lr: Adam's learning rate of both critics; the policy's is actor.optim.lr.
        alpha_lr: the same of the temperature's logarithm.
        replay_size: transitions that are remembered.
        warmup: transitions with random actions before anything is learned.
        updates: the most updates of an iteration; never more than it has new transitions.
        reward_scaling: factor on rewards before anything is learned from them; metrics show raw rewards.
    """

    type: Literal["sac"]
    seed: Seed | None = Field(default=None, examples=[7])
    gamma: Annotated[float, Field(gt=0, le=1)] = 0.99
    tau: Annotated[float, Field(gt=0, le=1)] = 0.005
    initial_alpha: Positive = 0.2
    target_entropy: float | None = Field(default=None, examples=[-2.0])
    critic_lr: Positive = 3e-4
    alpha_lr: Positive = 3e-4
    replay_size: Count = 8192
    warmup: Annotated[int, Field(ge=0)] = 512
    updates: Count = 32
    reward_scaling: Positive = 1.0

    @model_validator(mode="before")
    @classmethod
    def _own_keys(cls, data: object) -> object:
        return _without_the_others(data, cls, Algorithm, PPO)

    @model_validator(mode="after")
    def _fits(self) -> Sac:
        if self.warmup > self.replay_size:
            raise ValueError(
                f"algorithm.warmup {self.warmup} is above algorithm.replay_size {self.replay_size}: "
                "the first transitions would be forgotten before anything is learned from them"
            )
        return self


def _without_the_others(data: object, ours: type[Section], theirs: type[Section], name: str) -> object:
    """Refuse keys of the other algorithm in words that say whose they are."""
    if isinstance(data, Mapping):
        foreign = [key for key in data if key in theirs.model_fields and key not in ours.model_fields]
        if foreign:
            keys = ", ".join(f"algorithm.{key}" for key in foreign)
            verb = "belongs" if len(foreign) == 1 else "belong"
            raise ValueError(f"{keys} {verb} to algorithm.type {name}: remove what is not meant")
    return data


def _type(algorithm: object) -> str | None:
    """Which model a section is of; PPO where it does not say."""
    kind = algorithm.get("type", PPO) if isinstance(algorithm, Mapping) else getattr(algorithm, "type", PPO)
    return kind if kind in {PPO, SAC} else None


AnyAlgorithm = Annotated[
    Annotated[Algorithm, Tag(PPO)] | Annotated[Sac, Tag(SAC)],
    Discriminator(
        _type,
        custom_error_type="unknown_algorithm",
        custom_error_message="algorithm.type is ppo or sac",
    ),
]
"""The section, as the field of a model."""
