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
from rlark.redactor import Redactor, forms
from rlark.secrets import SecretMissing, SecretStore

_RAY_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"
"""Ray's own: joins what the run starts on Ray to the worker's Ray Job, so that it dies with it."""
_HEAD = (
    "RLINF_NODE_RANK",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "RAY_ADDRESS",
    "RAY_AUTH_MODE",
    "RAY_AUTH_TOKEN_PATH",
)
_SECRET = re.compile(
    r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|PRIVATE_?KEY|API_?KEY|ACCESS_?KEY|CREDENTIALS?)(_|$)", re.IGNORECASE
)
_NO_SECRETS: Mapping[str, str] = {}


def read_secrets(plan: Plan, folder: JobFolder) -> dict[str, str]:
    """The variables whose values stand in the secret store, read from its files; for this attempt.

    Args:
        plan: says which.
        folder: the Job's; the store is that of its state directory.

    Raises:
        SecretMissing: one is not there, or cannot be read; names the variable, the secret and the key.
    """
    store = SecretStore(folder.home.secrets)
    found = {}
    for variable, source in plan.secrets.items():
        where = f"{variable}: the secret {source.name!r} with the key {source.key!r}"
        hint = f"rlark secrets set {source.name} {source.key}, then `rlark start {plan.job}`"
        try:
            value = store.get(source.name, source.key)
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise SecretMissing(f"{where} cannot be read from the store: {reason}", hint=hint) from None
        if value is None:
            raise SecretMissing(f"{where} is not in the store", hint=hint)
        found[variable] = value
    return found


def run_environment(
    plan: Plan,
    lease: Lease,
    folder: JobFolder,
    outer: Mapping[str, str],
    secrets: Mapping[str, str] = _NO_SECRETS,
) -> tuple[dict[str, str], list[str]]:
    """The whole environment of the run.

    Args:
        plan: holds the Job's own variables.
        lease: what the attempt holds, and the head it uses.
        folder: the Job's.
        outer: the worker's own environment; only what the allow-list names is taken.
        secrets: the Job's variables that were read from the secret store.

    Returns:
        The environment, and which of the Job's own variables the platform's override.
    """
    platform = _platform(plan, lease, folder)
    own = {**plan.env, **secrets}
    overridden = sorted(name for name, value in own.items() if platform.get(name, value) != value)
    joined = (_RAY_JOB,) if plan.head == "platform" else ()  # a Ray Job of the platform's head means nothing to another
    inherited = allowed(outer) | {name: outer[name] for name in joined if name in outer}
    defaults = {"PYTHONUNBUFFERED": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    return {**inherited, **defaults, **own, **platform}, overridden


def head_environment(env: Mapping[str, str]) -> dict[str, str]:
    """What a Ray head and the run must agree on; one of the Job's own has it whatever prepare makes of it."""
    return {name: env[name] for name in _HEAD if name in env}


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


def redactor(plan: Plan, lease: Lease, secrets: Mapping[str, str] = _NO_SECRETS) -> Redactor:
    """Hides what came from the secret store, Ray's token, and the Job's variables whose names say that they are secret.

    Each is hidden line by line, and encoded or quoted too.
    """
    values = [*secrets.values(), *(value for name, value in plan.env.items() if _SECRET.search(name))]
    if lease.head and lease.head.token_path:
        try:
            values.append(Path(lease.head.token_path).read_text(encoding="utf-8").strip())
        except OSError as error:
            print(f"Ray's token is not readable: {error}", file=sys.stderr)  # noqa: T201  the worker's own log
    return Redactor(form for value in values for form in forms(value))
