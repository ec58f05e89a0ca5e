"""`up`: a head of our own, or somebody else's, with controller and API on it."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rlark
from rlark.boot import attach, state
from rlark.boot.down import end_head, stay_until_ended
from rlark.boot.options import Options
from rlark.errors import ClusterError, UsageError
from rlark.folder import Home, write_json
from rlark.host import device, ports, process
from rlark.host.clock import Clock, SystemClock, stamp
from rlark.host.exposure import is_loopback
from rlark.host.head import HeadConfig, HeadFiles, whole
from rlark.host.process import ProcessId
from rlark.host.ray_start import short_temp_dir
from rlark.plan.node import NODE_NAME, HeadAddress

HEAD_S = 120.0
SHORTEST_TOKEN = 20
REVIVE_S = 15.0
MIB = 1024 * 1024
SHM = "shm"  # as `rlark.cluster.on_ray.nodes`, which may not be imported before the head has its environment
HEAD_ENV = {
    # A stopped Job's worker keeps its own grace; without this Ray kills it after three seconds.
    "RAY_JOB_STOP_WAIT_TIME_S": "86400",
    "RAY_JOB_START_TIMEOUT_SECONDS": "20",
    # A dead proxy is replaced after 4 s; Serve's own periods make it 30 s.
    "RAY_SERVE_PROXY_HEALTH_CHECK_PERIOD_S": "1",
    "RAY_SERVE_PROXY_HEALTH_CHECK_TIMEOUT_S": "2",
}
Record = dict[str, object]


@dataclass(frozen=True)
class Head:
    """A head that is up.

    Attributes:
        address: how it is reached.
        supervisor: the process that keeps it; None for a head of somebody else, or when it was killed.
        gpus_faked: True when it claims GPUs that are not there.
        attached: True for a head of somebody else.
    """

    address: HeadAddress
    supervisor: ProcessId | None
    gpus_faked: bool = False
    attached: bool = False


def up(home: Home, options: Options, *, stay: Callable[[Record], None] | None = None) -> Record:
    """Start the platform, or find it running.

    Args:
        home: the state directory.
        options: what was asked for; has no effect on a platform that runs.
        stay: takes the record once the platform answers; then this waits for Ctrl-C and ends it.

    Returns:
        `platform.json`; empty after a stay.

    Raises:
        ConflictError: another `up` does not come to its end, or another platform is on the cluster.
        ClusterError: a port is held, or the head or the API does not come up; with Ray's reason.
    """
    with state.lock(home, SystemClock()):
        found = state.running(home)
        if found is not None:
            _say_found(home, found, options)
        else:
            found = _start(home, options)
    if stay is None:
        return found
    stay(found)
    stay_until_ended(home)
    return {}


def _start(home: Home, options: Options) -> Record:
    clock = SystemClock()
    found = state.record(home)
    if found.get("attached") and _still_there(found, options):
        return _attach(home, options, clock, str(_head_address(found).address))
    if whole(HeadFiles(home.head)):
        return _revive(home, options, found, clock)
    end_head(home, clock)  # what an earlier platform left: a killed supervisor's head, a file from before a reboot
    _check_door(options.host, state.secret_file(home.token))
    _check_port(options.port, options.host, "--port")
    if options.ray_address:
        return _attach(home, options, clock, options.ray_address)
    if options.dashboard_port:
        _check_port(options.dashboard_port, "127.0.0.1", "--dashboard-port")
    starting = _spawn_head(home, options)
    try:
        attach.ray_environment(str(home.ray_token))
        from rlark.boot import deploy  # Ray is imported while the head starts

        head = _await_head(home, starting, clock)
        with deploy.connected(head.address.address):
            return _finish(home, options, head, deploy, clock)
    except BaseException:
        end_head(home, clock)
        raise


def _still_there(found: Record, options: Options) -> bool:
    """Whether the cluster of an attached platform, whose API does not answer, is the one that is meant and lives."""
    address = _head_address(found).address
    if options.ray_address not in ("", address):
        return False
    try:
        attach.reach(address)
    except ClusterError:
        return False
    return True


def _head_address(found: Record) -> HeadAddress:
    return HeadAddress.model_validate(found["head"])


def _revive(home: Home, options: Options, found: Record, clock: Clock) -> Record:
    """A head that is whole under an API that does not answer: its Jobs must not pay for that.

    A replica or proxy that was killed comes back by itself; after an `up` that was interrupted
    there is none yet.
    """
    address = str(found.get("address") or "")
    until = clock.monotonic() + (REVIVE_S if address else 0.0)
    while clock.monotonic() < until:
        if state.answers(address):
            return found
        clock.sleep(0.2)
    head = _head(home, state.supervisor(home))
    attach.reach(head.address.address)
    attach.ray_environment(head.address.token_path)
    from rlark.boot import deploy

    with deploy.connected(head.address.address):
        return _finish(home, options, head, deploy, clock)


def _attach(home: Home, options: Options, clock: Clock, ray_address: str) -> Record:
    attach.reach(ray_address)
    token_path = attach.their_token(home)
    attach.ray_environment(token_path)
    from rlark.boot import deploy

    with deploy.connected(ray_address) as context:
        dashboard = str(context.dashboard_url or "")
        if not dashboard:
            raise ClusterError(
                f"The Ray cluster at {ray_address} has no dashboard, and Jobs are started by its Jobs API.",
                hint="start its head with ray[default] installed and --include-dashboard=true",
            )
        address = HeadAddress(
            address=ray_address,
            session=Path(str(context.address_info.get("session_dir") or "")).name,
            dashboard=dashboard if "://" in dashboard else f"http://{dashboard}",
            token_path=token_path,
        )
        there_already = deploy.is_ours(home)
        serve_was_there = deploy.serve_runs()
        if not state.record(home):  # whatever happens from here on, `down` knows where to look
            early = {"attached": True, "head": address.to_json(), "serveWasThere": serve_was_there}
            write_json(home.platform, early)
        try:
            return _finish(home, options, Head(address, None, attached=True), deploy, clock)
        except BaseException:
            if not there_already:
                deploy.undeploy(home, shut_serve=not serve_was_there)
                home.platform.unlink(missing_ok=True)
            raise


def _finish(home: Home, options: Options, head: Head, deploy: Any, clock: Clock) -> Record:
    """Controller, API, `platform.json`."""
    attached = head.attached
    serve_was_there = bool(state.record(home).get("serveWasThere"))  # written before anything was put there
    state.say("Starting controller and API")
    port = deploy.deploy(home, head.address, options.host, options.port, attached=attached)
    address = Options(host=options.host, port=port).address
    deploy.wait_until_answering(address, lambda: None if attached else _lost(home, head.supervisor))
    record: Record = {
        "address": address,
        "dashboard": head.address.dashboard,
        "head": head.address.to_json(),
        "supervisor": head.supervisor.to_json() if head.supervisor else None,
        "attached": attached,
        "serveWasThere": serve_was_there,
        "version": rlark.__version__,
        "startedAt": stamp(clock.now()),
        "gpusFaked": head.gpus_faked,
    }
    write_json(home.platform, record)
    return record


def _check_door(host: str, token: str) -> None:
    """Refuse an address that is not this machine's, and a token that others could guess where others can knock.

    Raises:
        UsageError: what is wrong with `--host` or the token.
    """
    try:
        family, kind, _, _, place = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(place)
    except OSError as error:
        raise UsageError(
            f"--host {host}: this machine cannot listen there: {error.strerror or error}",
            hint="127.0.0.1 for this machine only, one of its addresses, or 0.0.0.0 for all of them",
        ) from None
    if len(token) < SHORTEST_TOKEN and not is_loopback(str(place[0])):
        raise UsageError(
            f"--host {host} lets other machines in, and the token has {len(token)} characters only",
            hint=f"at least {SHORTEST_TOKEN} are needed; make a new one with: rlark token rotate",
        )


def _check_port(port: int, host: str, option: str) -> None:
    """Refuse a port that somebody holds, and name them.

    Raises:
        ClusterError: somebody listens there.
    """
    if not ports.free(port, host):
        holder = ports.holder(port) or "somebody who does not show"
        raise ClusterError(
            f"Port {port} is held by {holder}.", hint=f"end that process, or choose another port: rlark up {option} N"
        )


def _spawn_head(home: Home, options: Options) -> subprocess.Popen[bytes]:
    files = HeadFiles(home.head)
    files.state.unlink(missing_ok=True)
    files.processes.unlink(missing_ok=True)
    state.secret_file(home.ray_token)
    faked = _fakes_gpus(home, options)
    temp_dir = short_temp_dir(home.root)
    _forget_sessions(temp_dir)
    HeadConfig(
        folder=str(home.head),
        temp_dir=str(temp_dir),
        token_path=str(home.ray_token),
        dashboard_port=options.dashboard_port,
        num_cpus=options.num_cpus,
        num_gpus=options.num_gpus,
        labels={NODE_NAME: _label(socket.gethostname())} | dict(options.labels),
        resources={SHM: device.shared_memory()[0] // MIB},
        env=HEAD_ENV,
        fakes_gpus=faked,
    ).write(files.config)
    state.say("Starting a Ray head")
    with files.log.open("ab") as log:
        return process.spawn(
            [sys.executable, "-m", "rlark.host.head", str(files.config)],
            cwd=home.root,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _fakes_gpus(home: Home, options: Options) -> bool:
    """Whether more GPUs are asked for than this machine has."""
    return bool(options.num_gpus) and (options.num_gpus or 0) > len(device.report(home.root).gpus)


def _label(text: str) -> str:
    """A host's name as the value of a Ray label."""
    return re.sub(r"[^A-Za-z0-9_.-]", "-", text)[:63].strip("-_.") or "node"


