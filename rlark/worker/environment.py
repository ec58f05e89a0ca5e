"""The environment of the run, and what of it must not be seen."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from pathlib import Path

from rlark.folder import JobFolder
from rlark.host.environment import allowed
from rlark.plan.node import HeadAddress, Lease
from rlark.plan.plan import Plan
from rlark.secrets import Redactor

_RAY_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Ray's own: joins what the run starts on Ray to the worker's Ray Job, so that it dies with it."""
_SECRET = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PRIVATE_?KEY|API_?KEY|ACCESS_?KEY|CREDENTIALS?)(_|$)", re.IGNORECASE
)
_SHORTEST_LINE = 8


def run_environment(
    plan: Plan, lease: Lease, folder: JobFolder, outer: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """The whole environment of the run.

    Args:
        plan: holds the Job's own variables.
        lease: what the attempt holds, and the head it uses.
        folder: the Job's.
        outer: the worker's own environment; only what the allow-list names is taken.

    Returns:
        The environment, and which of the Job's own variables the platform's override.
    """
    platform = _platform(plan, lease, folder)
    overridden = sorted(name for name, value in plan.env.items() if platform.get(name, value) != value)
    inherited = allowed(outer) | {name: outer[name] for name in (_RAY_JOB,) if name in outer}
    defaults = {"PYTHONUNBUFFERED": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {**inherited, **defaults, **plan.env, **platform}, overridden


def _platform(plan: Plan, lease: Lease, folder: JobFolder) -> dict[str, str]:
    return {
        "RLARK_JOB": plan.job,
        "RLARK_JOB_DIR": str(folder.root),
        "RLARK_ATTEMPT": str(lease.attempt),
        "RLARK_TENSORBOARD_DIR": plan.tensorboard or str(folder.tensorboard),
        "RLARK_TOTAL_NODES": "1",
        "RLARK_TASK_ROLE": "worker",
        "RLINF_NODE_RANK": "0",
        "CUDA_VISIBLE_DEVICES": ",".join(device.id for device in lease.devices),
        **(_ray(lease.head) if lease.head else {}),
    }


def _ray(head: HeadAddress) -> dict[str, str]:
    found = {"RAY_ADDRESS": head.address, "RLARK_RAY_PORT": head.address.rpartition(":")[2]}
    if head.token_path:
        found |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": head.token_path}
    return found


def redactor(plan: Plan, lease: Lease) -> Redactor:
    """Hides Ray's token, and the Job's variables whose names say that they are secret."""
    values = [value for name, value in plan.env.items() if _SECRET.search(name)]
    if lease.head and lease.head.token_path:
        try:
            values.append(Path(lease.head.token_path).read_text(encoding="utf-8").strip())
        except OSError as error:
            print(f"Ray's token is not readable: {error}", file=sys.stderr)  # noqa: T201  the worker's own log
    lines = [line for value in values for line in value.splitlines() if len(line) >= _SHORTEST_LINE]
    return Redactor([*values, *lines])
