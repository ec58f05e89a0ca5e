"""Which checkpoint is exported: the one that does best in deterministic episodes of its own seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from engines.starter_ppo.policies import Policies, Policy
from engines.tasks.task import ENVELOPES, Task
from rlark.runtime.checkpoint import load_actor
from rlark.runtime.component import Run

PROBED = 4
PROBE_SEED_OFFSET = 2000


class Candidate(NamedTuple):
    """A checkpoint and how it did.

    Attributes:
        iteration: counted from 1.
        policy: its deterministic policy.
        episodes: probing episodes of each envelope.
        nominal: successes under the nominal envelope.
        hard: successes under the hard one.
        harm: what counts against it under both: collisions, or control steps lost to falls.
    """

    iteration: int
    policy: Policy
    episodes: int
    nominal: int
    hard: int
    harm: int

    @property
    def checkpoint_id(self) -> str:
        """`iter-00040`."""
        return f"iter-{self.iteration:05d}"


def select(policies: Policies, run: Run, task: Task, episodes: int, seed: int) -> tuple[Candidate, list[Candidate]]:
    """The best of the last checkpoints, and all that were tried.

    Args:
        policies: how they are read.
        run: with its checkpoints; its final actor counts where it is none of them.
        task: that of the evaluation.
        episodes: for each envelope.
        seed: of the run; probing uses `seed + 2000`, the evaluation another.
    """
    seed += PROBE_SEED_OFFSET
    tried = [_probe(iteration, policy, task, episodes, seed) for iteration, policy in _last(policies, run)]
    return best(tried), tried


def best(tried: Sequence[Candidate]) -> Candidate:
    """The one to export: most successes under both envelopes, then least harm, then latest."""
    return max(tried, key=lambda found: (found.nominal + found.hard, -found.harm, found.iteration))


def _last(policies: Policies, run: Run) -> list[tuple[int, Policy]]:
    paths: Sequence[Path] = run.checkpoints[-PROBED:]
    found = [(_iteration(path), policies.of_state(load_actor(path))) for path in paths]
    if not found or found[-1][0] != len(run.history):
        found.append((len(run.history), policies.of_state(run.actor)))
    return found[-PROBED:]


def _iteration(path: Path) -> int:
    return int(path.name.rpartition("_")[2])


def _probe(iteration: int, policy: Policy, task: Task, episodes: int, seed: int) -> Candidate:
    nominal, hard = (task.measure(policy, under, episodes, seed) for under in ENVELOPES)
    successes = int(nominal.success.sum()), int(hard.success.sum())
    return Candidate(iteration, policy, episodes, *successes, nominal.harm + hard.harm)
