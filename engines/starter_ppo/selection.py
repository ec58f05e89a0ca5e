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
        successes: over all probing episodes of both envelopes.
        collisions: likewise.
    """

    iteration: int
    policy: Trained
    successes: int
    collisions: int

    @property
    def checkpoint_id(self) -> str:
        """`iter-00040`."""
        return f"iter-{self.iteration:05d}"


def select(shape: NetShape, run: Run, pack: TaskPack, episodes: int, seed: int) -> tuple[Candidate, list[Candidate]]:
    """The best of the last checkpoints, and all that were tried.

    Best is: most successes, then fewest collisions, then latest.

    Args:
        shape: of the nets.
        run: with its checkpoints; its final actor counts where it is none of them.
        pack: the task of the evaluation.
        episodes: for each envelope.
        seed: of the run; probing uses `seed + 2000`, the evaluation another.
    """
    tried = [
        _probe(iteration, policy, pack, episodes, seed + PROBE_SEED_OFFSET) for iteration, policy in _last(shape, run)
    ]
    return max(tried, key=lambda found: (found.successes, -found.collisions, found.iteration)), tried


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
    measured = [measure(policy, pack, envelope, episodes, seed) for envelope in (envelopes.nominal, envelopes.hard)]
    successes = sum(int(found.success.sum()) for found in measured)
    collisions = sum(int(found.collision.sum()) for found in measured)
    return Candidate(iteration, policy, successes, collisions)
