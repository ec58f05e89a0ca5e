"""Two groups of two ranks on a Ray head: seconds until their first calls return."""

from __future__ import annotations

import os
import sys
import time

from rlark.plan.node import HeadAddress, Lease
from rlark.plan.plan import Plan
from rlark.runtime.cluster import Cluster
from rlark.runtime.group import RayGroup
from rlark.runtime.rank import Rank, rank_env
from rlark.runtime.seat import Posting
from tests.bench.workers import Ready

LEASE = Lease(job="bench", attempt=1, key="k", node="here", cpus=2)


def posting(rank: Rank, run: str) -> Posting:
    env = rank_env(rank, LEASE, os.environ) | {"PYTHONPATH": os.environ["PYTHONPATH"]}
    plan = Plan(job="bench", node="here")
    return Posting(rank=rank, env=env, program="", plan=plan, run=run, path=tuple(sys.path))


def main(address: str, *, torch: bool) -> float:
    group = RayGroup(HeadAddress(address=address), "")
    ranks = {name: [Rank("bench", name, rank, 2, local_rank=rank) for rank in range(2)] for name in ("a", "b")}
    with Cluster(ranks, group, posting, LEASE) as cluster:
        began = time.perf_counter()
        calls = [Ready.create_group(torch=torch).launch(cluster, name=name).where() for name in ranks]
        for call in calls:
            call.wait()
        return time.perf_counter() - began


if __name__ == "__main__":
    print(main(sys.argv[1], torch=sys.argv[2] == "torch"))
