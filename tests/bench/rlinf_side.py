"""RLinf's side of the benchmark, run by the interpreter of its own environment on a Ray head that the caller started.

Prints `{"launch_s", "hop_ms"}`: two groups of two ranks until the first calls return, and the median round trip of
1,024 x 42 float32 observations over two of its channels.
"""

import json
import statistics
import sys
import time

import torch
from rlinf.scheduler import Channel, Cluster, NodePlacementStrategy, Worker

ROWS, WIDTH, WARM_UP = 1024, 42, 20


class Side(Worker):
    """Sends observations, or answers them."""

    def __init__(self):
        super().__init__()

    def where(self):
        return self._rank

    def ask(self, there, back, count):
        observation, times = torch.zeros(ROWS, WIDTH), []
        for _ in range(WARM_UP + count):
            began = time.perf_counter()
            there.put(observation)
            observation = back.get()
            times.append(1000 * (time.perf_counter() - began))
        assert observation[0, 0] == WARM_UP + count
        return times[WARM_UP:]

    def answer(self, there, back, count):
        for _ in range(WARM_UP + count):
            back.put(there.get() + 1)


def main(count):
    cluster = Cluster(num_nodes=1)
    began = time.perf_counter()
    groups = [
        Side.create_group().launch(cluster, NodePlacementStrategy([0, 0]), name=name) for name in ("GroupA", "GroupB")
    ]
    calls = [group.where() for group in groups]
    for call in calls:
        call.wait()
    launch_s = time.perf_counter() - began
    env = Side.create_group().launch(cluster, NodePlacementStrategy([0]), name="EnvGroup")
    rollout = Side.create_group().launch(cluster, NodePlacementStrategy([0]), name="RolloutGroup")
    there, back = Channel.create("there"), Channel.create("back")
    answering = rollout.answer(there, back, count)
    (times,) = env.ask(there, back, count).wait()
    answering.wait()
    print(json.dumps({"launch_s": launch_s, "hop_ms": statistics.median(times)}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
