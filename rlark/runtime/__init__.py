"""The run of a Job: from a plan and a lease to trained, exported and proved work.

What an engine's author needs is here, and loaded on first use, so that a rank can set its threads
and devices before numpy is there.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlark.runtime.checkpoint import load_actor as load_actor
    from rlark.runtime.component import Actor as Actor
    from rlark.runtime.component import Context as Context
    from rlark.runtime.component import Decision as Decision
    from rlark.runtime.component import DeviceUse as DeviceUse
    from rlark.runtime.component import Env as Env
    from rlark.runtime.component import Program as Program
    from rlark.runtime.component import Rollout as Rollout
    from rlark.runtime.component import Run as Run
    from rlark.runtime.component import Shape as Shape
    from rlark.runtime.component import Step as Step
    from rlark.runtime.trajectory import Trajectory as Trajectory

_ELSEWHERE = {"load_actor": "checkpoint", "Trajectory": "trajectory"}
_COMPONENT = (
    "Actor",
    "Context",
    "Decision",
    "DeviceUse",
    "Env",
    "Program",
    "Rollout",
    "Run",
    "Shape",
    "Step",
)


def __getattr__(name: str) -> Any:
    home = "component" if name in _COMPONENT else _ELSEWHERE.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
