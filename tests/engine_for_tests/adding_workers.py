"""Workers for the tests of groups."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np

from rlark.runtime.worker import Worker


class Adder(Worker):
    """Adds, and does what a test asks for."""

    def __init__(self, start=0, broken_on=None):
        self.log.info("rank %d of %d starts with %d", self.rank, self.world_size, start)
        if self.rank == broken_on:
            raise RuntimeError("a constructor of the test")
        self.total = start + self.rank

    def add(self, number, *, twice=False):
        self.total += 2 * number if twice else number
        return self.total

    def tell(self):
        self.log_on_first_rank("all %d are here, on %s", self.world_size, self.device)
        return self.device

    def facts(self):
        return os.getpid(), self.rank, self.world_size, self.group_name, self.threads, os.environ["RANK"]

    @Worker.timer("work")
    def work(self, seconds):
        with self.worker_timer("inner"):
            time.sleep(seconds)

    def meet(self, late=0.0, timeout_s=10.0):
        time.sleep(late * self.rank)
        began = time.monotonic()
        self.barrier(timeout_s)
        return time.monotonic() - began

    def fail(self, rank, how="raise"):
        if self.rank == rank:
            if how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if how == "hang":
                threading.Event().wait()
            if how == "memory":
                raise MemoryError("no room for 9 TiB")
            raise ValueError("a fault of the test")
        return self.rank

    def publish(self, versions, subscribers):
        publisher = self.publish_weights("policy", subscribers)
        for version in range(1, versions + 1):
            publisher.publish({"layer": np.full(50_000, version, np.float32), "version": version})
        return publisher.version, publisher.written

    def subscribe(self, versions):
        subscriber = self.subscribe_weights("policy")
        seen = []
        for _ in range(versions):
            weights = subscriber.receive()
            seen.append((float(weights["layer"][-1]), weights["version"]))
            subscriber.done()
        return seen

    def produce(self, name, count):
        channel = self.create_channel(name, maxsize=2)
        for i in range(count):
            channel.put({"array": np.full(50_000, i, np.float32), "from": self.rank}, key=i % 2)

    def consume(self, name, count):
        channel = self.connect_channel(name) if isinstance(name, str) else name
        return [float(channel.get(key=i % 2)["array"][0]) for i in range(count)]

    def echo(self, data, *, after=0.0):
        time.sleep(after)
        return data

    def meet_in_vain(self):
        try:
            self.barrier(20)
        except Exception as error:
            raise RuntimeError("raised anew") from error


class Hider(Worker):
    """Has a method that no group could call."""

    def ready(self):
        """Hidden by the group's own."""
