"""Workers for the benchmark of the runtime."""

from __future__ import annotations

import importlib
import os
import time

import numpy as np

from rlark.runtime.worker import Worker


class Ready(Worker):
    """Answers; with torch loaded where that is asked for."""

    def __init__(self, *, torch):
        if torch:
            importlib.import_module("torch")

    def where(self):
        return os.getpid()


class Weights(Worker):
    """Gives or takes weights."""

    def give(self, megabytes, count, subscribers):
        """Milliseconds of each publication, until everybody has it."""
        publisher = self.publish_weights("weights", subscribers)
        layers = [np.zeros(megabytes * 125_000, np.float32) for _ in range(2)]
        times = []
        for _ in range(count):
            for layer in layers:
                np.add(layer, 1, out=layer)
            began = time.perf_counter()
            publisher.publish(layers)
            times.append(1000 * (time.perf_counter() - began))
        return times

    def take(self, count):
        subscriber = self.subscribe_weights("weights")
        for _ in range(count):
            layers = subscriber.receive()
            subscriber.done()
        return float(layers[-1][-1])
