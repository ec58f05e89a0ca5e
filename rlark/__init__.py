"""rlark: checked, leased, placed, verified training jobs for robot policies on one machine.

    import rlark

    job = rlark.run("job.yaml")            # check, submit, follow
    job.metrics()["meanReward"]
    job.artifacts.pull("out/")

Names are loaded on first use: the import itself costs nothing and starts nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rlark.errors import AuthError as AuthError
    from rlark.errors import ClusterError as ClusterError
    from rlark.errors import ConflictError as ConflictError
    from rlark.errors import JobFailed as JobFailed
    from rlark.errors import NotFinished as NotFinished
    from rlark.errors import NotFound as NotFound
    from rlark.errors import PlacementError as PlacementError
    from rlark.errors import RlarkError as RlarkError
    from rlark.errors import SpecError as SpecError
    from rlark.sdk.client import Client as Client
    from rlark.sdk.findings import Findings as Findings
    from rlark.sdk.job import Job as Job
    from rlark.sdk.placement import Placement as Placement
    from rlark.sdk.run import connect as connect
    from rlark.sdk.run import run as run

__version__ = "0.1.0"

_HOME_OF = {
    "run": "rlark.sdk.run",
    "connect": "rlark.sdk.run",
    "Client": "rlark.sdk.client",
    "Job": "rlark.sdk.job",
    "Placement": "rlark.sdk.placement",
    "Findings": "rlark.sdk.findings",
    "RlarkError": "rlark.errors",
    "SpecError": "rlark.errors",
    "PlacementError": "rlark.errors",
    "ClusterError": "rlark.errors",
    "AuthError": "rlark.errors",
    "ConflictError": "rlark.errors",
    "NotFound": "rlark.errors",
    "JobFailed": "rlark.errors",
    "NotFinished": "rlark.errors",
}
__all__ = list(_HOME_OF)


def __getattr__(name: str) -> object:
    """Load a public name from where it lives, once."""
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rlark' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, for completion."""
    return [*__all__, "__version__"]
