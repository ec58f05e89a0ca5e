"""`env.json`: versions and devices that a run saw."""

from __future__ import annotations

import os
import platform
import socket
import sys
from pathlib import Path

import rlark
from rlark.folder import JobFolder, write_json
from rlark.host import device
from rlark.plan.node import Lease
from rlark.redactor import Redactor


def write_facts(folder: JobFolder, lease: Lease, mask: Redactor) -> None:
    """Look at this machine and write down what is there; takes a moment where there are GPUs.

    Raises:
        OSError: the file cannot be written.
    """
    write_json(folder.environment, mask.tree(facts(folder, lease)))


def facts(folder: JobFolder, lease: Lease) -> dict[str, object]:
    """What `env.json` holds."""
    return {
        "attempt": lease.attempt,
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "rlark": rlark.__version__,
        "packages": packages(),
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


def packages() -> dict[str, str]:
    """Every installed distribution with its version.

    Told by the folders' names, `name-1.2.dist-info`: parsing the metadata of hundreds takes half a second.
    """
    found: dict[str, str] = {}
    for folder in map(Path, sys.path):
        for entry in folder.glob("*.dist-info"):
            name, _, version = entry.name.removesuffix(".dist-info").partition("-")
            found.setdefault(name.replace("_", "-"), version)  # the first on the path is the one that is imported
    return dict(sorted(found.items(), key=lambda item: item[0].lower()))
