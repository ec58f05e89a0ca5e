"""What `up` was asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rlark.errors import UsageError

_KEY = re.compile(r"([a-z0-9A-Z]([a-z0-9A-Z.-]*[a-z0-9A-Z])?/)?[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?")
_VALUE = re.compile(r"([a-zA-Z0-9]([a-zA-Z0-9_.-]{0,61}[a-zA-Z0-9])?)?")


@dataclass(frozen=True)
class Options:
    """How the platform is to be started.

    Attributes:
        host: where the API listens.
        port: the API's port.
        dashboard_port: the Ray dashboard's; 0 takes a free one.
        num_cpus: CPUs that Jobs may lease; None counts them.
        num_gpus: GPUs that Jobs may lease; None counts them, more than there are fakes them.
        labels: of this node.
        ray_address: the GCS of an existing Ray cluster to attach to; empty starts a head.
    """

    host: str = "127.0.0.1"
    port: int = 19091
    dashboard_port: int = 0
    num_cpus: int | None = None
    num_gpus: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    ray_address: str = ""

    def check(self) -> None:
        """Refuse what makes no sense.

        Raises:
            UsageError: naming the option.
        """
        if not 1 <= self.port <= 65535:
            raise UsageError(f"--port {self.port} is no port", hint="1 to 65535")
        if not 0 <= self.dashboard_port <= 65535:
            raise UsageError(f"--dashboard-port {self.dashboard_port} is no port", hint="1 to 65535, or leave it out")
        for name, value in (("--num-cpus", self.num_cpus), ("--num-gpus", self.num_gpus)):
            if value is not None and value < 0:
                raise UsageError(f"{name} {value} is negative")
        if self.ray_address and (self.num_cpus is not None or self.num_gpus is not None or self.labels):
            raise UsageError(
                "--num-cpus, --num-gpus and --labels are for a head started here; --ray-address attaches to another",
                hint="give them to that cluster's `ray start`",
            )

    @property
    def shape_the_head(self) -> bool:
        """Whether anything was asked of the head that is to be started."""
        asked = (self.num_cpus, self.num_gpus, self.dashboard_port or None, self.labels or None)
        return any(one is not None for one in asked)

    @property
    def address(self) -> str:
        """Where a client on this machine reaches the API."""
        everywhere = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104
        host = everywhere.get(self.host, self.host)
        return f"http://{f'[{host}]' if ':' in host and not host.startswith('[') else host}:{self.port}"


def read_labels(text: str) -> dict[str, str]:
    """`key=value,...` as a mapping.

    Raises:
        UsageError: naming the part that is no label.
    """
    labels = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.partition("=")
        if not equals or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise UsageError(
                f"--labels: {part!r} is no label",
                hint="write key=value with letters, digits, '-', '_' and '.', at most 63 each, as in team=navigation",
            )
        if key.startswith("ray.io/"):
            raise UsageError(f"--labels: {key!r} belongs to Ray", hint="choose another prefix")
        labels[key] = value
    return labels
