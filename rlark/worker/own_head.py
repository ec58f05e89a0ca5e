"""A Ray head for one Job: started by the Job's own bash, watched and ended by its worker.

What must be known before the prepare script runs (ports, the folder of Ray's sockets, the token) is
chosen first. The head is then started from the prepared shell, so that Ray and all that runs on it
have what prepare has set up, and by the `ray` that this shell finds.
"""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import shlex
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

from rlark.folder import JobFolder, write_text
from rlark.host import ports, process, ray_start
from rlark.host.clock import Clock
from rlark.host.head import RAYLET_GRACE_S, START_TIMEOUT_S, TREE_GRACE_S, VITAL, HeadFiles, boot_id, write_state
from rlark.host.process import ProcessId
from rlark.plan.mounts import covers
from rlark.plan.node import HeadAddress, Lease
from rlark.plan.plan import Plan
from rlark.redactor import Redactor
from rlark.worker.session_logs import keep_logs

ANSWER_S = 5.0
"""How long the GCS may take to answer once `ray start` has ended well."""
LOOK_S = 1.0
RECORD_S = 5.0
_TOKEN_BYTES = 32
_START = """\
# `ray start --head` with what prepare has set up. A Ray that does not know an option is started
# again without it.
export {variables}
if {own} || ! command -v ray >/dev/null; then ray=({python}); else ray=(ray); fi
options=({options})
left_out=()
while :; do
  printf '%s\\n' "${{left_out[@]}}" >{log}
  status=0
  "${{ray[@]}}" start "${{options[@]}}" >>{log} 2>&1 || status=$?
  unknown=
  while read -r line; do
    if [[ $line =~ [Nn]'o such option'[^-]*(--[a-z0-9-]+) ]]; then unknown=${{BASH_REMATCH[1]}}; fi
  done <{log}
  if [[ $status == 0 || -z $unknown ]]; then exit "$status"; fi
  kept=()
  for option in "${{options[@]}}"; do
    if [[ ${{option%%=*}} != "$unknown" ]]; then kept+=("$option"); fi
  done
  if (( ${{#kept[@]}} == ${{#options[@]}} )); then exit "$status"; fi
  options=("${{kept[@]}}")
  left_out+=("This Ray does not know $unknown, which is left out.")
done
"""


