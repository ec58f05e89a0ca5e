"""What this machine really has: GPUs, CPU, memory, disk. Torch is not asked and not needed.

The order of the GPUs is the one of the PCI bus, nvidia-smi's own; a head and its Jobs set
CUDA_DEVICE_ORDER=PCI_BUS_ID so that number 3 means the same card to everybody.
"""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

MIB = 1024 * 1024
_QUERY = ("index", "uuid", "name", "memory.total", "memory.used", "driver_version", "compute_cap")
_TIMEOUT_S = 10.0


@dataclass(frozen=True)
class Gpu:
    """One card.

    Attributes:
        index: its number on this machine, in PCI order.
        uuid: `GPU-...`.
        name: the product name.
        memory: bytes.
        memory_used: bytes in use now, by anybody.
        driver: the kernel driver's version.
        compute_capability: for example `9.0`; empty when the driver does not say.
    """

    index: int
    uuid: str
    name: str
    memory: int
    memory_used: int
    driver: str
    compute_capability: str = ""


@dataclass(frozen=True)
class DeviceReport:
    """What was found, and nothing that was asked for.

    Attributes:
        gpus: the cards that CUDA_VISIBLE_DEVICES leaves, in its order; logical GPU i is the i-th.
        gpus_installed: how many there are without that restriction.
        gpu_note: why no GPU was found, or empty.
        visible_devices: CUDA_VISIBLE_DEVICES as it is set here; None when it is not.
        cpu: the processor's name.
        cores: how many this process may use.
        memory: bytes, the container's limit where there is one.
        memory_free: bytes available now.
        shm: bytes of /dev/shm.
        shm_free: bytes free there.
        disk_free: bytes free under the state directory.
    """

    gpus: Sequence[Gpu] = field(default_factory=list)
    gpus_installed: int = 0
    gpu_note: str = ""
    visible_devices: str | None = None
    cpu: str = ""
    cores: int = 1
    memory: int = 0
    memory_free: int = 0
    shm: int = 0
    shm_free: int = 0
    disk_free: int = 0

    def to_json(self) -> dict[str, object]:
        """Plain values, as `rlark doctor -o json` and `env.json` show them."""
        return asdict(self)

    def gpu(self, name: str) -> Gpu | None:
        """The card that Ray or CUDA_VISIBLE_DEVICES calls so: its number or (the start of) its UUID."""
        for card in self.gpus:
            if name == str(card.index) or (name.startswith("GPU-") and card.uuid.startswith(name)):
                return card
        return None


def report(folder: Path, env: Mapping[str, str] | None = None) -> DeviceReport:
    """Look at this machine.

    Args:
        folder: where the free disk space counts; it, or a parent of it, must exist.
        env: the environment that restricts the GPUs; this process's by default.
    """
    env = os.environ if env is None else env
    installed, note = installed_gpus(env)
    restriction = env.get("CUDA_VISIBLE_DEVICES")
    memory, memory_free = _memory()
    shm, shm_free = shared_memory()
    return DeviceReport(
        gpus=visible(installed, restriction),
        gpus_installed=len(installed),
        gpu_note=note,
        visible_devices=restriction,
        cpu=_cpu(),
        cores=len(os.sched_getaffinity(0)),
        memory=memory,
        memory_free=memory_free,
        shm=shm,
        shm_free=shm_free,
        disk_free=shutil.disk_usage(_existing(folder)).free,
    )


def shared_memory() -> tuple[int, int]:
    """Bytes of /dev/shm and how many of them are free; zeros where there is none."""
    shm = Path("/dev/shm")  # noqa: S108 - Ray's object store lives there
    if not shm.is_dir():
        return 0, 0
    usage = shutil.disk_usage(shm)
    return usage.total, usage.free


def installed_gpus(env: Mapping[str, str] | None = None) -> tuple[list[Gpu], str]:
    """Every NVIDIA card of this machine, and why there is none.

    Args:
        env: whose PATH is searched for nvidia-smi; this process's by default.

    Returns:
        The cards in PCI order, and a sentence where the list is empty.
    """
    env = os.environ if env is None else env
    program = shutil.which("nvidia-smi", path=env.get("PATH"))
    if program is None:
        return [], "no NVIDIA driver: nvidia-smi is not on PATH"
    asked = [program, f"--query-gpu={','.join(_QUERY)}", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [], f"nvidia-smi does not answer: {error}"
    if answer.returncode != 0:
        said = (answer.stderr or answer.stdout).strip().splitlines()
        return [], f"nvidia-smi failed: {said[0] if said else f'exit code {answer.returncode}'}"
    cards = [_gpu(row) for row in csv.reader(answer.stdout.splitlines(), skipinitialspace=True) if len(row) > 5]
    return cards, "" if cards else "nvidia-smi knows of no GPU"


def _gpu(row: Sequence[str]) -> Gpu:
    total, used = (int(float(text) * MIB) if text.replace(".", "", 1).isdigit() else 0 for text in row[3:5])
    capability = row[6] if len(row) > 6 and row[6][:1].isdigit() else ""
    return Gpu(int(row[0]), row[1], row[2], total, used, row[5], capability)


def visible(cards: Sequence[Gpu], restriction: str | None) -> list[Gpu]:
    """What CUDA_VISIBLE_DEVICES leaves of the cards, in its order.

    As CUDA reads it: numbers or UUIDs (or their beginnings), up to the first one that names no card.

    Args:
        cards: all that are installed.
        restriction: the variable's value; None when it is not set.
    """
    if restriction is None:
        return list(cards)
    whole = DeviceReport(gpus=cards)
    chosen: list[Gpu] = []
    for name in (part.strip() for part in restriction.split(",")):
        card = whole.gpu(name)
        if card is None or card in chosen:
            break
        chosen.append(card)
    return chosen


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith(("model name", "Model")))
    return next(named, "")


def _memory() -> tuple[int, int]:
    fields = {}
    for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        fields[name] = int(value.split()[0]) * 1024
    total, available = fields.get("MemTotal", 0), fields.get("MemAvailable", 0)
    limit = _cgroup_limit()
    return (min(total, limit), min(available, limit)) if limit else (total, available)


def _cgroup_limit() -> int:
    """The container's memory limit in bytes; 0 without one."""
    for name in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            text = Path(name).read_text(encoding="ascii").strip()
        except OSError:
            continue
        return int(text) if text.isdigit() and int(text) < 1 << 60 else 0
    return 0


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.absolute().parents) if path.exists())
