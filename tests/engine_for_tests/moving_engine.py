"""The counting engine, whose components can leave their device and fail when they compute while away."""

from __future__ import annotations

import time
from types import SimpleNamespace

import counting_engine as counting

MOVES = []
"""What went and came, by all ranks of this process: `Env off`, `Actor on` and so on."""


def moving(base, size, methods):
    """A component that is away or there."""

    class Moving(base):
        away = False

        def offload(self):
            assert not self.away
            self.away = True
            time.sleep(0.003)  # there is much to move: whoever does not wait for it is seen to come too early
            MOVES.append(f"{base.__name__} off")
            return size

        def onload(self):
            assert self.away
            MOVES.append(f"{base.__name__} on")
            self.away = False
            return size

    for name in methods:
        setattr(Moving, name, guarded(getattr(base, name)))
    return Moving


def guarded(method):
    """A method that must not be called while away."""

    def call(self, *arguments):
        assert not self.away, f"{method.__name__} while away"
        return method(self, *arguments)

    return call


Env = moving(counting.Env, 1, ["reset", "step", "state", "restore"])
Rollout = moving(counting.Rollout, 10, ["act", "value", "load", "state", "restore"])
Actor = moving(counting.Actor, 100, ["update", "weights", "state", "restore"])
PROGRAM = SimpleNamespace(
    config=lambda raw, base: raw,
    shape=counting.PROGRAM.shape,
    env=lambda config, context: Env(context),
    rollout=lambda config, context: Rollout(context),
    actor=lambda config, context: Actor(),
)
