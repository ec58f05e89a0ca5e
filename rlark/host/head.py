"""One Ray head, kept whole by a small supervisor process: `python -m rlark.host.head CONFIG.json`.

The supervisor never imports Ray. It runs `ray start --head` once, becomes the parent of all
that this leaves behind, and then watches: without its GCS or raylet a head is of no use, so the
rest is ended too; a dead dashboard, which nobody else restarts, is started again. Who lives is
written to a file each second, so that `rlark down` can clean up after a supervisor that was killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rlark.host import ports, process
from rlark.host.clock import Clock, SystemClock, stamp
from rlark.host.process import ProcessId
from rlark.host.ray_start import clean_env, rays_reason, start_command

START_TIMEOUT_S = 90.0
VITAL = frozenset({"gcs_server", "raylet"})
"""The processes without which a head is of no use, by the kernel's names for them."""
WATCH_S = 1.0
RAYLET_GRACE_S = 1.0
TREE_GRACE_S = 0.7
DASHBOARD_PAUSE_S = 2.0


@dataclass(frozen=True)
class HeadConfig:
    """How a head is to be started; crosses to the supervisor as a JSON file.

    Attributes:
        folder: where state, process list and logs go.
        temp_dir: Ray's own temporary directory, short (see `short_temp_dir`).
        token_path: the file with Ray's token, mode 0600.
        dashboard_port: 0 takes a free one.
        num_cpus: None lets Ray count.
        num_gpus: None lets Ray count; more than there are fakes them.
        memory: bytes Ray may hand out; None lets Ray decide.
        labels: Ray node labels.
        resources: further Ray resources of the node.
        env: further environment variables of the head and of everything that runs on it.
        fakes_gpus: True drops CUDA_VISIBLE_DEVICES, which would contradict faked GPUs.
    """

    folder: str
    temp_dir: str
    token_path: str
    dashboard_port: int = 0
    num_cpus: int | None = None
    num_gpus: int | None = None
    memory: int | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    resources: Mapping[str, float] = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    fakes_gpus: bool = False

    @classmethod
    def read(cls, path: Path) -> HeadConfig:
        """Read what `write` wrote."""
        return cls(**json.loads(path.read_text(encoding="utf-8")))

    def write(self, path: Path) -> None:
        """Write it for the supervisor."""
        write_state(path, asdict(self))


@dataclass(frozen=True)
class HeadFiles:
    """The files by which a supervisor speaks.

    Attributes:
        folder: `HeadConfig.folder`.
    """

    folder: Path

    @property
    def config(self) -> Path:
        """What was asked for."""
        return self.folder / "config.json"

    @property
    def state(self) -> Path:
        """`{"state": "starting" | "ready" | "failed" | "ended", ...}`."""
        return self.folder / "head.json"

    @property
    def processes(self) -> Path:
        """Every process of the head, as of a second ago."""
        return self.folder / "processes.json"

    @property
    def ray_log(self) -> Path:
        """What `ray start` said."""
        return self.folder / "ray-start.log"

    @property
    def log(self) -> Path:
        """What the supervisor said."""
        return self.folder / "supervisor.log"


