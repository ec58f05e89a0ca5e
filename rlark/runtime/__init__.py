"""The run of a Job: from a plan and a lease to trained, exported and proved work.

What an engine's author needs is here, and loaded on first use, so that a rank can set its threads
and devices before numpy is there.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlark.runtime.channel import Channel as Channel
    from rlark.runtime.channel import ChannelClosed as ChannelClosed
    from rlark.runtime.channel import ChannelEmpty as ChannelEmpty
    from rlark.runtime.channel import ChannelFull as ChannelFull
    from rlark.runtime.checkpoint import load_actor as load_actor
    from rlark.runtime.cluster import Cluster as Cluster
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
    from rlark.runtime.component import Team as Team
    from rlark.runtime.failure import RunFailed as RunFailed
    from rlark.runtime.offload import Offloads as Offloads
    from rlark.runtime.trajectory import Trajectory as Trajectory
    from rlark.runtime.weights import Publisher as Publisher
    from rlark.runtime.weights import Subscriber as Subscriber
    from rlark.runtime.wire import PeerLost as PeerLost
    from rlark.runtime.worker import Worker as Worker
    from rlark.runtime.worker_group import PerRank as PerRank
    from rlark.runtime.worker_group import WorkerGroup as WorkerGroup

_HOMES = {
    "channel": ("Channel", "ChannelClosed", "ChannelEmpty", "ChannelFull"),
    "checkpoint": ("load_actor",),
    "cluster": ("Cluster",),
    "component": (
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
        "Team",
    ),
    "failure": ("RunFailed",),
    "offload": ("Offloads",),
    "trajectory": ("Trajectory",),
    "weights": ("Publisher", "Subscriber"),
    "wire": ("PeerLost",),
    "worker": ("Worker",),
    "worker_group": ("PerRank", "WorkerGroup"),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
