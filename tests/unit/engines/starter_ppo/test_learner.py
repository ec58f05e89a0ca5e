from __future__ import annotations

from types import SimpleNamespace

import numpy as np

from engines.starter_ppo.learner import actor_seed, seed_of
from engines.starter_ppo.report import EVAL_SEED_OFFSET
from engines.starter_ppo.selection import PROBE_SEED_OFFSET
from engines.tasks.evaluate import SEED_STRIDE


def first_number(seed: object) -> float:
    return float(np.random.Generator(np.random.PCG64(seed)).random())


def test_no_two_streams_of_any_rank_or_episode_are_the_same():
    seen = []
    for seed in (7, 8, 9):
        config = SimpleNamespace(seed=seed)
        seen.append(first_number(actor_seed(config)))
        for rank in range(4):
            seen.append(first_number(seed_of(config, "rollout", rank)))
            seen += [first_number(child) for child in seed_of(config, "env", rank).spawn(2)]
        for offset in (EVAL_SEED_OFFSET, PROBE_SEED_OFFSET):
            seen += [first_number((seed + offset) * SEED_STRIDE + episode) for episode in range(50)]
    assert len(set(seen)) == len(seen) == 3 * (1 + 4 * 3 + 2 * 50)
