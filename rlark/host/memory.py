"""Whether the kernel had to kill for want of memory."""

from __future__ import annotations

from pathlib import Path

_CGROUP = Path("/proc/self/cgroup")
_ROOT = Path("/sys/fs/cgroup")


def killed_for_memory() -> int:
    """How many processes of this control group and its parents the kernel's OOM killer has ended.

    It only ever grows. 0 where the kernel does not say (no cgroup v2).
    """
    try:
        own = next(line[3:].strip() for line in _CGROUP.read_text().splitlines() if line.startswith("0::"))
    except (OSError, StopIteration):
        return 0
    folder, found = _ROOT / own.lstrip("/"), 0
    for place in (folder, *folder.parents):
        if not place.is_relative_to(_ROOT):
            break
        found = max(found, _count(place / "memory.events"))
    return found


def _count(events: Path) -> int:
    try:
        lines = [line.split() for line in events.read_text().splitlines()]
    except OSError:
        return 0
    return next((int(line[1]) for line in lines if line[:1] == ["oom_kill"]), 0)
