"""Observations from an Env's process to a Rollout's and back, by the packets that placed runs use.

`python -m tests.bench.hop RUN ROWS` is the other side.
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np

from rlark.runtime.packet import Incoming, Outgoing
from rlark.runtime.wire import Endpoint, PeerLost, Wire, connect, new_run

WIDTH = 42
WARM_UP = 50


def fields(rows: int) -> dict[str, tuple[tuple[int, int], type]]:
    return {"observation": ((rows, WIDTH), np.float32)}


def round_trips(rows: int, count: int = 400) -> list[float]:
    """Milliseconds of each, with what both sides copy out and in."""
    run = new_run()
    endpoint = Endpoint(f"{run}/env")
    with subprocess.Popen([sys.executable, "-m", "tests.bench.hop", run, str(rows)]) as child:
        _, wire = endpoint.accept(30)
        endpoint.close()
        out, back = Outgoing(wire, fields(rows)), Incoming(wire, fields(rows))
        observation = np.zeros((rows, WIDTH), np.float32)
        times = [_once(out, back, observation) for _ in range(WARM_UP + count)]
        wire.close()
        child.wait(10)
    assert observation[0, 0] == WARM_UP + count
    return times[WARM_UP:]


def _once(out: Outgoing, back: Incoming, observation: np.ndarray) -> float:
    began = time.perf_counter()
    out.open()["observation"][...] = observation
    out.send()
    back.receive()
    observation[...] = back.arrays["observation"]
    back.release()
    return 1000 * (time.perf_counter() - began)


def other_side(wire: Wire, rows: int) -> None:
    """Adds one to whatever comes, until nobody sends any more."""
    coming, going = Incoming(wire, fields(rows)), Outgoing(wire, fields(rows))
    while True:
        try:
            coming.receive()
        except PeerLost:
            return
        np.add(coming.arrays["observation"], 1, out=going.open()["observation"])
        coming.release()
        going.send()


if __name__ == "__main__":
    other_side(connect(f"{sys.argv[1]}/env", "rollout", "the env"), int(sys.argv[2]))
