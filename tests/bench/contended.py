"""How much of its speed a run keeps while another process loads every core.

    python -m tests.bench.contended SEED STEPS

Prints `{quiet, loaded, fraction}`: control steps per second of one and the same run, before, while and
after the load is there; quiet is the mean of before and after.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier

import numpy as np

from tests.bench.fused_run import FusedRun
from tests.bench.goal_navigation import effective

SIZE = 256
"""Two matrices of this size fill a core's cache, as another training would."""


def _burn(ready: Barrier) -> None:
    """Multiply matrices until the parent ends it."""
    matrix = np.random.default_rng(0).random((SIZE, SIZE), dtype=np.float32)
    ready.wait()
    while True:
        np.matmul(matrix, matrix)


@contextmanager
def load(cores: int) -> Iterator[None]:
    """A load on so many cores."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(cores + 1)
    burners = [context.Process(target=_burn, args=(ready,), daemon=True) for _ in range(cores)]
    for burner in burners:
        burner.start()
    try:
        ready.wait()
        yield
    finally:
        for burner in burners:
            burner.terminate()
            burner.join()


def main(seed: int, steps: int) -> dict[str, float]:
    """Measure before, while and after."""
    with FusedRun(effective(), seed) as run:

        def speed() -> float:
            begun = time.perf_counter()
            run.for_steps(steps)
            return steps / (time.perf_counter() - begun)

        run.for_steps(steps // 4)
        before = speed()
        with load(os.cpu_count() or 1):
            loaded = speed()
        quiet = 0.5 * (before + speed())
    return {"quiet": quiet, "loaded": loaded, "fraction": loaded / quiet}


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]), int(sys.argv[2]))))
