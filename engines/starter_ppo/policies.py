"""The policies of either algorithm, as selection, export and evaluation take them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from engines.ppo.trained import Trained
from engines.starter_ppo.algorithms import SAC
from engines.starter_ppo.config import Config
from engines.starter_ppo.learner import actor_seed, net_shape, sac_shape
from engines.starter_ppo.sac_policy import SacTrained
from rlark.evidence.network import Network
from rlark.runtime.component import FloatArray


class Policy(Protocol):
    """A deterministic policy with its normaliser."""

    def __call__(self, observation: FloatArray) -> FloatArray:
        """Actions [B, A] in [-1, 1] for observations [B, O]."""
        ...

    def save(self, path: Path) -> None:
        """Write it as a plain `.npz`."""
        ...

    def network(self) -> Network:
        """Its arrays, as they are exported."""
        ...


@dataclass(frozen=True)
class Policies:
    """How the policies of an algorithm are read.

    Attributes:
        of_state: from `Actor.state()`.
        untrained: what training starts from.
        load: from a file of `Policy.save`.
        output: what an exported action is, for people.
    """

    of_state: Callable[[Mapping[str, Any]], Policy]
    untrained: Callable[[], Policy]
    load: Callable[[Path], Policy]
    output: str


def policies_of(config: Config) -> Policies:
    """Those of the configuration's algorithm and nets."""
    seed = actor_seed(config)
    if config.algorithm.type == SAC:
        nets = sac_shape(config)
        return Policies(
            of_state=partial(SacTrained.of_state, nets),
            untrained=partial(SacTrained.untrained, nets, seed),
            load=partial(SacTrained.load, nets),
            output="tanh of the Gaussian's mean",
        )
    shape = net_shape(config)
    return Policies(
        of_state=partial(Trained.of_state, shape),
        untrained=partial(Trained.untrained, shape, seed, config.actor.model.log_std_init),
        load=partial(Trained.load, shape),
        output="mean of the Gaussian, clamped to [-1, 1]",
    )