def write_state(path: Path, value: Mapping[str, object]) -> None:
    """Write a JSON file whole, for its owner only. Not synced: after a power cut no process of it lives."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
    beside.replace(path)


def read_state(path: Path) -> dict[str, object]:
    """Read what `write_state` wrote; empty where there is nothing of it."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def boot_id() -> str:
    """The kernel's name for this boot; process ids of another boot mean nothing."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def recorded_processes(files: HeadFiles) -> list[ProcessId]:
    """The head's processes that still live, by the supervisor's list; empty after a reboot."""
    record = read_state(files.processes)
    listed = record.get("processes")
    if record.get("bootId") != boot_id() or not isinstance(listed, list):
        return []
    return [one for one in map(ProcessId.from_json, listed) if one is not None and process.alive(one)]


def whole(files: HeadFiles) -> bool:
    """Whether the head that was started last still has its GCS and its raylet; without a record of any: no."""
    vital = read_state(files.state).get("vital")
    known = [ProcessId.from_json(one) for one in vital] if isinstance(vital, list) else []
    return bool(known) and all(one is not None and process.alive(one) for one in known)


class Supervisor:
    """Starts one head, watches it, ends it."""

    def __init__(self, config: HeadConfig, clock: Clock) -> None:
        """Take the configuration; nothing starts yet."""
        self._config = config
        self._clock = clock
        self._files = HeadFiles(Path(config.folder))
        self._env = clean_env(config, os.environ)
        self._wanted = True
        self._vital: dict[str, ProcessId] = {}
        self._dashboard: _Dashboard | None = None
        self._recorded: list[ProcessId] = []

    def run(self) -> int:
        """Live as long as the head; the exit code is 0 only for an asked-for end."""
        process.become_subreaper()
        signal.signal(signal.SIGTERM, self._end_wanted)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self._write("starting")
        with ports.claim_block() as block:
            try:
                reason = self._start(block)
                while reason is None and self._wanted:
                    self._clock.sleep(WATCH_S)
                    reason = self._look()
            except Exception as error:  # noqa: BLE001 - whatever happened, the head must be ended and the reason told
                reason = f"the head's supervisor failed: {error!r}"
            survivors = self._stop()
        self._write("failed" if reason else "ended", error=reason, survivors=[process.describe(s) for s in survivors])
        return 1 if reason else 0

    def _end_wanted(self, *_: object) -> None:
        self._wanted = False

    def _start(self, block: ports.PortBlock) -> str | None:
        """Run `ray start`; the reason when it fails."""
        argv, more, chosen = start_command(self._config, block)
        self._env |= more
        with self._files.ray_log.open("wb") as log:
            starting = process.spawn(argv, env=self._env, stdout=log, stderr=subprocess.STDOUT)
        until = self._clock.monotonic() + START_TIMEOUT_S
        while starting.poll() is None:
            if not self._wanted:
                return "it was asked to end while it started"
            if self._clock.monotonic() > until:
                return f"Ray did not start within {START_TIMEOUT_S:.0f} s; see {self._files.ray_log}"
            self._record()
            self._clock.sleep(0.2)
        if starting.returncode != 0:
            said = self._files.ray_log.read_text(encoding="utf-8", errors="replace")
            return f"Ray's head did not start: {rays_reason(said)}"
        return self._ready(chosen)

    def _ready(self, chosen: Mapping[str, int]) -> str | None:
        for one in process.descendants(os.getpid()):
            name = process.name(one.pid)
            if name in VITAL:
                self._vital[name] = one
            elif _argv(one.pid)[1:2] and _argv(one.pid)[1].endswith("/dashboard/dashboard.py"):
                self._dashboard = _Dashboard(one, _argv(one.pid))
        missing = VITAL - set(self._vital)
        if missing:
            return f"Ray's {' and '.join(sorted(missing))} ended directly after the start; see {self._files.ray_log}"
        self._record()
        session = (Path(self._config.temp_dir) / "session_latest").resolve()
        self._write(
            "ready",
            address=f"127.0.0.1:{chosen['port']}",
            dashboard=f"http://127.0.0.1:{chosen['dashboard-port']}",
            session=session.name,
            ports=dict(chosen),
            vital=[one.to_json() for one in self._vital.values()],
        )
        return None

    def _look(self) -> str | None:
        """One round of the watch; the reason when the head is lost."""
        process.reap()
        dashboard = self._dashboard
        living, *below = process.families([os.getpid(), *([dashboard.id.pid] if dashboard else [])])
        self._record(living)
        for name, one in self._vital.items():
            if not process.alive(one):
                return f"Ray's {name} (process {one.pid}) has ended, and the head with it"
        if dashboard is not None and not process.alive(dashboard.id):
            self._restart_dashboard(dashboard)
        elif dashboard is not None:
            dashboard.below = below[0]
        return None

    def _restart_dashboard(self, dashboard: _Dashboard) -> None:
        if self._clock.monotonic() < dashboard.not_before:
            return
        process.end(dashboard.below, 0, self._clock)  # its modules would keep sockets that the new one needs
        started = process.spawn(dashboard.argv, env=self._env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        own = process.identify(started.pid)
        if own is not None:
            dashboard.id = own
        dashboard.below = []
        dashboard.not_before = self._clock.monotonic() + DASHBOARD_PAUSE_S
        self._say(f"the dashboard had ended and was started again as process {started.pid}")

    def _stop(self) -> list[ProcessId]:
        """End everything below; what could not be ended."""
        raylet = self._vital.get("raylet")
        if raylet is not None and process.send(raylet, signal.SIGTERM):
            until = self._clock.monotonic() + RAYLET_GRACE_S
            while process.alive(raylet) and self._clock.monotonic() < until:
                self._clock.sleep(process.POLL_S)
        survivors = process.end_tree(None, TREE_GRACE_S, self._clock)
        process.reap()
        self._record()
        return survivors

    def _record(self, living: list[ProcessId] | None = None) -> None:
        """Write down who lives, when that has changed."""
        living = process.descendants(os.getpid()) if living is None else living
        if living != self._recorded:
            self._recorded = living
            record = {"bootId": boot_id(), "processes": [one.to_json() for one in living]}
            write_state(self._files.processes, record)

    def _write(self, state: str, **more: object) -> None:
        own = process.this_process().to_json()
        record = {"state": state, "supervisor": own, "bootId": boot_id(), "time": stamp(self._clock.now()), **more}
        write_state(self._files.state, record)

    def _say(self, text: str) -> None:
        sys.stderr.write(f"{stamp(self._clock.now())} {text}\n")
        sys.stderr.flush()


@dataclass
class _Dashboard:
    """Ray's dashboard process and how to start it again."""

    id: ProcessId
    argv: list[str]
    below: list[ProcessId] = field(default_factory=list)
    not_before: float = 0.0


def _argv(pid: int) -> list[str]:
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [part.decode(errors="surrogateescape") for part in raw.rstrip(b"\0").split(b"\0")]


def main(argv: list[str]) -> int:
    """Run the supervisor for a configuration file."""
    return Supervisor(HeadConfig.read(Path(argv[1])), SystemClock()).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
