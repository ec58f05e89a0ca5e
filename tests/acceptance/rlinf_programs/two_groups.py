"""A small program for RLinf's scheduler: two groups of workers, and a channel between them.

Run with `exit` as its argument it ends with `sys.exit(3)`, with `raise` with an exception, both after
the work and before its output is written.
"""

import json
import os
import sys
from pathlib import Path

from rlinf.scheduler import Channel, Cluster, NodePlacementStrategy, Worker


class Producer(Worker):
    """Puts its rank's squares into the channel."""

    def __init__(self):
        super().__init__()

    def produce(self, channel, count):
        for i in range(count):
            channel.put({"rank": self._rank, "value": i * i})
        return self._rank


class Consumer(Worker):
    """Adds up what it gets."""

    def __init__(self):
        super().__init__()

    def consume(self, channel, count):
        return sum(channel.get()["value"] for _ in range(count))


def main(ending):
    cluster = Cluster(num_nodes=1)
    producers = Producer.create_group().launch(cluster, NodePlacementStrategy([0, 0]), name="ProducerGroup")
    consumers = Consumer.create_group().launch(cluster, NodePlacementStrategy([0]), name="ConsumerGroup")
    channel = Channel.create("squares")
    made = producers.produce(channel, 4)
    (total,) = consumers.consume(channel, 8).wait()
    ranks = made.wait()
    print(f"ranks {ranks} total {total}", flush=True)
    if ending == "exit":
        sys.exit(3)
    if ending == "raise":
        raise RuntimeError("on purpose, after the work")
    output = Path(os.environ["RLARK_JOB_DIR"], "artifacts", "results.json")
    output.write_text(json.dumps({"ranks": ranks, "total": total}))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "")
