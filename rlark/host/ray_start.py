"""`ray start --head`: its arguments, its environment, its temporary directory, and what it says when it fails."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING

from rlark.errors import ClusterError
from rlark.host import environment, ports

if TYPE_CHECKING:
    from rlark.host.head import HeadConfig

LONGEST_TEMP_DIR = 32
TEMP_PREFIX = "rlark-"
MODULE = ("-m", "ray.scripts.scripts")
"""`ray` as a module of an interpreter."""
LOG_MONITOR_OFF = "--include-log-monitor=false"
"""Nothing that the workers print is sent to their driver."""
HOOK = "rlark.host.hook.lean"
_FLAGS = (
    "port",
    "dashboard-agent-listen-port",
    "dashboard-agent-grpc-port",
    "runtime-env-agent-port",
    "metrics-export-port",
    "node-manager-port",
    "object-manager-port",
    "ray-client-server-port",
)
_NO_FLAG = {"dashboard-metrics": "DASHBOARD_METRIC_PORT", "autoscaler-metrics": "AUTOSCALER_METRIC_PORT"}
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_LONGEST_REASON = 600
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
    chosen = next((path for path in candidates if short(path)), candidates[-1])
    chosen.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not _private(chosen):
        raise ClusterError(
            f"{chosen} is not a private directory of this user, so Ray's sockets cannot lie there.",
            hint=f"remove it, or choose another state directory: rlark up --home DIR (now {home})",
        )
    return chosen / "s"


def short(path: Path) -> bool:
    """Whether Ray's sockets may lie there."""
    return len(os.fsencode(path)) <= LONGEST_TEMP_DIR


def _private(path: Path) -> bool:
    facts = path.lstat()
    return facts.st_uid == os.getuid() and stat.S_ISDIR(facts.st_mode) and not facts.st_mode & 0o077


def fresh_temp_dir(folders: Iterable[Path]) -> Path:
    """A directory as of `short_temp_dir` that nobody has used, for a head that lives as long as one Job.

    Args:
        folders: where it may be made; the first that is short enough and lets it be made.

    Raises:
        ClusterError: none does.
    """
    tried = []
    for folder in folders:
        path = folder / f"{TEMP_PREFIX}{secrets.token_hex(4)}"
        tried.append(str(folder))
        with contextlib.suppress(OSError):
            if short(path):
                path.mkdir(mode=0o700)
                return path / "s"
    raise ClusterError(
        f"No folder for Ray's sockets can be made in any of {', '.join(tried) or 'no place at all'}.",
        hint="make /tmp writable, or set TMPDIR to a folder of a short path",
    )


def remove_temp_dir(temp_dir: Path) -> None:
    """Remove what `fresh_temp_dir` made; whatever else the path leads to stays.

    Raises:
        OSError: something in it cannot be removed.
    """
    around = temp_dir.parent
    if around.name.startswith(TEMP_PREFIX) and around.exists() and _private(around):
        shutil.rmtree(around)


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
        "RAY_START_HOOK": HOOK,
        "RAY_USAGE_STATS_ENABLED": "0",
        **config.env,
    }


@dataclass(frozen=True)
class HeadPorts:
    """Every port of one head, so that heads of one host never meet.

    Attributes:
        numbers: flag without dashes -> port; `dashboard-metrics` and `autoscaler-metrics` have no flag.
        workers: the lowest and the highest port of Ray's workers.
    """

    numbers: dict[str, int]
    workers: tuple[int, int]

    @classmethod
    def take(cls, block: ports.PortBlock, dashboard_port: int = 0) -> HeadPorts:
        """Take them from a block; the dashboard's too, where none is given.

        Raises:
            ClusterError: the block is used up.
        """
        numbers = {name: block.take() for name in (*_FLAGS, *_NO_FLAG)}
        numbers["dashboard-port"] = dashboard_port or block.take()
        return cls(numbers, block.rest())

    @property
    def flags(self) -> list[str]:
        """As `ray start` takes them."""
        given = [f"--{name}={self.numbers[name]}" for name in (*_FLAGS, "dashboard-port")]
        return [*given, f"--min-worker-port={self.workers[0]}", f"--max-worker-port={self.workers[1]}"]

    @property
    def env(self) -> dict[str, str]:
        """The variables for those ports that have no flag."""
        return {name: str(self.numbers[port]) for port, name in _NO_FLAG.items()}


def start_command(config: HeadConfig, block: ports.PortBlock) -> tuple[list[str], dict[str, str], dict[str, int]]:
    """`ray start` with every port explicit.

    Args:
        config: the head's configuration.
        block: where the ports come from.

    Returns:
        argv, the two variables for ports that have no flag, and the ports by name.
    """
    chosen = HeadPorts.take(block, config.dashboard_port)
    argv = [sys.executable, *MODULE, "start", *head_flags(config.temp_dir), LOG_MONITOR_OFF, *chosen.flags]
    for flag, value in (("num-cpus", config.num_cpus), ("num-gpus", config.num_gpus), ("memory", config.memory)):
        argv += [] if value is None else [f"--{flag}={value}"]
    if config.resources:
        argv.append(f"--resources={json.dumps(dict(config.resources))}")
    if config.labels:
        argv.append("--labels=" + ",".join(f"{key}={value}" for key, value in config.labels.items()))
    return argv, chosen.env, chosen.numbers


def head_flags(temp_dir: str) -> list[str]:
    """What every head of ours is started with, its ports and its capacity apart."""
    return [
        "--head",
        "--disable-usage-stats",
        "--include-dashboard=true",
        "--dashboard-host=127.0.0.1",
        f"--temp-dir={temp_dir}",
    ]


def rays_reason(output: str) -> str:
    """Ray's own reason in the output of a failed `ray start`: what its traceback ends with, or its last words."""
    lines = [_ANSI.sub("", line).rstrip() for line in output.splitlines()]
    lines = [line for line in lines if line.strip()]
    raised = [at for at, line in enumerate(lines) if re.match(r"[\w.]*(Error|Exception)\b.*", line)]
    said = lines[raised[-1] :] if raised else lines[-2:]
    if raised and not said[0].endswith(":"):  # with a colon it quotes a log
        return said[0]
    return shorten(" ".join(said), _LONGEST_REASON, placeholder=" ...") or "it said nothing"
