"""What this machine has and lacks, said honestly: nothing is claimed that was not looked at."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from rlark import __version__
from rlark.errors import RlarkError
from rlark.sdk.settings import DEFAULT_ADDRESS, platform_record

if TYPE_CHECKING:
    from rlark.host.device import DeviceReport
    from rlark.sdk.client import Client

State = Literal["ok", "info", "warning", "missing", "error"]
GIB = 2**30
LEAST_SHM = GIB // 2
LEAST_DISK = 2 * GIB
PACKAGES = ("ray", "torch", "jax", "mujoco", "onnx", "onnxruntime")


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        topic: what it belongs to: `versions`, `device`, `platform`, `engines`, `exposure`.
        name: what was looked at.
        state: how it stands.
        detail: what was found.
        fix: what to do about it; empty when nothing is to be done.
    """

    topic: str
    name: str
    state: State
    detail: str
    fix: str = ""

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)


def examine(client: Client, report: DeviceReport) -> list[Check]:
    """Look at everything that runs of Jobs depend on.

    Args:
        client: says which platform and state directory are meant.
        report: what this machine really has.
    """
    return [
        *_versions(),
        *_device(report),
        *_platform(client),
        *_ports(client),
        *_engines(),
        *_exposure(client),
    ]


def _versions() -> Iterator[Check]:
    python = f"{platform.python_version()} at {sys.executable}"
    yield Check("versions", "rlark", "ok", f"{__version__}, Python {python}")
    for package in PACKAGES:
        found = installed(package)
        yield Check("versions", package, "ok" if found else "info", found or "not installed")


def installed(package: str) -> str | None:
    """The version of a package; None where it is not installed. Nothing is imported."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _device(report: DeviceReport) -> Iterator[Check]:
    yield Check("device", "cpu", "ok", f"{report.cores} cores usable, {report.cpu or 'model unknown'}")
    yield Check("device", "memory", "ok", f"{report.memory_free / GIB:.1f} of {report.memory / GIB:.1f} GiB free")
    for index, gpu in enumerate(report.gpus):
        used = f"{gpu.memory_used / GIB:.1f} of {gpu.memory / GIB:.1f} GiB used"
        yield Check("device", f"gpu {index}", "ok", f"{gpu.name}, {used}, driver {gpu.driver}, {gpu.uuid}")
    if not report.gpus:
        why = report.gpu_note or f"CUDA_VISIBLE_DEVICES={report.visible_devices!r} hides {report.gpus_installed}"
        yield Check("device", "gpu", "info", f"none: {why}; Jobs with gpu: 0 run on the CPU")
    yield _room(
        "shared memory",
        report.shm_free,
        LEAST_SHM,
        "enlarge it: mount -o remount,size=8G /dev/shm (docker: --shm-size=8g)",
    )
    yield _room("disk", report.disk_free, LEAST_DISK, "free space there, or choose another place with --home")
    yield _bubblewrap()


def _room(name: str, free: int, least: int, fix: str) -> Check:
    enough = free >= least
    return Check("device", name, "ok" if enough else "warning", f"{free / GIB:.1f} GiB free", "" if enough else fix)


def _bubblewrap() -> Check:
    from rlark.host import sandbox

    why, _, fix = sandbox.unavailable().partition("; ")
    if not why:
        return Check("device", "bubblewrap", "ok", "works: Jobs can have mounts and processes of their own")
    return Check("device", "bubblewrap", "warning", why, fix)


def _platform(client: Client) -> Iterator[Check]:
    from rlark.host import head

    home = client.settings.home
    record = platform_record(home)
    yield Check("platform", "state", "ok" if home.root.is_dir() else "info", str(home.root))
    if home.token.is_file():
        mode = home.token.stat().st_mode & 0o777
        private = mode & 0o077 == 0
        fix = "" if private else f"chmod 600 {home.token}"
        yield Check("platform", "token", "ok" if private else "error", f"{home.token}, mode {mode:04o}", fix)
    if not client.transport.answers():
        living = head.recorded_processes(head.HeadFiles(home.head)) if client.settings.local else []
        if living:
            told = f"no answer at {client.settings.address}, yet {len(living)} processes of its head live"
            yield Check("platform", "api", "error", told, "rlark up    (or: rlark down)")
        else:
            stale = " (platform.json is left of an earlier start)" if record else ""
            yield Check("platform", "api", "info", f"not running{stale}", "rlark up")
        return
    yield _api(client)
    if record.get("gpusFaked"):
        told = "faked: --num-gpus claims more than this machine has"
        yield Check("platform", "gpus", "info", told, "rlark down, and rlark up without --num-gpus, for real ones")


def _api(client: Client) -> Check:
    try:
        client.transport.get("/readyz")
    except RlarkError as error:
        return Check("platform", "api", "error", error.message, error.hint or "")
    return Check("platform", "api", "ok", f"{client.settings.address} takes Jobs")


def _ports(client: Client) -> Iterator[Check]:
    from rlark.host import ports

    record = platform_record(client.settings.home)
    addresses = {"api": str(record.get("address") or DEFAULT_ADDRESS), "dashboard": str(record.get("dashboard") or "")}
    for name, address in addresses.items():
        port = urlsplit(address).port
        if port:
            holder = ports.holder(port)
            yield Check("platform", f"port {port} ({name})", "info", f"held by {holder}" if holder else "free")


def _engines() -> Iterator[Check]:
    from rlark.engine import find_engines

    for engine in find_engines().values():
        unmet = engine.unmet()
        detail = f"lacks {', '.join(need.name for need in unmet)}" if unmet else engine.title
        fix = " && ".join(need.install for need in unmet)
        yield Check("engines", engine.id, "missing" if unmet else "ok", detail, fix)


def _exposure(client: Client) -> Iterator[Check]:
    from rlark.host import head
    from rlark.host.exposure import exposed, firewall_line

    found = exposed(head.recorded_processes(head.HeadFiles(client.settings.home.head)))
    if not found:
        yield Check("exposure", "ray", "ok", "nothing of a head of ours listens beyond this machine")
        return
    yield Check(
        "exposure",
        "ray",
        "warning",
        f"{len(found)} ports of Ray listen beyond this machine: Ray 2.60 cannot bind them to loopback. "
        "Calls need its token, which is on; metrics do not",
        firewall_line(item.port for item in found),
    )
    for item in found:
        yield Check("exposure", f"port {item.port}", "info", f"{item.address}, pid {item.pid}: {item.command[:60]}")
