"""`ray start --head`: its arguments, its environment, its temporary directory, and what it says when it fails."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rlark.errors import ClusterError
from rlark.host import environment, ports

if TYPE_CHECKING:
    from rlark.host.head import HeadConfig

LONGEST_TEMP_DIR = 32
TEMP_PREFIX = "rlark-"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def short_temp_dir(home: Path) -> Path:
    """A directory for Ray's sockets, whose paths must stay under 108 bytes, within a private one.

    Ray opens its own directory to everybody (mode 0777), so the one around it is what keeps others out.

    Args:
        home: the state directory; `<home>/ray` when that is short enough, else one under TMPDIR or /tmp.

    Raises:
        ClusterError: the directory belongs to somebody else.
    """
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()[:8]
    name = f"{TEMP_PREFIX}{os.getuid()}-{digest}"
    candidates = [home / "ray", Path(os.environ.get("TMPDIR", "/tmp")) / name, Path("/tmp") / name]  # noqa: S108
    chosen = next((path for path in candidates if len(os.fsencode(path)) <= LONGEST_TEMP_DIR), candidates[-1])
    chosen.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = chosen.lstat()
    if facts.st_uid != os.getuid() or chosen.is_symlink() or facts.st_mode & 0o077:
        raise ClusterError(
            f"{chosen} is not a private directory of this user, so Ray's sockets cannot lie there.",
            hint=f"remove it, or choose another state directory: rlark up --home DIR (now {home})",
        )
    return chosen / "s"


def clean_env(config: HeadConfig, outer: Mapping[str, str]) -> dict[str, str]:
    """The head's environment, built from nothing: what programs need, Ray's switches, and `config.env`."""
    env = environment.allowed(outer)
    if _VISIBLE in outer and not config.fakes_gpus:
        env[_VISIBLE] = outer[_VISIBLE]
    return {
        "LANG": "C.UTF-8",
        **env,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",  # whatever the shell says: the numbers in leases are nvidia-smi's
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": config.token_path,
        "RAY_START_HOOK": "rlark.host.hook.lean",
        "RAY_USAGE_STATS_ENABLED": "0",
        **config.env,
    }


def start_command(config: HeadConfig, block: ports.PortBlock) -> tuple[list[str], dict[str, str], dict[str, int]]:
    """`ray start` with every port explicit.

    Args:
        config: the head's configuration.
        block: where the ports come from.

    Returns:
        argv, the two variables for ports that have no flag, and the ports by name.
    """
    names = ("port", "dashboard-agent-listen-port", "dashboard-agent-grpc-port", "runtime-env-agent-port")
    more = ("metrics-export-port", "node-manager-port", "object-manager-port", "ray-client-server-port")
    chosen = {name: block.take() for name in (*names, *more, "dashboard-metrics", "autoscaler-metrics")}
    env = {
        "DASHBOARD_METRIC_PORT": str(chosen["dashboard-metrics"]),
        "AUTOSCALER_METRIC_PORT": str(chosen["autoscaler-metrics"]),
    }
    chosen["dashboard-port"] = config.dashboard_port or block.take()
    lowest, highest = block.rest()
    argv = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--disable-usage-stats"]
    argv += [
        "--include-log-monitor=false",
        "--include-dashboard=true",
        "--dashboard-host=127.0.0.1",
        f"--temp-dir={config.temp_dir}",
    ]
    argv += [f"--{name}={chosen[name]}" for name in (*names, *more, "dashboard-port")]
    argv += [f"--min-worker-port={lowest}", f"--max-worker-port={highest}"]
    for flag, value in (("num-cpus", config.num_cpus), ("num-gpus", config.num_gpus), ("memory", config.memory)):
        argv += [] if value is None else [f"--{flag}={value}"]
    if config.resources:
        argv.append(f"--resources={json.dumps(dict(config.resources))}")
    if config.labels:
        argv.append("--labels=" + ",".join(f"{key}={value}" for key, value in config.labels.items()))
    return argv, env, chosen


def rays_reason(output: str) -> str:
    """Ray's own reason in the output of a failed `ray start`: the last line of its traceback, or its last words."""
    lines = [_ANSI.sub("", line).rstrip() for line in output.splitlines()]
    lines = [line for line in lines if line.strip()]
    raised = [line for line in lines if re.match(r"[\w.]*(Error|Exception)\b.*", line)]
    return (raised[-1] if raised else " ".join(lines[-2:])) or "it said nothing"
