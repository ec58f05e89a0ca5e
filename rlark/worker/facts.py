"""`env.json`: versions and devices that a run saw."""

from __future__ import annotations

import os
import platform
import socket
import sys
from importlib.metadata import distributions

import rlark
from rlark.folder import JobFolder, write_json
from rlark.host import device
from rlark.plan.node import Lease


def write_facts(folder: JobFolder, lease: Lease) -> None:
    """Look at this machine and write down what is there; takes a moment where there are GPUs.

    Raises:
        OSError: the file cannot be written.
    """
    write_json(folder.environment, facts(folder, lease))


def facts(folder: JobFolder, lease: Lease) -> dict[str, object]:
    """What `env.json` holds."""
    packages = {found.metadata["Name"]: found.version for found in distributions() if found.metadata["Name"]}
    return {
        "attempt": lease.attempt,
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "rlark": rlark.__version__,
        "packages": dict(sorted(packages.items(), key=lambda item: item[0].lower())),
        "host": {
            "name": socket.gethostname(),
            "node": lease.node,
            "system": platform.platform(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
        },
        "leased": {
            "cpus": lease.cpus,
            "memory": lease.memory,
            "devices": [leased.to_json() for leased in lease.devices],
        },
        "devices": device.report(folder.root).to_json(),
    }