def _forget_sessions(temp_dir: Path) -> None:
    """Remove what earlier heads of this state directory left, but for the last one's logs."""
    sessions = sorted(temp_dir.glob("session_2*"))
    for old in sessions[:-1]:
        shutil.rmtree(old, ignore_errors=True)


def _await_head(home: Home, starting: subprocess.Popen[bytes], clock: Clock) -> Head:
    """Wait for the supervisor's word.

    Raises:
        ClusterError: the head does not come up; with Ray's reason.
    """
    until = clock.monotonic() + HEAD_S
    while True:
        said = state.head_state(home)
        own = ProcessId.from_json(said.get("supervisor"))
        if own is not None and own.pid == starting.pid and said.get("state") == "ready":
            break
        ended = starting.poll() is not None
        if ended or clock.monotonic() > until:
            reason = str(state.head_state(home).get("error") or f"see {HeadFiles(home.head).log}")
            raise ClusterError(f"The Ray head did not come up: {reason}", hint="rlark doctor looks for the cause")
        clock.sleep(0.02)
    return _head(home, own)


def _head(home: Home, supervisor: ProcessId | None) -> Head:
    """The head that the supervisor's word describes."""
    said = state.head_state(home)
    config = HeadConfig.read(HeadFiles(home.head).config)
    address = HeadAddress(
        address=str(said["address"]),
        session=str(said["session"]),
        dashboard=str(said["dashboard"]),
        token_path=config.token_path,
    )
    return Head(address, supervisor, config.fakes_gpus)


def _lost(home: Home, supervisor: ProcessId | None) -> str | None:
    if supervisor is None or process.alive(supervisor):
        return None
    return f"The Ray head ended while the API started: {state.head_state(home).get('error') or 'no reason given'}"


def _say_found(home: Home, found: Record, options: Options) -> None:
    state.say(f"Already running at {found.get('address')}")
    elsewhere = options.ray_address not in ("", _head_address(found).address)
    if elsewhere or options.shape_the_head:
        state.say("What was asked for has no effect on it; to start it anew: rlark down, then rlark up")
    if not found.get("attached") and state.supervisor(home) is None:
        state.say(
            "Its head's supervisor was killed: nobody would restart its dashboard; `rlark down` still ends all of it"
        )
