"""`down`: Jobs first, with their grace; then the head by process id; then whoever is left, by name."""

from __future__ import annotations

import shutil
import signal
import threading
import urllib.error
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from rlark.boot import attach, state
from rlark.errors import ClusterError
from rlark.folder import Home, read_json
from rlark.host import process
from rlark.host.clock import Clock, SystemClock
from rlark.host.head import HeadConfig, HeadFiles, recorded_processes
from rlark.host.process import ProcessId
from rlark.host.ray_start import TEMP_PREFIX

JOBS = "/api/v1/rlinf.io/v1alpha1/jobs"
JOB_MARGIN_S = 30.0
SUPERVISOR_S = 15.0
LEFT_GRACE_S = 1.0


def down(home: Home, *, force: bool = False) -> dict[str, object]:
    """End what `up` started; nothing running is harmless.

    Args:
        home: the state directory.
        force: True does not wait for Jobs.

    Returns:
        `{"stopped": bool, "jobs": [names that were stopped]}`.

    Raises:
        ClusterError: a process could not be ended; it is named.
    """
    clock = SystemClock()
    with state.lock(home, clock):
        found = state.record(home)
        was_there = bool(found) or state.supervisor(home) is not None or bool(_recorded(home))
        jobs = [] if force else stop_jobs(home, str(found.get("address") or ""), clock)
        if found.get("attached"):
            _detach(home, found)
        survivors = end_head(home, clock)
        if was_there and not survivors:
            _forget_sessions(home)
    if survivors:
        named = "; ".join(process.describe(one) for one in survivors)
        raise ClusterError(f"These processes could not be ended: {named}.", hint="they may hang in the kernel: see ps")
    return {"stopped": was_there, "jobs": jobs}


def stop_jobs(home: Home, address: str, clock: Clock) -> list[str]:
    """Stop every Job that has not ended, and wait until it has; no API, no Jobs.

    Returns:
        Their names.
    """
    if not address or not state.answers(address):
        return []
    try:
        live = _live(home, address)
        for name in live:
            _stop(home, address, name)
        until = clock.monotonic() + JOB_MARGIN_S + max((_grace(home, name) for name in live), default=0.0)
        while live and _live(home, address) and clock.monotonic() < until:
            clock.sleep(0.2)
    except (OSError, ValueError) as error:
        state.say(f"The API does not stop its Jobs ({error}); their processes are ended")
        return []
    return live


def _live(home: Home, address: str) -> list[str]:
    items = state.call(home, address, "GET", f"{JOBS}?limit=1000&phase=Pending,Running").get("items")
    return [str(item["metadata"]["name"]) for item in items] if isinstance(items, list) else []


def _stop(home: Home, address: str, name: str) -> None:
    try:
        state.call(home, address, "PATCH", f"{JOBS}/{name}", {"spec": {"stopped": True}})
    except urllib.error.HTTPError as error:
        if error.code != HTTPStatus.NOT_FOUND:  # deleted meanwhile: as well
            raise


def _grace(home: Home, name: str) -> float:
    plan = read_json(home.job(name).plan) or {}
    value = plan.get("graceS")
    return float(value) if isinstance(value, int | float) else 30.0


def _detach(home: Home, found: dict[str, object]) -> None:
    """Take our actor and application off somebody else's cluster, which stays."""
    head: Any = found.get("head") or {}
    address = str(head.get("address") or "")
    try:
        attach.reach(address)
    except ClusterError:
        return  # the cluster is gone, and what we had on it with it
    attach.ray_environment(str(head.get("tokenPath") or ""))
    from rlark.boot import deploy

    with deploy.connected(address):
        deploy.undeploy(home, shut_serve=not found.get("serveWasThere"))


def end_head(home: Home, clock: Clock) -> Sequence[ProcessId]:
    """End this state directory's head, whatever state it is in, and forget it.

    Returns:
        The processes that could not be ended.
    """
    supervisor = state.supervisor(home)
    if supervisor is not None and process.send(supervisor, signal.SIGTERM):
        until = clock.monotonic() + SUPERVISOR_S
        while process.alive(supervisor) and clock.monotonic() < until:
            clock.sleep(process.POLL_S)
    left = [*_recorded(home), *([supervisor] if supervisor is not None and process.alive(supervisor) else [])]
    survivors = process.end(left, LEFT_GRACE_S, clock)
    survivors += process.end(_job_processes(home), LEFT_GRACE_S, clock)
    _forget_job_heads(home)
    home.platform.unlink(missing_ok=True)
    return survivors


def _forget_sessions(home: Home) -> None:
    """Remove Ray's own files: after an orderly end they are of no use, and outside `home` a surprise."""
    try:
        around = Path(HeadConfig.read(HeadFiles(home.head).config).temp_dir).parent
    except (OSError, ValueError, TypeError):
        return
    if around == home.root / "ray" or around.name.startswith(TEMP_PREFIX):
        shutil.rmtree(around, ignore_errors=True)


def _recorded(home: Home) -> list[ProcessId]:
    return recorded_processes(HeadFiles(home.head))


def _job_processes(home: Home) -> list[ProcessId]:
    """What Jobs of this home left running after a supervisor that was killed."""
    from rlark.cluster.on_ray.remains import processes_under

    return processes_under(home.jobs)


def _forget_job_heads(home: Home) -> None:
    """Remove what the Ray heads of Jobs have left on the disk, whose workers were killed."""
    from rlark.cluster.on_ray.remains import forget_heads

    forget_heads(home.jobs)


def stay_until_ended(home: Home) -> None:
    """Wait for Ctrl-C or SIGTERM and end the platform, or for the platform to end by itself.

    Raises:
        ClusterError: it ended by itself; with the reason.
    """
    asked = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: asked.set())
    attached = bool(state.record(home).get("attached"))
    while not asked.wait(0.5):
        if not attached and state.supervisor(home) is None:
            break
    reason = None if asked.is_set() else state.head_state(home).get("error")
    state.say("Ending the platform" if asked.is_set() else "The platform has ended")
    down(home)
    if not asked.is_set() and reason:
        raise ClusterError(f"The platform ended: {reason}")