class OwnHead:
    """The head of one attempt.

    Attributes:
        lease: what the attempt holds, this head as the one that serves it.
    """

    def __init__(self, plan: Plan, lease: Lease, folder: JobFolder, environ: Mapping[str, str], clock: Clock) -> None:
        """Choose ports, temporary directory and token; nothing starts yet.

        Args:
            plan: says what the run sees, and whether it is an engine.
            lease: what the head may hand out.
            folder: the Job's; `folder.head` is made.
            environ: says where temporary files go.
            clock: measures.

        Raises:
            ClusterError: there are no ports, or no place for Ray's sockets.
            OSError: the folder or the token cannot be written.
        """
        self._plan, self._folder, self._clock = plan, folder, clock
        self._files = HeadFiles(folder.head)
        self._processes: frozenset[ProcessId] = frozenset()
        self._vital: dict[str, ProcessId] = {}
        self._look_at = self._record_at = 0.0
        self._block = ports.claim_block()
        self._ports = ray_start.HeadPorts.take(self._block)
        self._temp = ray_start.fresh_temp_dir(_places(plan, environ))
        try:
            folder.head.mkdir(mode=0o700, exist_ok=True)
            write_state(self._files.state, {"tempDir": str(self._temp)})
            write_text(self.token, secrets.token_hex(_TOKEN_BYTES) + "\n")
        except OSError:
            ray_start.remove_temp_dir(self._temp)
            raise
        numbers = self._ports.numbers
        address = HeadAddress(
            address=f"127.0.0.1:{numbers['port']}",
            dashboard=f"http://127.0.0.1:{numbers['dashboard-port']}",
            token_path=str(self.token),
        )
        self.lease = lease.model_copy(update={"head": address, "node_id": ""})  # another head's id of the node

    @property
    def token(self) -> Path:
        """The file with this Ray's token, mode 0600."""
        return self._folder.head / "ray-token"

    @property
    def address(self) -> str:
        """`host:port` of its GCS."""
        return f"127.0.0.1:{self._ports.numbers['port']}"

    def script(self, env: Mapping[str, str]) -> str:
        """The script that starts it, for the prepared shell.

        Args:
            env: the platform's variables: for the head they hold whatever prepare has made of them.
        """
        engine = not self._plan.run
        options = [*ray_start.head_flags(str(self._temp)), *self._ports.flags, *_capacity(self.lease)]
        variables = {**env, **self._ports.env}
        if engine:  # lean; a run script may want all of Ray: what its actors print, `ray status`, `ray://`
            options.append(ray_start.LOG_MONITOR_OFF)
            variables["RAY_START_HOOK"] = ray_start.HOOK
        return _START.format(
            variables=" ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(variables.items())),
            own="true" if engine else "false",  # an engine's ranks are rlark's own code
            python=shlex.join([sys.executable, *ray_start.MODULE]),
            options=shlex.join(options),
            log=shlex.quote(str(self._files.ray_log)),
        )

    def taken(self, started: frozenset[ProcessId] = frozenset()) -> str:
        """Which of its ports somebody else has taken since they were chosen; empty when none is.

        Args:
            started: the head's own processes, where there are some.
        """
        names = {port: name for name, port in self._ports.numbers.items()}
        for one in ports.listeners():
            if one.port in names:
                holders = ports.socket_owners({one.inode})
                if not holders or not started.issuperset(holders):
                    who = ports.holder(one.port) or "somebody"
                    return (
                        f"port {one.port} ({names[one.port]}), chosen for the Job's Ray head, was taken by {who}; "
                        f"a prepare script must not listen there, else `rlark start {self._plan.job}` chooses anew"
                    )
        return ""

    def failure(self, status: int, started: frozenset[ProcessId]) -> str:
        """Why `ray start` did not start it, in Ray's own words.

        Args:
            status: what `ray start` exited with.
            started: the processes that it has left all the same.
        """
        try:
            said = self._files.ray_log.read_text(encoding="utf-8", errors="replace")
        except OSError:
            said = ""
        reason = "; ".join(part for part in (ray_start.rays_reason(said), self.taken(started)) if part)
        return f"the Job's Ray head did not start (ray start exited with {status}): {reason}; {self._see}"

    @property
    def overdue(self) -> str:
        """What is said of one that takes too long."""
        return f"the Job's Ray head did not start within {START_TIMEOUT_S:.0f} s; {self._see}"

    @property
    def _see(self) -> str:
        return f"see logs/attempt-{self.lease.attempt}/ray/{self._files.ray_log.name}"

    def check(self, started: frozenset[ProcessId]) -> str:
        """See that the head that was started works, and write down its processes.

        Args:
            started: the processes that `ray start` has left.

        Returns:
            What is wrong with it; empty when nothing is.
        """
        self._processes = started
        self._vital = {name: one for one in started if (name := process.name(one.pid)) in VITAL}
        self._record()
        missing = sorted(VITAL - set(self._vital))
        if missing:
            return f"Ray's {' and '.join(missing)} ended directly after the start; {self._see}"
        until = self._clock.monotonic() + ANSWER_S
        while not ports.listening("127.0.0.1", self._ports.numbers["port"]):
            if self._clock.monotonic() > until:
                return f"the Job's Ray head does not answer at {self.address} within {ANSWER_S:g} s; {self._see}"
            self._clock.sleep(process.POLL_S)
        session = (self._temp / "session_latest").resolve().name
        head = self.lease.head
        if head is not None and session.startswith("session_2"):
            self.lease = self.lease.model_copy(update={"head": head.model_copy(update={"session": session})})
        return ""

    @property
    def trees(self) -> frozenset[ProcessId]:
        """The head's processes; what lives below them is the head's too."""
        return self._processes

    @property
    def servants(self) -> frozenset[ProcessId]:
        """Those of the head's processes in which nothing of the run is computed."""
        return frozenset(one for one in self._processes if not process.command(one.pid).startswith("ray::IDLE"))

    def look(self) -> str:
        """Look after it, at most once a second.

        Returns:
            What has happened to it, once; empty otherwise.
        """
        now = self._clock.monotonic()
        if now < self._look_at or not self._vital:
            return ""
        self._look_at = now + LOOK_S
        if now >= self._record_at:
            self._record_at = now + RECORD_S
            self._record()
        gone = next((f"{name} (process {one.pid})" for name, one in self._vital.items() if not process.alive(one)), "")
        if not gone:
            return ""
        self._vital = {}
        return f"the Job's Ray head has ended: its {gone} is gone, perhaps by a `ray stop` of the run; the run goes on"

    def stop(self) -> list[ProcessId]:
        """End it in order: the raylet, then the rest. What could not be ended."""
        raylet = self._vital.get("raylet")
        if raylet is not None and process.send(raylet, signal.SIGTERM):
            until = self._clock.monotonic() + RAYLET_GRACE_S
            while process.alive(raylet) and self._clock.monotonic() < until:
                self._clock.sleep(process.POLL_S)
        self._vital = {}
        return process.end(self._processes, TREE_GRACE_S, self._clock)

    def close(self, mask: Redactor) -> None:
        """Keep its logs, and remove what else it has left on the disk; asked once its processes are gone."""
        target = self._folder.logs(self.lease.attempt) / "ray"
        with contextlib.suppress(OSError):  # a full disk costs these logs and no more
            keep_logs(self._temp, self._files.ray_log, target, mask)
        with contextlib.suppress(OSError):  # the platform tries again when it takes the lease back
            ray_start.remove_temp_dir(self._temp)
            for path in (self.token, self._files.processes, self._files.state, self._files.ray_log):
                path.unlink(missing_ok=True)
        self._block.close()

    def _record(self) -> None:
        """Write down who lives, for when the worker is killed."""
        below = (one for family in process.families(one.pid for one in self._processes) for one in family)
        living = sorted({one for one in self._processes if process.alive(one)} | set(below))
        record = {"bootId": boot_id(), "processes": [one.to_json() for one in living]}
        with contextlib.suppress(OSError):
            write_state(self._files.processes, record)


def _places(plan: Plan, environ: Mapping[str, str]) -> list[Path]:
    """Where the folder of Ray's sockets may lie: not behind a mount, where the worker would not find it."""
    named = [environ.get("TMPDIR", ""), "/tmp", "/var/tmp", environ.get("XDG_RUNTIME_DIR", "")]  # noqa: S108
    places = [os.path.realpath(path) for path in named if path]
    return [Path(path) for path in places if not any(covers(mount.path, path) for mount in plan.mounts)]


def _capacity(lease: Lease) -> list[str]:
    """What was leased, no more and no less; Ray counts whole CPUs and needs one to run anything."""
    options = [f"--num-cpus={max(1, math.ceil(lease.cpus))}", f"--num-gpus={len(lease.devices)}"]
    return [*options, f"--memory={lease.memory}"] if lease.memory else options
