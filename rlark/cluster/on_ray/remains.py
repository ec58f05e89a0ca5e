"""What is left of an attempt: every process that it started and that still lives."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from pathlib import Path

from rlark.folder import JobFolder, read_json
from rlark.host import process
from rlark.host.head import HeadFiles, read_state, recorded_processes
from rlark.host.process import ProcessId
from rlark.host.ray_start import remove_temp_dir
from rlark.spec.report import Report

_TICKS = os.sysconf("SC_CLK_TCK")
_SLACK_S = 2.0


def worker_process(reports: Iterable[Report], attempt: int) -> ProcessId | None:
    """The worker of an attempt, by its own first report; None before it."""
    own = (ProcessId.from_json(report.data) for report in reports if report.attempt == attempt)
    return next((one for one in own if one is not None), None)


def has_ended(reports: Iterable[Report], attempt: int) -> bool:
    """Whether the worker of an attempt has said how it ended."""
    return any(report.attempt == attempt and report.type == "Outcome" for report in reports)


def rank_processes(reports: Iterable[Report], attempt: int, now: float | None = None) -> list[ProcessId]:
    """The ranks of an attempt that live, by its report `Placed`.

    A rank is reported by its pid alone. A process that was started after the report is not the
    rank but somebody who got its number.

    Args:
        reports: what the worker wrote.
        attempt: the try.
        now: seconds since the epoch, as `time.time`.
    """
    found = []
    for report in reports:
        ranks = report.data.get("ranks")
        if report.attempt == attempt and report.type == "Placed" and isinstance(ranks, Sequence):
            pids = [rank.get("pid") for rank in ranks if isinstance(rank, dict)]
            living = [process.identify(pid) for pid in pids if isinstance(pid, int)]
            until = _epoch(report.time) + _SLACK_S
            found += [one for one in living if one is not None and _started(one, now) <= until]
    return found


def marked_processes(folder: JobFolder, attempt: int) -> list[ProcessId]:
    """Processes of this user whose environment says that they belong to the attempt.

    So daemons are found that left the session and outlived the worker. Ray's own processes
    overwrite their environment with their titles; those are found by `rank_processes`.
    """
    wanted = {f"RLARK_JOB_DIR={folder.root}".encode(), f"RLARK_ATTEMPT={attempt}".encode()}
    return _whose_environment(lambda variables: wanted <= variables)


def head_processes(folder: JobFolder) -> list[ProcessId]:
    """The Ray head of a Job's own that still lives, by its worker's list; Ray's processes hide their environment."""
    return recorded_processes(HeadFiles(folder.head))


def forget_head(folder: JobFolder) -> None:
    """Remove what the head of a worker that was killed has left on the disk; asked once its processes are gone.

    What `ray start` said is kept with the attempt's logs.
    """
    files = HeadFiles(folder.head)
    temp_dir = read_state(files.state).get("tempDir")
    try:
        if isinstance(temp_dir, str):
            remove_temp_dir(Path(temp_dir))
    except OSError:
        return  # the next release or `rlark down` tries again, since the record stays
    if files.ray_log.exists():
        _keep_start_log(folder, files.ray_log)
    shutil.rmtree(folder.head, ignore_errors=True)


def _keep_start_log(folder: JobFolder, log: Path) -> None:
    with contextlib.suppress(OSError, ValueError):  # it may help, and is needed by nobody
        attempt = (read_json(folder.lease) or {}).get("attempt")
        if isinstance(attempt, int):
            kept = folder.logs(attempt) / "ray" / log.name
            kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not kept.exists():  # else the worker got as far as that, and masked what it kept
                shutil.move(log, kept)


def has_own_head(folder: JobFolder) -> bool:
    """Whether a Job runs under a Ray head of its own."""
    try:
        return (read_json(folder.plan) or {}).get("head") == "job"
    except (OSError, ValueError):
        return False


def processes_under(jobs: Path) -> list[ProcessId]:
    """Processes of this user that belong to any Job whose folder lies there, its own Ray head among them."""
    start = f"RLARK_JOB_DIR={jobs}/".encode()
    found = _whose_environment(lambda variables: any(one.startswith(start) for one in variables))
    heads = (one for path in _job_folders(jobs) for one in head_processes(JobFolder(path)))
    return sorted({*found, *heads})


def forget_heads(jobs: Path) -> None:
    """`forget_head` for every Job whose folder lies there."""
    for path in _job_folders(jobs):
        forget_head(JobFolder(path))


def _job_folders(jobs: Path) -> list[Path]:
    try:
        return sorted(path for path in jobs.iterdir() if path.is_dir())
    except OSError:
        return []


def _whose_environment(fits: Callable[[set[bytes]], bool]) -> list[ProcessId]:
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid() and fits(_environment(entry.path)):
            one = process.identify(int(entry.name))
            if one is not None:
                found.append(one)
    return found


def _environment(path: str) -> set[bytes]:
    try:
        return set((Path(path) / "environ").read_bytes().split(b"\0"))
    except OSError:  # another user's, or gone
        return set()


def _started(one: ProcessId, now: float | None) -> float:
    """When a process started, in seconds since the epoch."""
    boot = (time.time() if now is None else now) - time.clock_gettime(time.CLOCK_BOOTTIME)
    return boot + one.starttime / _TICKS


def _epoch(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0
