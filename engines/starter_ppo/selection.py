"""Which checkpoint is exported: the one that does best in deterministic episodes of its own seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from engines.ppo.policy import NetShape
from engines.ppo.trained import Trained
from engines.tasks.evaluate import measure
from rlark.runtime.checkpoint import load_actor
from rlark.runtime.component import Run
from rlark.spec.task_pack import TaskPack

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
        collisions: under both.
    """

    iteration: int
    policy: Trained
    episodes: int
    nominal: int
    hard: int
    collisions: int

    @property
    def checkpoint_id(self) -> str:
        """`iter-00040`."""
        return f"iter-{self.iteration:05d}"


def select(shape: NetShape, run: Run, pack: TaskPack, episodes: int, seed: int) -> tuple[Candidate, list[Candidate]]:
    """The best of the last checkpoints, and all that were tried.

    Args:
        shape: of the nets.
        run: with its checkpoints; its final actor counts where it is none of them.
        pack: the task of the evaluation.
        episodes: for each envelope.
        seed: of the run; probing uses `seed + 2000`, the evaluation another.
    """
    seed += PROBE_SEED_OFFSET
    tried = [_probe(iteration, policy, pack, episodes, seed) for iteration, policy in _last(shape, run)]
    return best(tried), tried


def best(tried: Sequence[Candidate]) -> Candidate:
    """The one to export: most successes under both envelopes, then fewest collisions, then latest."""
    return max(tried, key=lambda found: (found.nominal + found.hard, -found.collisions, found.iteration))


def _last(shape: NetShape, run: Run) -> list[tuple[int, Trained]]:
    paths: Sequence[Path] = run.checkpoints[-PROBED:]
    found = [(_iteration(path), Trained.of_state(shape, load_actor(path))) for path in paths]
    if not found or found[-1][0] != len(run.history):
        found.append((len(run.history), Trained.of_state(shape, run.actor)))
    return found[-PROBED:]


def _iteration(path: Path) -> int:
    return int(path.name.rpartition("_")[2])


def _probe(iteration: int, policy: Trained, pack: TaskPack, episodes: int, seed: int) -> Candidate:
    envelopes = pack.domain_randomization.eval_envelopes
    nominal, hard = (measure(policy, pack, under, episodes, seed) for under in (envelopes.nominal, envelopes.hard))
    collisions = int(nominal.collision.sum() + hard.collision.sum())
    return Candidate(iteration, policy, episodes, int(nominal.success.sum()), int(hard.success.sum()), collisions)
